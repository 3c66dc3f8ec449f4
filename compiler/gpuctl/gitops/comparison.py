"""The differences between two trees of rendered files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Literal, NamedTuple

from gpuctl.language.display_text import visible
from gpuctl.language.masking import masked_lines

FileAction = Literal["create", "change", "remove"]
FileTree = Mapping[str, bytes]
"""Path -> content."""


class FileChange(NamedTuple):
    """The change of one file between two trees."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def action(self) -> FileAction:
        """The kind of change: create, remove or change."""
        return "create" if self.before is None else "remove" if self.after is None else "change"


def compare(before: FileTree, after: FileTree) -> list[FileChange]:
    """Return the files that differ, sorted by path."""
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    return [FileChange(path, before.get(path), after.get(path)) for path in sorted(changed)]


def unified(change: FileChange, before: str = "a", after: str = "b") -> Iterator[str]:
    """Yield the unified diff of a change with masked credentials; ``before`` and ``after`` name the two trees."""
    path = visible(change.path)
    for line in unified_diff(
        _lines(change.before),
        _lines(change.after),
        "/dev/null" if change.before is None else f"{before}/{path}",
        "/dev/null" if change.after is None else f"{after}/{path}",
        lineterm="",
    ):
        yield visible(line) + "\n"


class _Line(str):
    """A line with masked credentials. Equality includes the credentials, so that a changed one shows as a change."""

    __slots__ = ("whole",)
    whole: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Line) and self.whole == other.whole

    def __hash__(self) -> int:
        return hash(self.whole)


def _lines(data: bytes | None) -> list[str]:
    if not data:
        return []
    text = data.decode("utf-8", "replace")
    lines: list[str] = []
    for shown, whole in zip(masked_lines(text), text.split("\n"), strict=True):
        line = _Line(shown)
        line.whole = whole
        lines.append(line)
    return lines[:-1] if lines[-1] == "" else [*lines[:-1], lines[-1] + " (no newline at the end)"]
