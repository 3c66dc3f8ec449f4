"""YAML 1.2 text to trees of nodes that keep the exact text of scalars and their positions.

libyaml scans (its marks count code points), and the tree is built here from its events, because resolution is ours:
a plain ``2e-5`` or ``yes`` stays text until a field says what it is. libyaml implements YAML 1.1; where 1.2 differs
in what people write, this module makes up for it:

- a line of blanks and tabs is an empty line (libyaml refuses it outside scalars);
- NEL, LS and PS are ordinary characters, not line breaks;
- a ``?`` inside brackets is part of the text that follows it directly (libyaml takes it for the mark of a key);
- ``<<`` is not YAML 1.2, but existing files use it, so it merges as in 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from yaml import events as yaml_events
from yaml._yaml import CParser

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, Span
from gpuctl.frontend.source import Source, lines_of
from gpuctl.frontend.syntax import character_error, syntax_error
from gpuctl.language.kinds import ALIASES, KINDS
from gpuctl.language.text import shorten

MAX_DEPTH = 64
MAX_EXPANDED = 100_000
_SCALAR, _MAPPING, _SEQUENCE = "scalar", "mapping", "list"

_BOUNDARY = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_DIRECTIVE = r"(?m)^%"
_TAB_LINE = r"(?m)^[ ]*\t[ \t]*(?=\r?$)"
_RESHAPED = "\x85\u2028\u2029\ufeff"
_RESHAPED_PATTERN = f"[{_RESHAPED}]"
_KNOWN_TAGS = {"tag:yaml.org,2002:str": False, "!": False}
_OURS = rf"(?mi)^[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?({'|'.join([*KINDS, *ALIASES])})\b"
"""A line that makes a document one of gpuctl's, for text that cannot be read."""
_AFTER_MARK = frozenset({"", " ", "\t", "\r", "\n", ",", "[", "]", "{", "}"})
_MOST_ROUNDS = 8
"""How often a chunk is scanned again because a ``?`` turned out to be text: each round finds all that can be seen."""
_OTHERS = (r"(?m)^apiVersion:[ \t]+\S", r"(?m)^kind:[ \t]+\S")
"""Lines that make a document a Kubernetes manifest, such as a Helm template, which is no YAML."""
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Node:
    """A node of the YAML tree.

    ``value`` is the text of a scalar, the list of ``(key node, value node)`` of a mapping, the list of nodes of a
    sequence. ``plain`` is true for an unquoted scalar, whose meaning depends on the field that it is for. ``keys`` are
    the places of a long mapping's keys, as written and folded, once somebody has asked for one.
    """

    __slots__ = ("end", "keys", "kind", "plain", "start", "value")

    def __init__(self, kind: str, value: Any, start: Any, end: Any, plain: bool = False) -> None:
        self.kind = kind
        self.value = value
        self.start = start
        self.end = end
        self.plain = plain
        self.keys: tuple[dict[str, int], dict[str, int]] | None = None

    @property
    def is_null(self) -> bool:
        """Whether it is YAML's null: an empty or ``~`` or ``null`` plain scalar."""
        return self.kind == _SCALAR and self.plain and self.value in _NULLS


class Chunk(NamedTuple):
    """A stretch of a source that is parsed on its own, so that a syntax error in one document leaves the others."""

    source: Source
    start: int
    end: int
    first_line: int

    @property
    def text(self) -> str:
        """The chunk's text."""
        return self.source.text[self.start : self.end]

    def span(self, node: Node) -> Span:
        """Where a node stands in the source. Of a block mapping or list only the first line is marked."""
        start, end = node.start, node.end
        if node.kind != _SCALAR and end.line != start.line:
            return self.point(start.line, start.column)
        return Span(
            self.source.name,
            start.line + self.first_line + 1,
            start.column + 1,
            end.line + self.first_line + 1,
            end.column + 1,
        )

    def point(self, line: int, column: int) -> Span:
        """One character, counted from 0 within the chunk."""
        first = line + self.first_line + 1
        return Span(self.source.name, first, column + 1, first, column + 2)


class RawDocument(NamedTuple):
    """One YAML document: its tree, and where it comes from (the n-th document of a chunk)."""

    chunk: Chunk
    number: int
    root: Node


