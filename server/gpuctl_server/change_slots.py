"""The changes that are under way: how many there may be, and that nothing new is begun once the service is to end."""

from __future__ import annotations

import threading
from collections import Counter

from gpuctl_server.fair_slots import NoFreeSlot

MOST = 16
"""Changes at a time, of one caller three quarters as many. One may wait for minutes until pods are gone, and reads must
have threads left."""


class ChangeSlots:
    """Counts the changes under way; safe to use from several threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._each = most - most // 4
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._ending = threading.Event()

    def begin(self, caller: str) -> None:
        """Count one more change of a caller; :meth:`done` has to follow.

        :raises NoFreeSlot: too many are under way.
        """
        with self._lock:
            if self._under_way[caller] >= self._each:
                raise NoFreeSlot(is_own=True)
            if self._under_way.total() >= self._most:
                raise NoFreeSlot(is_own=False)
            self._under_way[caller] += 1

    def done(self, caller: str) -> None:
        """Count one less."""
        with self._lock:
            self._under_way[caller] -= 1
            if not self._under_way[caller]:
                del self._under_way[caller]

    @property
    def under_way(self) -> int:
        """How many changes are under way."""
        with self._lock:
            return self._under_way.total()

    def end(self) -> None:
        """Have nothing new begun: what was taken apart is still put together."""
        self._ending.set()

    def is_ending(self) -> bool:
        """Whether the service is to end."""
        return self._ending.is_set()
