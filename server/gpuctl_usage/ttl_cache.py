"""A cache whose entries expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_MOST = 10_000

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TtlCache(Generic[Key, Value]):
    """A thread-safe cache with a time to live. Concurrent requests for one key compute the value once."""

    def __init__(self, lasts: float) -> None:
        self._lasts = lasts
        self._lock = threading.Lock()
        self._found: dict[Key, tuple[float, Value]] = {}
        self._asking: dict[Key, threading.Lock] = {}

    def get(self, key: Key, find: Callable[[], Value]) -> Value:
        """Return the cached value of a key, or compute it with ``find`` and cache it."""
        with self._lock:
            known = self._known(key)
            if known is not None:
                return known[1]
            turn = self._asking.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                known = self._known(key)
            if known is not None:
                return known[1]
            try:
                value = find()
                with self._lock:
                    if len(self._found) >= _MOST:
                        self._found.clear()
                    self._found[key] = (time.monotonic(), value)
            finally:
                with self._lock:
                    self._asking.pop(key, None)
            return value

    def _known(self, key: Key) -> tuple[float, Value] | None:
        known = self._found.get(key)
        return known if known is not None and time.monotonic() - known[0] < self._lasts else None
