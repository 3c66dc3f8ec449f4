"""Trees of YAML nodes, which keep the exact text of scalars and where they stand, and the text that a tree is of."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

from gpuctl.frontend.diagnostics import Diagnostic, SourceSpan
from gpuctl.frontend.source import Source, lines_of

SCALAR, MAPPING, SEQUENCE = "scalar", "mapping", "list"
NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class YamlNode:
    """A node of the YAML tree.

    ``value`` is the text of a scalar, the list of ``(key node, value node)`` of a mapping, the list of nodes of a
    sequence. ``plain`` is true for an unquoted scalar, whose meaning depends on the field that it is for. ``start`` and
    ``end`` are offsets in the chunk's text, of which few are ever looked at: :class:`Chunk` makes lines and columns of
    them. ``keys`` are the places of a long mapping's keys, as written and folded, once somebody has asked for one.
    """

    __slots__ = ("end", "keys", "kind", "plain", "start", "value")

    def __init__(self, kind: str, value: Any, start: int, end: int, plain: bool = False) -> None:
        self.kind = kind
        self.value = value
        self.start = start
        self.end = end
        self.plain = plain
        self.keys: tuple[dict[str, int], dict[str, int]] | None = None

    @property
    def is_null(self) -> bool:
        """Whether it is YAML's null: an empty or ``~`` or ``null`` plain scalar."""
        return self.plain and self.kind == SCALAR and self.value in NULLS


class Chunk:
    """A stretch of a source that is parsed on its own, so that a syntax error in one document leaves the others."""

    __slots__ = ("_line_starts", "end", "first_line", "source", "start", "trees")

    def __init__(self, source: Source, start: int, end: int, first_line: int) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.first_line = first_line
        self._line_starts: list[int] | None = None
        self.trees: list[YamlNode] | None = None

    @property
    def text(self) -> str:
        """The chunk's text."""
        return self.source.text[self.start : self.end]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in the chunk's text, both counted from 0.

        One character after the end is a line of its own, where YAML ends the blocks of a text without a last newline.
        """
        if self._line_starts is None:
            self._line_starts = starts = [0]
            text, position = self.text, 0
            for content in lines_of(text):
                position += len(content)
                position += 2 if text.startswith("\r\n", position) else 1
                starts.append(position)
        line = bisect_right(self._line_starts, offset) - 1
        return line, offset - self._line_starts[line]

    def span(self, node: YamlNode) -> SourceSpan:
        """Where a node stands in the source. Of a block mapping or list only the first line is marked."""
        (line, column), (end_line, end_column) = self.place(node.start), self.place(node.end)
        if node.kind != SCALAR and end_line != line:
            return self.point(line, column)
        first = self.first_line + 1
        return SourceSpan(self.source.name, line + first, column + 1, end_line + first, end_column + 1)

    def is_on_one_line(self, node: YamlNode) -> bool:
        """Whether a node ends in the line in which it starts."""
        return self.place(node.start)[0] == self.place(node.end)[0]

    def point(self, line: int, column: int) -> SourceSpan:
        """One character, counted from 0 within the chunk."""
        first = line + self.first_line + 1
        return SourceSpan(self.source.name, first, column + 1, first, column + 2)


class RawDocument(NamedTuple):
    """One YAML document: its tree, and where it comes from (the n-th document of a chunk)."""

    chunk: Chunk
    number: int
    root: YamlNode


class ReadError(Exception):
    """The chunk is not acceptable YAML; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
