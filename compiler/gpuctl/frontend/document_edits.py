"""Sets fields in the text of a document. Everything else stays: comments, quotes, order, blanks and line breaks.

Edits are made at the positions of the reader's tree. A YAML library that parses and writes the file would lose the
blanks inside of lines and the layout of lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuctl.frontend.diagnostics import FieldPath, format_path
from gpuctl.frontend.field_assignments import Assignment, plain_data
from gpuctl.frontend.field_shapes import FreeShape, ModelShape, Shape, UnionShape, value_shape
from gpuctl.frontend.source import Source
from gpuctl.frontend.spans import child, value_at
from gpuctl.frontend.yaml_reader import read
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, RawDocument, YamlNode

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


class CannotSet(Exception):
    """A field cannot be set; ``hint`` is what to do instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def with_field(source: Source, place: int, shape: ModelShape, item: Assignment) -> str:
    """Return the source's text with a value set in one of its documents.

    :param place: the document's number in the source.
    :param shape: the shape of its kind.
    :raises CannotSet: the path leads through a value that has no fields, or the text cannot be edited.
    """
    raws = _documents(source.name, source.text)
    raw = raws[place]
    quoted = json.dumps(item.value.value, ensure_ascii=False) if item.value.kind == SCALAR else None
    for written in (item.written.strip(), quoted):
        if written is None:
            continue
        edit = _Edit(raw, written, item)
        path = edit.apply(shape)
        text = source.text[: raw.chunk.start] + edit.text + source.text[raw.chunk.end :]
        if _is_as_meant(source.name, text, raws, place, path, item):
            return text
    raise CannotSet(f"`{format_path(item.path)}` cannot be set in this layout", "edit the file by hand")


def without_field(source: Source, place: int, path: FieldPath) -> str:
    """Return the source's text without a field of one of its documents, and without the blocks that are empty then.

    :param place: the document's number in the source.
    :raises CannotSet: the field is written in another part of the file, or the text cannot be edited.
    """
    raws = _documents(source.name, source.text)
    chunk, node = raws[place].chunk, raws[place].root
    pairs: list[tuple[YamlNode, YamlNode, YamlNode]] = []
    for step in path:
        found = child(node, step)
        assert found is not None, "the field is written"
        pairs.append((node, found[0] or node, found[1]))
        node = found[1]
    while len(pairs) > 1 and len(pairs[-1][0].value) == 1:
        pairs.pop()
    steps = zip(path, pairs, strict=False)
    written = tuple(step if isinstance(step, int) else str(key.value) for step, (_, key, _) in steps)
    start, end = _extent(chunk.text, *pairs[-1])
    first = source.text[: chunk.start] + chunk.text[:start]
    text = first + chunk.text[end:] + source.text[chunk.end :]
    after = _documents(source.name, text)
    if not _same_beside(raws, after, place, written) or value_at(after[place].root, written) is not None:
        at = format_path(path)
        raise CannotSet(f"`{at}` cannot stay, and cannot be removed in this layout", "remove it by hand")
    return text


def _extent(text: str, block: YamlNode, key: YamlNode, value: YamlNode) -> tuple[int, int]:
    """Return the start and the end of a field's text: with the comma beside it, or whole lines."""
    start, end = key.start, max(_last(text, value), key.end)
    rest = r"[^\r\n]*(\r?\n)?"
    if text[block.start : block.start + 1] == "{":
        rest = r"[ \t]*\r?\n"
        after = re.compile(r"\s*,[ \t]*").match(text, end)
        before = re.compile(r",\s*\Z").search(text, block.start, start)
        if after is not None:
            end = after.end()
        elif before is not None:
            start = before.start()
    line_start, line = text.rfind("\n", 0, start) + 1, re.compile(rest).match(text, end)
    is_whole = line is not None and not text[line_start:start].strip()
    if line is not None and text[line_start:start].strip() == "-":
        # The next field takes its place behind the dash of the list's item.
        following = min((other.start for other, _ in block.value if other.start > start), default=end)
        return start, following if not text[line.end() : following].strip() else end
    return (line_start, line.end()) if line is not None and is_whole else (start, end)


def _documents(name: str, text: str) -> list[RawDocument]:
    return list(read(Source(name, text), []))


