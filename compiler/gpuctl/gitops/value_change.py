"""A field that differs between two documents or objects, and the text of such changes.

Apart from the comparison, whose library is slow to import.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuctl.language.display_text import first_few, visible

_LONGEST = 24
"""Length of the longest value that a text of changes contains."""


class ValueChange(NamedTuple):
    """A field that differs; None means absent."""

    path: str
    old: Any
    new: Any


def changes_text(changes: list[ValueChange]) -> str:
    """Return the first few changed fields, with their values if these are short."""
    return first_few(map(_named, changes))


def _named(one: ValueChange) -> str:
    if isinstance(one.old, (dict, list)) or isinstance(one.new, (dict, list)):
        return visible(one.path)
    old, new = _value(one.old), _value(one.new)
    if len(old) > _LONGEST or len(new) > _LONGEST:
        # Two references to images usually differ only at the end.
        start = _common(old, new)
        old, new = (f"...{text[start:]}" if start else text for text in (old, new))
    if len(old) > _LONGEST or len(new) > _LONGEST:
        return visible(one.path)
    return visible(f"{one.path}: {old} -> {new}")


def _value(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _common(old: str, new: str) -> int:
    """Return the index after the last slash of the common beginning of two image references."""
    length = next((place for place, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    return old.rfind("/", 0, length) + 1
