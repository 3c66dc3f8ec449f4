"""Finds the position of a field, given by its path, in the text of its document."""

from __future__ import annotations

from functools import lru_cache

from gpuctl.frontend.diagnostics import FieldPath, SourceSpan
from gpuctl.frontend.source import lines_of
from gpuctl.frontend.yaml_tree import Chunk, OptionNode, YamlNode
from gpuctl.language.spelling import fold

_LONG = 32


def within(chunk: Chunk, span: SourceSpan, part: str, earlier: int = 0) -> SourceSpan:
    """Return the span of ``part`` inside a value's span if the source contains it literally, else the value's span.

    :param earlier: number of occurrences to skip.
    """
    if span.file != chunk.source.name:
        return span
    lines = _lines(chunk.text)
    for number in range(span.line, span.end_line + 1):
        line = lines[number - chunk.first_line - 1]
        first = span.column - 1 if number == span.line else 0
        last = span.end_column - 1 if number == span.end_line else len(line)
        found = line.find(part, first, last)
        while found >= 0 and earlier:
            earlier -= 1
            found = line.find(part, found + len(part), last)
        if found >= 0:
            return SourceSpan(span.file, number, found + 1, number, found + 1 + len(part))
    return span


def locate(chunk: Chunk, root: YamlNode, path: FieldPath, *, key: bool = False) -> SourceSpan:
    """Return the span of the value at ``path`` (or of its key), or of the nearest enclosing part that is written."""
    node = root
    key_node: YamlNode | None = None
    for part in path:
        step = child(node, part)
        if step is None:
            key = key or node.kind != "scalar"
            break
        key_node, node = step
    if key_node is None and node is root and root.kind == "mapping" and root.value:
        # The document itself is shown at its `kind` line.
        for candidate, _ in root.value:
            if fold(candidate.value) == "kind":
                return chunk.span(candidate)
        return chunk.span(root.value[0][0])
    if key_node is not None and (key or (node.kind == "mapping" and not chunk.is_on_one_line(node))):
        return chunk.span(key_node)
    return chunk.span(node)


def column_of(chunk: Chunk, root: YamlNode, path: FieldPath) -> int | None:
    """Return the column, from 0, of the key at the end of a path; None if it is not written or is in flow style."""
    node, key = root, None
    for part in path:
        step = child(node, part)
        if step is None or chunk.written(node)[:1] in ("{", "["):
            return None
        key, node = step
    return chunk.place(key.start)[1] if key is not None and not isinstance(key, OptionNode) else None


def texts_at(root: YamlNode, path: FieldPath) -> list[str]:
    """Return the scalars of the list at a path; empty if there is no list."""
    node = value_at(root, path)
    if node is None or node.kind != "list":
        return []
    return [item.value for item in node.value if item.kind == "scalar"]


def value_at(root: YamlNode, path: FieldPath) -> YamlNode | None:
    """Return the value at a path; None if it is not written."""
    node = root
    for part in path:
        step = child(node, part)
        if step is None:
            return None
        node = step[1]
    return node


def child(node: YamlNode, part: str | int) -> tuple[YamlNode | None, YamlNode] | None:
    """Return the child for a path step as (key node or None in a list, value node); None if it does not exist."""
    if isinstance(part, int):
        if node.kind == "list" and part < len(node.value):
            return (None, node.value[part])
        return None
    if node.kind != "mapping":
        return None
    if len(node.value) > _LONG:
        return _child_of_long(node, part)
    for candidate, value in node.value:
        if candidate.value == part:
            return (candidate, value)
    for candidate, value in node.value:
        if fold(candidate.value) == fold(part):
            return (candidate, value)
    return None


def _child_of_long(node: YamlNode, part: str) -> tuple[YamlNode, YamlNode] | None:
    """Implement :func:`child` for a mapping with many keys, with an index: a search per key would be quadratic."""
    if node.keys is None:
        written: dict[str, int] = {}
        folded: dict[str, int] = {}
        for index, (key, _) in enumerate(node.value):
            # A key can be a mapping or a list, which no path contains.
            if isinstance(key.value, str):
                written.setdefault(key.value, index)
                folded.setdefault(fold(key.value), index)
        node.keys = (written, folded)
    written, folded = node.keys
    index = written.get(part, folded.get(fold(part), -1))
    return None if index < 0 else node.value[index]


@lru_cache(maxsize=1)
def _lines(text: str) -> list[str]:
    """Return the lines of a document, which is split once for all its diagnostics."""
    return lines_of(text)
