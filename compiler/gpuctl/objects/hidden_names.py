"""Names of objects that the caller may not see.

They take part in capacity calculations, so each stands for one object, but every text shows `(others)`. A sentence that
lists names lists :func:`unique_names`, so that it does not show how many are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OTHERS = "(others)"
"""Text of every hidden name. No object can have it: names have no parentheses."""


class HiddenName(str):
    """A name that reads as :data:`OTHERS` and equals only the hidden name of the same object.

    :param number: distinguishes objects; never part of a text.
    :param prefix: text in front of the name, such as a kind; distinguishes names, never part of a text.
    """

    __slots__ = ("_number", "_prefix")
    _number: int
    _prefix: str

    def __new__(cls, number: int, prefix: str = "") -> HiddenName:
        found = super().__new__(cls, OTHERS)
        found._number, found._prefix = number, prefix
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the constructor's arguments, for copies."""
        return self._number, self._prefix

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiddenName) and _key(self) == _key(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(_key(self))

    def __lt__(self, other: str) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: str) -> bool:
        return _key(self) <= _key(other)

    def __gt__(self, other: str) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: str) -> bool:
        return _key(self) >= _key(other)


def _key(name: str) -> tuple[str, int]:
    return (name._prefix + OTHERS, name._number) if isinstance(name, HiddenName) else (name, 0)


def is_hidden(name: str) -> bool:
    """Return True if a text is, or ends in, a hidden name."""
    return name.endswith(OTHERS)


def prefixed(prefix: str, name: str) -> str:
    """Return a name with a prefix that still stands for the same object."""
    if isinstance(name, HiddenName):
        return HiddenName(name._number, prefix + name._prefix)
    return name if name == OTHERS else prefix + name


def unique_names(names: Iterable[str]) -> list[str]:
    """Return names for a sentence: hidden ones that read alike appear once."""
    found: list[str] = []
    for name in names:
        text = f"{name}"
        if OTHERS not in text or text not in found:
            found.append(text)
    return found
