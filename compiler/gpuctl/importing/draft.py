"""A document while it is imported: its fields in order, each with the source line that it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gpuctl.backend.emitter import emit_object
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.templates import escape_document
from gpuctl.importing.line_ledger import Lines, line_numbers, placed
from gpuctl.language.display_text import visible
from gpuctl.language.kinds import VERSION
from gpuctl.language.settings import Settings

COMMAND = "environment.command"
"""The path of the field that scripts of other tools become."""
NEED_JOBSET = "Roles need JobSet: `training: {backend: jobset}` in the settings of the platform."
"""The comment of documents with roles."""
_WIDEST = 100
"""Maximum width of a list on one line."""
_HEADS: dict[str, tuple[str, ...]] = {
    "job": ("name", "namespace", "priority", "description"),
    "environment": ("image", "imagePullSecret", "command", "args", "workdir", "env"),
    "resources": ("pool", "queue", "nodes", "gpu", "gpu-type", "gpu-profile", "cpu", "memory", "shm"),
}
_BLOCKS = ("job", "environment", "code", "resources", "storage")
"""The order of blocks and of their fields in starter documents."""


class Draft:
    """A document in the making.

    Fields are set by path, such as ``resources.gpu``. The comment of a field is the line, or the range of lines, of the
    source. ``lines``: the lines of the source for those of a text inside of it, while that text is read.

    :param settings: those of the platform.
    """

    def __init__(self, kind: str, source: str, tool: str, settings: Settings | None = None) -> None:
        self.kind = kind
        self.settings = settings or Settings()
        self.head = [f"Imported from {source} ({tool})."]
        self.lines: Mapping[int, range] = MappingProxyType({})
        self._data: dict[str, Any] = {}
        self._lines: dict[FieldPath, range] = {}

    def set(self, path: str, value: Any, lines: Lines | None = None) -> None:
        """Set a field, in place of an earlier value.

        :param path: names separated by dots.
        :param lines: of the source, None for a value of the command line.
        """
        block, _, name = path.rpartition(".")
        self.set_item(block, name, value, lines)

    def set_item(self, path: str, key: str, value: Any, lines: Lines | None) -> None:
        """Set an entry of a mapping, such as a variable. The key may contain dots."""
        steps = tuple(filter(None, path.split(".")))
        data: Any = self._data
        for step in steps:
            data = data.setdefault(step, {})
        data[key] = value
        at = (*steps, key)
        if lines is None:
            self._lines.pop(at, None)
        else:
            self._lines[at] = placed(self.lines, lines)

    def append(self, path: str, value: Any, lines: Lines | None = None) -> None:
        """Add an item to a list."""
        items = self.get(path)
        if items is None:
            self.set(path, [value], lines)
        else:
            items.append(value)

    def remove(self, path: str) -> None:
        """Remove a field, if it is set."""
        blocks, _, name = path.rpartition(".")
        data = self.get(blocks)
        if isinstance(data, dict):
            data.pop(name, None)

    def get(self, path: str) -> Any:
        """Return the value of a field, None if it is not set."""
        data: Any = self._data
        for step in path.split("."):
            if not isinstance(data, dict) or step not in data:
                return None
            data = data[step]
        return data

    def source_lines(self, path: FieldPath) -> range | None:
        """Return the lines of the source of a field, or of the closest one around it; None if none has any."""
        around = (path[:end] for end in range(len(path), 0, -1))
        return next((self._lines[at] for at in around if at in self._lines), None)

    def program_text(self) -> str:
        """Return the words of the program, separated by blanks."""
        return " ".join([*(self.get(COMMAND) or ()), *(self.get("environment.args") or ())])

    def text(self) -> str:
        """Return the document as YAML with comments. Escape text of the source that looks like a template."""
        lines = [f"# {visible(line)}".rstrip() for line in self.head]
        lines += [f"kind: {self.kind}", f"version: {VERSION}"]
        lines += self._mapping(_ordered(escape_document(self._data), _BLOCKS), (), "")
        return "\n".join(lines) + "\n"

    def _mapping(self, data: Mapping[str, Any], steps: tuple[str, ...], pad: str) -> Iterator[str]:
        for key, value in data.items():
            at = (*steps, key)
            comment = f"  # {line_numbers(self._lines[at])}" if at in self._lines else ""
            if isinstance(value, dict) and value and not comment:
                yield f"{pad}{_key(key)}:"
                yield from self._mapping(_ordered(value, _HEADS.get(key, ()) if not steps else ()), at, pad + "  ")
            else:
                yield from _field(key, value, comment, pad)


def _field(key: str, value: Any, comment: str, pad: str) -> Iterator[str]:
    """Yield the lines of a field; a short list or mapping is written on one line."""
    flow = _flow(value)
    if flow is not None and len(pad) + len(key) + 2 + len(flow) <= _WIDEST:
        yield f"{pad}{_key(key)}: {flow}{comment}"
        return
    if isinstance(value, list) and value and all(isinstance(item, dict) and item for item in value):
        yield f"{pad}{_key(key)}:{comment}"
        for item in value:
            lines = [line for name, part in item.items() for line in _field(name, part, "", pad + "    ")]
            yield f"{pad}  - {lines[0][len(pad) + 4 :]}"
            yield from lines[1:]
        return
    first, *rest = emit_object({key: value}).rstrip("\n").split("\n")
    yield f"{pad}{first}{comment}"
    for line in rest:
        yield f"{pad}  {line}" if line and isinstance(value, list) else f"{pad}{line}" if line else line


def _flow(value: Any) -> str | None:
    """Return a value on one line; None if it contains text of several lines."""
    if isinstance(value, dict):
        items = [(_key(key), _flow(item)) for key, item in value.items()]
        return (
            None
            if any(item is None for _, item in items)
            else "{" + ", ".join(f"{name}: {item}" for name, item in items) + "}"
        )
    if isinstance(value, list):
        parts = [_flow(item) for item in value]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"
    text = emit_object({"x": value})[3:-1]
    if "\n" in text or text.startswith(("|", ">")):
        return None
    # Plain text of a block may have characters that end an item of a flow collection.
    return json.dumps(value, ensure_ascii=False) if set(text) & set(",[]{}") and not text.startswith('"') else text


def _key(key: str) -> str:
    return emit_object({key: 0})[:-4]


def _ordered(data: Mapping[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    """Return the entries with these keys first."""
    return {**{key: data[key] for key in first if key in data}, **data}