class ReadError(Exception):
    """The chunk is not acceptable YAML; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read(source: Source, diagnostics: list[Diagnostic]) -> Iterator[RawDocument]:
    """The documents of a source, one after another, so that one tree at a time is in memory.

    What is wrong with the YAML is appended to ``diagnostics``. An empty source is an error when it was named directly.
    """
    before = len(diagnostics)
    empty = True
    for chunk in split(source):
        try:
            for number, root in enumerate(compose(chunk, diagnostics)):
                if not root.is_null:
                    empty = False
                    yield RawDocument(chunk, number, root)
        except ReadError as error:
            if source.direct or re.search(_OURS, chunk.text):
                diagnostics.append(error.diagnostic)
            else:
                code = "GPU105" if all(re.search(line, chunk.text) for line in _OTHERS) else "GPU107"
                message = f"a document that is not ours cannot be read as YAML: left alone ({error.diagnostic.message})"
                diagnostics.append(Diagnostic(Severity.NOTE, code, message, error.diagnostic.span))
    if empty and len(diagnostics) == before:
        message, span = "there is no document in this file", Span(source.name, 1, 1, 1, 1)
        if source.direct:
            hint = "start with `gpuctl init training`, or name another file"
            diagnostics.append(Diagnostic(Severity.ERROR, "GPU009", message, span, hint=hint))
        else:
            hint = "it is empty or holds only comments; remove it if that is intended"
            diagnostics.append(Diagnostic(Severity.NOTE, "GPU012", message, span, hint=hint))


def split(source: Source) -> Iterator[Chunk]:
    """The source cut at its ``---`` lines; as a whole when it has directives, which belong to what follows them."""
    text = source.text
    starts = [0]
    if not re.search(_DIRECTIVE, text):
        starts += [match.start() for match in _BOUNDARY.finditer(text) if match.start() > 0]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield Chunk(source, start, end, line)
        line += len(lines_of(text[start:end])) - 1


def recompose(chunk: Chunk, index: int) -> Node:
    """The tree of a document that was read before; trees are not kept, they are large."""
    return compose(chunk, [])[index]


def compose(chunk: Chunk, diagnostics: list[Diagnostic]) -> list[Node]:
    """The trees of a chunk's documents.

    Duplicate keys are appended to ``diagnostics`` and reading goes on; anything else that is not acceptable YAML
    raises :class:`ReadError`.
    """
    text = chunk.text
    restore: dict[int, str] = {}
    if re.search(_RESHAPED_PATTERN, text):
        text, restore = _reshape(text)
    try:
        return _compose(chunk, text, restore, diagnostics)
    except yaml.MarkedYAMLError as error:
        if not re.search(_TAB_LINE, text):
            raise ReadError(syntax_error(chunk, error)) from None
    # libyaml refuses lines of blanks and tabs between entries. With blanks for their tabs the structure can be seen;
    # those that turn out to stand inside a scalar get their tabs back.
    blanked = re.sub(_TAB_LINE, lambda match: " " * len(match[0]), text)
    try:
        found: list[Diagnostic] = []
        roots = _compose(chunk, blanked, restore, found)
        inside = _lines_of_scalars(roots)
        if inside:
            pairs = zip(blanked.split("\n"), text.split("\n"), strict=True)
            lines = [old if number in inside else new for number, (new, old) in enumerate(pairs)]
            found = []
            roots = _compose(chunk, "\n".join(lines), restore, found)
    except yaml.MarkedYAMLError as error:
        raise ReadError(syntax_error(chunk, error)) from None
    diagnostics += found
    return roots


def _compose(chunk: Chunk, text: str, restore: dict[int, str], diagnostics: list[Diagnostic]) -> list[Node]:
    for _ in range(_MOST_ROUNDS):
        found: list[Diagnostic] = []
        composer = _Composer(chunk, restore, found)
        try:
            roots = composer.compose(text)
        except yaml.reader.ReaderError as error:
            raise ReadError(character_error(chunk, text, error)) from None
        if not composer.marks:
            diagnostics += found
            return roots
        text, restore = _as_text(text, composer.marks, restore)
    mark = composer.marks[0]
    hint = "quote the text that starts with it"
    span = chunk.point(mark.line, max(mark.column - 1, 0))
    raise ReadError(Diagnostic(Severity.ERROR, "GPU004", "a `?` in brackets starts a key", span, hint=hint))


def _as_text(text: str, marks: list[Any], restore: dict[int, str]) -> tuple[str, dict[int, str]]:
    """The text with a stand-in for each ``?`` directly before one of the marks, and the table that brings it back."""
    stand_in = next((chr(code) for code, character in restore.items() if character == "?"), None)
    if stand_in is None:
        stand_in = next(_stand_ins(text))
        restore = {**restore, ord(stand_in): "?"}
    characters = list(text)
    for mark in marks:
        characters[mark.index - 1] = stand_in
    return "".join(characters), restore


def _lines_of_scalars(nodes: list[Node]) -> set[int]:
    """The lines, from 0, over which scalars of several lines stretch."""
    lines: set[int] = set()
    for node in nodes:
        if node.kind is _SCALAR:
            if node.end.line > node.start.line:
                lines.update(range(node.start.line, node.end.line + 1))
        elif node.kind is _SEQUENCE:
            lines |= _lines_of_scalars(node.value)
        else:
            lines |= _lines_of_scalars([part for pair in node.value for part in pair])
    return lines


def _reshape(text: str) -> tuple[str, dict[int, str]]:
    """Stand-ins for the characters that YAML 1.1 treats as line breaks, and the table that brings them back."""
    table = {ord(character): stand_in for character, stand_in in zip(_RESHAPED, _stand_ins(text), strict=False)}
    return text.translate(table), {ord(stand_in): chr(character) for character, stand_in in table.items()}


def _stand_ins(text: str) -> Iterator[str]:
    """Characters of the private use area that the text does not have."""
    present = set(text)
    return (chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in present)


class _Composer:
    """Builds trees from the events of one chunk."""

    def __init__(self, chunk: Chunk, restore: dict[int, str], diagnostics: list[Diagnostic]) -> None:
        self.chunk = chunk
        self.restore = restore
        self.diagnostics = diagnostics
        self.anchors: dict[str, Node] = {}
        self.weights: dict[int, int] = {}
        self.expanded = 0
        self.marks: list[Any] = []
        """Where something starts directly after a ``?`` that libyaml took for the mark of a key."""

    def compose(self, text: str) -> list[Node]:
        next_event = CParser(text).get_event
        roots: list[Node] = []
        parents: list[tuple[Node, str | None]] = []
        children: list[Node] = roots
        restore = self.restore
        question = "?" in text
        scalar_event, mapping_start, sequence_start = (
            yaml_events.ScalarEvent,
            yaml_events.MappingStartEvent,
            yaml_events.SequenceStartEvent,
        )
        while True:
            event: Any = next_event()
            kind = type(event)
            if kind is scalar_event:
                value = event.value
                if question:
                    self._note_question(text, event.start_mark)
                if restore:
                    value = value.translate(restore)
                plain = event.style is None or event.style == ""
                node = Node(_SCALAR, value, event.start_mark, event.end_mark, plain)
                if event.tag is not None:
                    self._check_tag(event, node)
                if event.anchor is not None:
                    self.anchors[event.anchor] = node
                children.append(node)
            elif kind is mapping_start or kind is sequence_start:
                if len(parents) >= MAX_DEPTH:
                    raise self._error(
                        "GPU008", f"nested deeper than {MAX_DEPTH} levels", event.start_mark, "flatten the document"
                    )
                if question:
                    self._note_question(text, event.start_mark)
                form = _MAPPING if kind is mapping_start else _SEQUENCE
                node = Node(form, [], event.start_mark, event.end_mark)
                if event.tag is not None:
                    self._check_tag(event, node)
                children.append(node)
                parents.append((node, event.anchor))
                children = node.value
            elif kind is yaml_events.MappingEndEvent or kind is yaml_events.SequenceEndEvent:
                node, anchor = parents.pop()
                node.end = event.end_mark
                if node.kind is _MAPPING:
                    node.value = self._pairs(node.value)
                if anchor is not None:
                    self.anchors[anchor] = node
                children = self._children(parents, roots)
            elif kind is yaml_events.AliasEvent:
                children.append(self._alias(event))
            elif kind is yaml_events.DocumentStartEvent:
                self.anchors = {}
            elif kind is yaml_events.StreamEndEvent:
                return roots

    def _note_question(self, text: str, mark: Any) -> None:
        """YAML 1.2, rule ns-plain-first: a ``?`` marks a key only when a blank or a bracket's sign comes after it."""
        index = mark.index
        if index and text[index - 1] == "?" and text[index : index + 1] not in _AFTER_MARK:
            self.marks.append(mark)

    @staticmethod
    def _children(parents: list[tuple[Node, str | None]], roots: list[Node]) -> list[Node]:
        value: list[Node] = parents[-1][0].value if parents else roots
        return value

    def _alias(self, event: Any) -> Node:
        target = self.anchors.get(event.anchor)
        if target is None:
            raise self._error(
                "GPU007",
                f"the alias `*{event.anchor}` refers to no anchor before it, or to itself",
                event.start_mark,
                f"define `&{event.anchor}` earlier in the same document, outside of what it names",
            )
        self.expanded += self._weight(target)
        if self.expanded > MAX_EXPANDED:
            raise self._error(
                "GPU007",
                f"the document's aliases expand to more than {MAX_EXPANDED} values",
                event.start_mark,
                "write the values out, or use fewer aliases",
            )
        # A node of its own: the same content, at the place of the alias.
        return Node(target.kind, target.value, event.start_mark, event.end_mark, target.plain)

    def _weight(self, node: Node) -> int:
        """The number of scalars and collections below a node, with aliases written out."""
        if node.kind is _SCALAR:
            return 1
        key = id(node.value)
        weight = self.weights.get(key)
        if weight is None:
            parts = [part for pair in node.value for part in pair] if node.kind is _MAPPING else node.value
            weight = 1 + sum(self._weight(part) for part in parts)
            self.weights[key] = weight
        return weight

    def _check_tag(self, event: Any, node: Node) -> None:
        tag = event.tag
        if node.kind is _SCALAR and tag in _KNOWN_TAGS:
            node.plain = False
        elif (node.kind, tag) not in {
            (_MAPPING, "tag:yaml.org,2002:map"),
            (_SEQUENCE, "tag:yaml.org,2002:seq"),
            (_MAPPING, "!"),
            (_SEQUENCE, "!"),
        }:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error(
                "GPU010", f"the YAML tag `{shorten(shown)}` has no meaning here", event.start_mark, "remove it"
            )

    def _pairs(self, flat: list[Node]) -> list[tuple[Node, Node]]:
        keys = flat[0::2]
        pairs = list(zip(keys, flat[1::2], strict=True))
        texts = [key.value for key in keys if key.kind is _SCALAR]
        if len(texts) != len(keys):
            bad = next(key for key in keys if key.kind is not _SCALAR)
            raise self._error(
                "GPU004",
                "a key must be text, and this one is a " + bad.kind,
                bad.start,
                "quote it if `{{...}}` was meant as text" if bad.kind is _MAPPING else "quote it",
            )
        if any(key.value == "<<" and key.plain for key in keys):
            pairs = self._merged(pairs)
        if len(set(texts)) != len(texts):
            pairs = self._without_duplicates(pairs)
        return pairs

    def _without_duplicates(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        first: dict[str, Node] = {}
        kept = []
        for key, value in pairs:
            earlier = first.setdefault(key.value, key)
            if earlier is key:
                kept.append((key, value))
                continue
            self.diagnostics.append(
                Diagnostic(
                    Severity.ERROR,
                    "GPU006",
                    f"the key `{shorten(key.value)}` stands twice in one mapping",
                    self.chunk.span(key),
                    hint="remove one of the two",
                    related=(Related("first here", self.chunk.span(earlier)),),
                )
            )
        return kept

    def _merged(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """``<<: *base`` replaced by the entries of ``base`` that the mapping does not have itself."""
        own = [(key, value) for key, value in pairs if not (key.value == "<<" and key.plain)]
        present = {key.value for key, _ in own}
        for key, value in pairs:
            if not (key.value == "<<" and key.plain):
                continue
            bases = value.value if value.kind is _SEQUENCE else [value]
            for base in bases:
                if base.kind is not _MAPPING:
                    raise self._error(
                        "GPU007",
                        "`<<` merges mappings, and this is not one",
                        base.start,
                        "refer to a mapping: `<<: *name`",
                    )
                for base_key, base_value in base.value:
                    if base_key.value not in present:
                        present.add(base_key.value)
                        own.append((base_key, base_value))
        self.expanded += len(own)
        if self.expanded > MAX_EXPANDED:
            raise self._error("GPU007", "the document's aliases expand too far", pairs[0][0].start, "use fewer aliases")
        return own

    def _error(self, code: str, message: str, mark: Any, hint: str) -> ReadError:
        span = self.chunk.point(mark.line, mark.column)
        return ReadError(Diagnostic(Severity.ERROR, code, message, span, hint=hint))
