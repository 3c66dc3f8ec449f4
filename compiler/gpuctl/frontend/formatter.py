"""``fmt``: rewrites documents in canonical spelling and changes nothing else.

Edits are made in the text, at positions known from the reader, so that comments, quotes, order and layout stay. Changed
are: spellings of keys, ``kind: resource``, blanks at line ends, lines of tabs, mixed line breaks, and a missing or
repeated final line break. The result is read again and must have the same meaning.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.frontend.binder import kind_of
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.field_shapes import ModelShape, Shape, kind_shape, mapping_shape, value_shape
from gpuctl.frontend.source import Source, lines_of
from gpuctl.frontend.yaml_reader import read
from gpuctl.frontend.yaml_tree import RawDocument, YamlNode
from gpuctl.language.kinds import ALIASES, KINDS
from gpuctl.language.spelling import fold

Place = tuple[int, int]
"""Line and column in the source, from 0."""


class Formatted(NamedTuple):
    """A formatted text. If diagnostics prevented formatting, the text is the source's."""

    text: str
    diagnostics: list[Diagnostic]


def format_source(source: Source) -> Formatted:
    """Return the source in canonical form. Documents of other tools keep their keys."""
    documents, diagnostics = _read(source.name, source.text)
    if diagnostics:
        return Formatted(source.text, diagnostics)
    edits: dict[Place, tuple[Place, str]] = {}
    protected: set[int] = set()
    for document in documents:
        _EditCollector(document, edits, protected).walk()
    if not any(_is_ours(document) for document in documents):
        return Formatted(source.text, [])
    lines = lines_of(source.text)
    for (line, start), ((_, end), text) in sorted(edits.items(), reverse=True):
        lines[line] = lines[line][:start] + text + lines[line][end:]
    # A Windows checkout has CRLF: the first line's line break is used for all lines.
    line_break = "\r\n" if re.match(r"[^\r\n]*\r\n", source.text) else "\n"
    meaning = [_meaning(document.root) for document in documents]
    # If editing by position breaks a construct: keep the blanks, and if that fails too, return the source unchanged.
    for text in (line_break.join(_tidy(lines, protected)), line_break.join(lines)):
        again, problems = _read(source.name, text)
        if not problems and [_meaning(document.root) for document in again] == meaning:
            return Formatted(text, [])
    return Formatted(source.text, [])


def _read(name: str, text: str) -> tuple[list[RawDocument], list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    return list(read(Source(name, text, direct=False), diagnostics)), diagnostics


def _is_ours(document: RawDocument) -> bool:
    _, text = kind_of(document.root)
    return ALIASES.get(text or "", text) in KINDS


class _EditCollector:
    """Collects the edits of one document, and the lines that belong to multi-line scalars."""

    def __init__(self, document: RawDocument, edits: dict[Place, tuple[Place, str]], protected: set[int]) -> None:
        self.document = document
        self.first = document.chunk.first_line
        self.edits = edits
        self.protected = protected

    def walk(self) -> None:
        root = self.document.root
        node, text = kind_of(root)
        kind = ALIASES.get(text or "", text or "")
        if node is not None and kind in KINDS:
            if kind != text:
                self._replace(node, kind)
            self._visit(root, kind_shape(kind))
        else:
            # The document of another tool: not a byte of it changes.
            chunk = self.document.chunk
            self.protected.update(range(self.first, self.first + len(lines_of(chunk.text))))

    def _visit(self, node: YamlNode, shape: Shape | None) -> None:
        known = mapping_shape(shape)
        if node.kind == "scalar":
            chunk = self.document.chunk
            first, last = chunk.place(node.start)[0], chunk.place(node.end)[0]
            if last > first:
                self.protected.update(range(first + self.first, last + self.first + 1))
        elif node.kind == "list":
            for item in node.value:
                self._visit(item, value_shape(shape, 0))
        elif isinstance(known, ModelShape):
            self._visit_known(node, known)
        else:
            for key, value in node.value:
                self._visit(key, None)
                self._visit(value, value_shape(shape, key.value))

    def _visit_known(self, node: YamlNode, shape: ModelShape) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            known = shape.fields.get(fold(key.value))
            # If a key is written in two spellings, both stay: the author must decide.
            if known is not None and known[0] != key.value and self._count(node, known[0]) == 1:
                self._replace(key, known[0])
            seen.add(key.value)
            self._visit(value, known[1] if known is not None else None)

    @staticmethod
    def _count(node: YamlNode, canonical: str) -> int:
        return sum(1 for key, _ in node.value if fold(key.value) == fold(canonical))

    def _replace(self, node: YamlNode, text: str) -> None:
        chunk = self.document.chunk
        (line, start), (last, end) = chunk.place(node.start), chunk.place(node.end)
        if line == last:
            self.edits[(line + self.first, start)] = ((line + self.first, end), text)


def _tidy(lines: list[str], protected: set[int]) -> list[str]:
    """Return the lines without blanks at their ends, and with one empty last line, so that the text ends in a line
    break.
    """
    tidied = [line if number in protected else line.rstrip(" \t") for number, line in enumerate(lines)]
    while len(tidied) > 1 and not tidied[-1] and not tidied[-2] and len(tidied) - 2 not in protected:
        tidied.pop()
    if tidied and tidied[-1] and len(tidied) - 1 not in protected:
        tidied.append("")
    return tidied


def _meaning(node: YamlNode) -> object:
    """Return a tree's content without positions and with folded keys, whose spelling may change."""
    if node.kind == "scalar":
        return (node.plain, ALIASES.get(node.value, node.value))
    if node.kind == "list":
        return [_meaning(item) for item in node.value]
    return [(fold(key.value), _meaning(value)) for key, value in node.value]
