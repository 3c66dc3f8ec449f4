"""Trees of YAML nodes with the exact text and position of each scalar, and the chunks of source they come from."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

from gpuctl.frontend.diagnostics import Diagnostic, SourceSpan
from gpuctl.frontend.source import Source, lines_of

SCALAR, MAPPING, SEQUENCE = "scalar", "mapping", "list"
NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class YamlNode:
    """A node of the YAML tree.

    ``value``: the text of a scalar, the ``(key node, value node)`` pairs of a mapping, or the nodes of a sequence.
    ``plain``: True for an unquoted scalar, whose meaning depends on its field. ``start`` and ``end``: offsets in the
    chunk's text; :class:`Chunk` converts the few that are needed to lines and columns. ``keys``: index of a long
    mapping's keys, as written and folded, built on first use.
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
        """True for YAML's null: an empty, ``~`` or ``null`` plain scalar."""
        return self.plain and self.kind == SCALAR and self.value in NULLS

    def with_value(self, value: Any) -> YamlNode:
        """Return a node with another value at the same position."""
        return YamlNode(self.kind, value, self.start, self.end, self.plain)


class OptionNode(YamlNode):
    """A node that an option adds to a document. Its position is in ``chunk``, which holds the option's text."""

    __slots__ = ("chunk",)

    def __init__(self, kind: str, value: Any, start: int, end: int, plain: bool, chunk: Chunk) -> None:
        super().__init__(kind, value, start, end, plain)
        self.chunk = chunk

    def with_value(self, value: Any) -> YamlNode:
        return OptionNode(self.kind, value, self.start, self.end, self.plain, self.chunk)


class Chunk:
    """A part of a source that is parsed on its own, so that a syntax error affects one document only."""

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
        return self.source.text[self.start : self.end]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and column, from 0, of an offset in the chunk's text.

        The offset one past the end is on a line of its own, where YAML ends the blocks of a text without a final
        newline.
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

    def holding(self, node: YamlNode) -> Chunk:
        """Return the chunk that a node of this chunk's document has its position in."""
        return node.chunk if isinstance(node, OptionNode) else self

    def written(self, node: YamlNode) -> str:
        """Return the text of a node as written."""
        return self.holding(node).text[node.start : node.end]

    def span(self, node: YamlNode) -> SourceSpan:
        """Return the span of a node. A block mapping or list is marked at its start only."""
        if isinstance(node, OptionNode) and node.chunk is not self:
            return node.chunk.span(node)
        (line, column), (end_line, end_column) = self.place(node.start), self.place(node.end)
        if node.kind != SCALAR and end_line != line:
            return self.point(line, column)
        first = self.first_line + 1
        return SourceSpan(self.source.name, line + first, column + 1, end_line + first, end_column + 1)

    def is_on_one_line(self, node: YamlNode) -> bool:
        """Return True if a node starts and ends on the same line."""
        chunk = self.holding(node)
        return chunk.place(node.start)[0] == chunk.place(node.end)[0]

    def point(self, line: int, column: int) -> SourceSpan:
        """Return the span of one character, given by line and column from 0 in the chunk."""
        first = line + self.first_line + 1
        return SourceSpan(self.source.name, first, column + 1, first, column + 2)


class RawDocument(NamedTuple):
    """One YAML document: its tree, its chunk, and its number in the chunk. ``is_overridden``: the tree has values of
    options.
    """

    chunk: Chunk
    number: int
    root: YamlNode
    is_overridden: bool = False


class ReadError(Exception):
    """The chunk is not valid YAML; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
