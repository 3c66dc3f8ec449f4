"""The changes that are under way: how many there may be, and that nothing new is begun once the service is to end."""

from __future__ import annotations

import threading

MOST = 16
"""Changes at a time. One may wait for minutes until pods are gone, and reads must have threads left."""


class Writes:
    """Counts the changes under way; safe to use from several threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self.under_way = 0
        self._ending = threading.Event()

    def begin(self) -> bool:
        """Whether one more may begin; :meth:`done` has to follow if so."""
        with self._lock:
            if self.under_way >= self._most:
                return False
            self.under_way += 1
            return True

    def done(self) -> None:
        """One has come to its end."""
        with self._lock:
            self.under_way -= 1

    def end(self) -> None:
        """Have nothing new begun: what was taken apart is still put together."""
        self._ending.set()

    def is_ending(self) -> bool:
        """Whether the service is to end."""
        return self._ending.is_set()
