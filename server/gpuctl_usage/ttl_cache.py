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
    """A thread-safe cache with a time to live. Concurrent requests for one key compute the value once.

    :param lasts: seconds since the computation of a value began for which it is returned.
    :param most: maximum number of values; for another one the oldest is dropped.
    """

    def __init__(self, lasts: float, most: int = _MOST) -> None:
        self._lasts = lasts
        self._most = most
        self._lock = threading.Lock()
        self._found: dict[Key, tuple[float, Value]] = {}
        self._asking: dict[Key, threading.Lock] = {}

    def get(self, key: Key, find: Callable[[], Value], lasts: float | None = None) -> Value:
        """Return the cached value of a key, or compute it with ``find`` and cache it.

        :param lasts: instead of the cache's own.
        """
        lasts = self._lasts if lasts is None else lasts
        with self._lock:
            known = self._known(key, lasts)
            if known is not None:
                return known[1]
            turn = self._asking.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                known = self._known(key, lasts)
            if known is not None:
                return known[1]
            begun = time.monotonic()
            try:
                value = find()
                with self._lock:
                    self._found.pop(key, None)
                    if len(self._found) >= self._most:
                        # The values stand in the order of their computation.
                        del self._found[next(iter(self._found))]
                    self._found[key] = (begun, value)
            finally:
                with self._lock:
                    self._asking.pop(key, None)
            return value

    def _known(self, key: Key, lasts: float) -> tuple[float, Value] | None:
        known = self._found.get(key)
        return known if known is not None and time.monotonic() - known[0] < lasts else None
