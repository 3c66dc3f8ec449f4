"""Numbers that look drawn by chance, and are the same for the same text: answers must not change by themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

_MASK = (1 << 64) - 1
_T = TypeVar("_T")


class Draws:
    """A sequence of draws. Source: splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators)."""

    def __init__(self, seed: str) -> None:
        self._state = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")

    def bits(self) -> int:
        """A number of 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        value = self._state
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        return value ^ (value >> 31)

    def below(self, limit: int) -> int:
        """A whole number from 0 to the limit, without it."""
        # As bits() does, without a call: nothing is asked for as often.
        self._state = value = (self._state + 0x9E3779B97F4A7C15) & _MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        return (value ^ (value >> 31)) % limit

    def share(self) -> float:
        """A number from 0 to 1, without it."""
        return self.bits() / (1 << 64)

    def one_of(self, items: Sequence[_T]) -> _T:
        """One of some items."""
        return items[self.below(len(items))]