def _is_as_meant(
    name: str, text: str, before: list[RawDocument], place: int, path: FieldPath, item: Assignment
) -> bool:
    """Return True if the text has the value at the path, and otherwise the same content as before."""
    after = _documents(name, text)
    if not _same_beside(before, after, place, path):
        return False
    node = value_at(after[place].root, path)
    value = plain_data(item.value)
    entry = {"name": item.path[-1], **(value if isinstance(value, dict) else {"value": value})}
    return node is not None and plain_data(node) in (value, entry)


def _same_beside(before: list[RawDocument], after: list[RawDocument], place: int, path: FieldPath) -> bool:
    """Return True if two texts have the same content, except at a path of one document."""
    if len(after) != len(before):
        return False
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        leaves = [dict(_leaves(raw.root, ())) for raw in (old, new)]
        if number == place:
            leaves = [{at: leaf for at, leaf in found.items() if not _is_along(at, path)} for found in leaves]
        if leaves[0] != leaves[1]:
            return False
    return True


def _is_along(leaf: FieldPath, path: FieldPath) -> bool:
    """Return True for a leaf below or at a path, or at a part of it that had no content before."""
    length = min(len(leaf), len(path))
    return leaf[:length] == path[:length]


def _leaves(node: YamlNode, path: FieldPath) -> Iterator[tuple[FieldPath, tuple[bool, Any]]]:
    """Yield the path and the value of each scalar and empty collection."""
    if node.kind == SCALAR or not node.value:
        yield path, (node.plain, node.value or "")
    elif node.kind == MAPPING:
        for key, value in node.value:
            yield from _leaves(value, (*path, key.value))
    else:
        for index, value in enumerate(node.value):
            yield from _leaves(value, (*path, index))


