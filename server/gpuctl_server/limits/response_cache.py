"""A cache of encoded answers: many clients send the same request between two changes of the cluster."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from gpuctl.hints import wording
from gpuctl.language.sentences import current_translation

_MOST = 16 * 1024 * 1024
_MOST_BODIES = 4096
"""Maximum number of bodies. An empty list is a few bytes, and its request may be some thousand."""


class _Kept(NamedTuple):
    stamp: tuple[object, ...]
    body: bytes
    is_translated: bool


class ResponseCache:
    """Bodies by request, language and surface, at most ``most`` bytes. The least recently used ones are removed first,
    also if there are many small ones.

    ``stamp`` identifies the data of an answer. A body with another stamp is not returned. Used on the event loop only.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._size = 0
        self._bodies: OrderedDict[Hashable, _Kept] = OrderedDict()

    def find(self, question: Hashable, stamp: tuple[object, ...]) -> bytes | None:
        """Return the body for a request; None if it is unknown or outdated."""
        translation = current_translation()
        key = translation is None, wording(), question
        found = self._bodies.get(key)
        if found is None or found.stamp != stamp:
            return None
        self._bodies.move_to_end(key)
        if translation is not None and found.is_translated:
            translation.is_used = True
        return found.body

    def keep(self, question: Hashable, stamp: tuple[object, ...], body: bytes) -> None:
        """Store the body for a request."""
        translation = current_translation()
        key = translation is None, wording(), question
        before = self._bodies.pop(key, None)
        self._size += len(body) - (len(before.body) if before is not None else 0)
        self._bodies[key] = _Kept(stamp, body, translation is not None and translation.is_used)
        while self._size > self._most or len(self._bodies) > _MOST_BODIES:
            _, oldest = self._bodies.popitem(last=False)
            self._size -= len(oldest.body)


def encode(value: Any) -> bytes:
    """Return a value as JSON, in Starlette's format."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
