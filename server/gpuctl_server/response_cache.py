"""Answers that were encoded already: many ask the same between two changes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

_MOST = 16 * 1024 * 1024


class ResponseCache:
    """Bodies by what was asked, at most ``most`` bytes of them: what was used longest ago goes first.

    ``stamp`` says what an answer rests on: one of another stamp does not count. For one thread: the event loop's.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._size = 0
        self._bodies: OrderedDict[Hashable, tuple[tuple[object, ...], bytes]] = OrderedDict()

    def find(self, question: Hashable, stamp: tuple[object, ...]) -> bytes | None:
        """The body for a question, if it still counts."""
        found = self._bodies.get(question)
        if found is None or found[0] != stamp:
            return None
        self._bodies.move_to_end(question)
        return found[1]

    def keep(self, question: Hashable, stamp: tuple[object, ...], body: bytes) -> None:
        """Remember the body for a question."""
        before = self._bodies.pop(question, None)
        self._size += len(body) - (len(before[1]) if before is not None else 0)
        self._bodies[question] = (stamp, body)
        while self._size > self._most:
            _, (_, oldest) = self._bodies.popitem(last=False)
            self._size -= len(oldest)


def encode(value: Any) -> bytes:
    """A value as JSON, as Starlette writes it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
