"""A cache of encoded answers: many clients send the same request between two changes of the cluster."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

_MOST = 16 * 1024 * 1024


class ResponseCache:
    """Bodies by request, at most ``most`` bytes. The least recently used ones are removed first.

    ``stamp`` identifies the data of an answer. A body with another stamp is not returned. Used on the event loop only.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._size = 0
        self._bodies: OrderedDict[Hashable, tuple[tuple[object, ...], bytes]] = OrderedDict()

    def find(self, question: Hashable, stamp: tuple[object, ...]) -> bytes | None:
        """Return the body for a request; None if it is unknown or outdated."""
        found = self._bodies.get(question)
        if found is None or found[0] != stamp:
            return None
        self._bodies.move_to_end(question)
        return found[1]

    def keep(self, question: Hashable, stamp: tuple[object, ...], body: bytes) -> None:
        """Store the body for a request."""
        before = self._bodies.pop(question, None)
        self._size += len(body) - (len(before[1]) if before is not None else 0)
        self._bodies[question] = (stamp, body)
        while self._size > self._most:
            _, (_, oldest) = self._bodies.popitem(last=False)
            self._size -= len(oldest)


def encode(value: Any) -> bytes:
    """Return a value as JSON, in Starlette's format."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
