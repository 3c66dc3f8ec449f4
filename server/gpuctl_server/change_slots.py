"""A limit on the number of concurrent changes. No step of a change begins after shutdown was requested."""

from __future__ import annotations

import threading
from collections import Counter

from gpuctl_server.fair_slots import NoFreeSlot

MOST = 16
"""Maximum number of concurrent changes. One caller may have three quarters of them. A change may wait minutes until
pods are gone, and reads must have threads left.
"""


class ChangeSlots:
    """Counts the running changes. Safe to use from several threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._each = most - most // 4
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._ending = threading.Event()

    def begin(self, caller: str) -> None:
        """Count a change of a caller. :meth:`done` must follow.

        :raises NoFreeSlot: too many changes are running.
        """
        with self._lock:
            if self._running[caller] >= self._each:
                raise NoFreeSlot(is_own=True)
            if self._running.total() >= self._most:
                raise NoFreeSlot(is_own=False)
            self._running[caller] += 1

    def done(self, caller: str) -> None:
        """End the count of a change."""
        with self._lock:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]

    @property
    def running(self) -> int:
        """Number of running changes."""
        with self._lock:
            return self._running.total()

    def end(self) -> None:
        """Request shutdown: running changes begin no new step, but restore what they have taken apart."""
        self._ending.set()

    def is_ending(self) -> bool:
        """Return True if shutdown was requested."""
        return self._ending.is_set()
