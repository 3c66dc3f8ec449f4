"""Names of objects that the caller may not see.

They count where room is looked for, so each stands for one object; whatever is written with them says `(others)`.
"""

from __future__ import annotations

from typing import Any

OTHERS = "(others)"
"""The text of every hidden name. No object can have it: names have no parentheses."""


class Hidden(str):
    """A name that reads as :data:`OTHERS`, and equals only the hidden name of the same object.

    :param number: what tells objects apart; it is in no text that is made of the name.
    :param prefix: text in front, such as the kind in `Job/(others)`.
    """

    __slots__ = ("_number",)
    _number: int

    def __new__(cls, number: int, prefix: str = "") -> Hidden:
        """Return the name of an object."""
        found = super().__new__(cls, prefix + OTHERS)
        found._number = number
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments of a copy."""
        return self._number, self[: -len(OTHERS)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and self._number == other._number and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self._number, str.__hash__(self)))

    def __lt__(self, other: str) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: str) -> bool:
        return _key(self) <= _key(other)

    def __gt__(self, other: str) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: str) -> bool:
        return _key(self) >= _key(other)


def _key(name: str) -> tuple[str, int]:
    return name[:], name._number if isinstance(name, Hidden) else 0


def is_hidden(name: str) -> bool:
    """Return True if a name, or what was made of one, is that of an object that the caller may not see."""
    return name.endswith(OTHERS)


def prefixed(prefix: str, name: str) -> str:
    """Return a name with a text in front, which still stands for the same object."""
    return Hidden(name._number, prefix + name[: -len(OTHERS)]) if isinstance(name, Hidden) else prefix + name