class _Edit:
    """The edit of one document. ``text``: its text; offsets are those of the reader's nodes."""

    def __init__(self, raw: RawDocument, written: str, item: Assignment) -> None:
        self.raw = raw
        self.text = raw.chunk.text
        self.written = written
        self.item = item
        self.line_break = "\r\n" if "\r\n" in self.text else "\n"

    def apply(self, shape: Shape | None) -> FieldPath:
        """Make the edit, and return the path of the value as the text spells it."""
        path: list[str | int] = []
        key, node = None, self.raw.root
        steps = list(self.item.path)
        while steps:
            if path and path[-1] == "env" and node.kind == SEQUENCE and isinstance(steps[0], str):
                steps[:1] = self._variable(node, steps)
            found = self._own_child(node, steps[0])
            if isinstance(shape, UnionShape):
                shape = getattr(shape, node.kind)
            if found is None:
                path += self._insert(key, node, steps, shape, tuple(path))
                return tuple(path)
            key, node = found[0] or key, found[1]
            shape = value_shape(shape, steps[0])
            path.append(key.value if isinstance(steps[0], str) and key is not None else steps[0])
            steps.pop(0)
            if steps and self.text[node.start : node.start + 1] == "*":
                at = format_path(tuple(path))
                raise CannotSet(f"`{at}` is an alias of another part of the file", "set the field of its anchor")
        self._replace(key, node, isinstance(shape, FreeShape))
        return tuple(path)

    def _own_child(self, node: YamlNode, step: str | int) -> tuple[YamlNode | None, YamlNode] | None:
        """Return a child that is written in the node itself; one that a YAML merge key adds does not count."""
        found = child(node, step)
        if found is not None and found[0] is not None and not node.start <= found[0].start < node.end:
            return None
        return found

    def _variable(self, listed: YamlNode, steps: list[str | int]) -> list[str | int]:
        """Return the steps to a variable in a list, given by its name."""
        for index, entry in enumerate(listed.value):
            name = child(entry, "name")
            if name is not None and name[1].value == steps[0]:
                if len(steps) == 1 and child(entry, "value") is None:
                    raise CannotSet(f"the variable `{steps[0]}` has no `value`", f"set `environment.env[{index}]`")
                return [index, "value"] if len(steps) == 1 else [index]
        return [len(listed.value)]

    def _replace(self, key: YamlNode | None, node: YamlNode, is_free: bool) -> None:
        """Replace a value. Quotes stay, unless the value is Kubernetes' and they would change its type."""
        old, written = self.text[node.start : node.end], self.written
        value = self.item.value
        if node.kind == SCALAR and old[:1] in ("'", '"') and value.kind == SCALAR and value.plain and not is_free:
            doubled = value.value.replace("'", "''")
            written = f"'{doubled}'" if old[0] == "'" else json.dumps(value.value, ensure_ascii=False)
        start, end = node.start, _last(self.text, node)
        if node.is_null and not old:
            written = f" {written}"
        elif node.kind != SCALAR and old[:1] not in ("{", "[", "*") and key is not None and key.start < node.start:
            # A block collection starts on the line after its key.
            colon = self.text.index(":", key.end)
            start, written = colon + 1, f" {written}"
        self.text = self.text[:start] + written + self.text[end:]

    def _insert(
        self, key: YamlNode | None, node: YamlNode, steps: list[str | int], shape: Shape | None, path: FieldPath
    ) -> list[str | int]:
        """Add the fields of ``steps`` to the block ``node``, and return their names."""
        at = format_path(path) or "the document"
        is_entry = node.kind == SEQUENCE and steps[0] == len(node.value)
        index = next(
            (place for place, step in enumerate(steps) if isinstance(step, int) and (place or not is_entry)), None
        )
        if index is not None:
            raise CannotSet(
                f"`{format_path((*path, *steps[:index]))}` has no item {steps[index]}", "set the whole list"
            )
        names: list[str | int] = []
        for step in steps:
            known = shape.find(str(step)) if isinstance(shape, ModelShape) else None
            names.append(known[0] if known is not None else step)
            shape = value_shape(shape, step)
        if node.is_null:
            self._put(node.start, f" {self._flow(names)}")
        elif node.kind == SCALAR or (node.kind == SEQUENCE and not is_entry):
            raise CannotSet(f"`{at}` has no fields", "set it as a whole")
        elif self.text[node.start : node.start + 1] in ("{", "["):
            inner = self._entry() if is_entry else self._flow(names)[1:-1]
            self._put(self._last_part(node) or node.start + 1, f", {inner}" if node.value else inner)
        else:
            self._insert_lines(node, names, is_entry=is_entry)
        return names

    def _insert_lines(self, node: YamlNode, names: list[str | int], *, is_entry: bool) -> None:
        """Add lines below the last one of a block."""
        parts = [pair[0] for pair in node.value] if node.kind == MAPPING else node.value
        own = [part for part in parts if node.start <= part.start < node.end]
        if not own:
            raise CannotSet("this block consists of a merge key only", "edit the file by hand")
        line_start = self.text.rfind("\n", 0, own[0].start) + 1
        first = self.text.rfind("-", line_start, own[0].start) if is_entry else own[0].start
        indent = first - line_start
        lines = []
        for depth, name in enumerate(names):
            lines.append(" " * (indent + 2 * depth) + f"{_key(name)}:")
        lines[-1] += f" {self.written}"
        if is_entry:
            lines = [" " * indent + f"- {self._entry()}"]
        end = re.compile(r"\r?\n|\Z").search(self.text, _last(self.text, node))
        self._put(end.start() if end else len(self.text), "".join(self.line_break + line for line in lines))

    def _last_part(self, node: YamlNode) -> int | None:
        """Return the end of the last entry of a flow collection."""
        return max((_last(self.text, part) for part in _parts(node)), default=None)

    def _entry(self) -> str:
        name = _key(self.item.path[-1])
        if self.item.value.kind == MAPPING and self.written.startswith("{"):
            return f"{{name: {name}, {self.written[1:]}"
        return f"{{name: {name}, value: {self.written}}}"

    def _flow(self, names: list[str | int]) -> str:
        text = self.written
        for name in reversed(names):
            text = f"{{{_key(name)}: {text}}}"
        return text

    def _put(self, place: int, text: str) -> None:
        self.text = self.text[:place] + text + self.text[place:]


def _key(name: str | int) -> str:
    return str(name) if _PLAIN_KEY.fullmatch(str(name)) else json.dumps(name, ensure_ascii=False)


def _last(text: str, node: YamlNode) -> int:
    """Return the end of a value without the blanks and comments after it."""
    if node.kind == SCALAR or text[node.start : node.start + 1] in ("{", "[", "*"):
        return node.start + len(text[node.start : node.end].rstrip())
    own = [part for part in _parts(node) if node.start <= part.start < node.end]
    ends = [max(_last(text, part), part.start) for part in own]
    return max(ends, default=node.end)


def _parts(node: YamlNode) -> list[YamlNode]:
    """Return the keys and values of a mapping, or the items of a sequence."""
    return [part for pair in node.value for part in pair] if node.kind == MAPPING else node.value
