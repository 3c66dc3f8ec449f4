"""Slots for running requests and other work, shared fairly among callers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque


class NoFreeSlot(Exception):
    """All slots are in use, and the queue, if there is one, is full; ``is_own`` is True if the caller's share is used
    up.
    """

    def __init__(self, is_own: bool) -> None:
        super().__init__()
        self.is_own = is_own


class CountedSlots:
    """At most ``most`` running pieces of work, or bytes, ``each`` of them of one caller. Safe to use from several
    threads.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def begin(self, caller: str, count: int = 1) -> None:
        """Take slots at once. :meth:`done` must follow.

        :raises NoFreeSlot: too much is running.
        """
        with self._lock:
            if self._running[caller] + count > self._each:
                raise NoFreeSlot(is_own=True)
            if self._running.total() + count > self._most:
                raise NoFreeSlot(is_own=False)
            self._running[caller] += count

    def done(self, caller: str, count: int = 1) -> None:
        """Release slots."""
        with self._lock:
            self._running[caller] -= count
            if not self._running[caller]:
                del self._running[caller]

    @property
    def running(self) -> int:
        """Number of slots in use."""
        with self._lock:
            return self._running.total()


class FairSlots:
    """At most ``slots`` running and ``queue`` waiting requests. Each caller may have half of both.

    A free slot goes to the caller with the fewest running requests; among these, to the one that has waited longest.
    """

    def __init__(self, slots: int, queue: int) -> None:
        self._free = slots
        self._queue = queue
        self._slots_each = max(1, slots // 2)
        self._queue_each = (queue + 1) // 2
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def acquire(self, caller: str) -> None:
        """Take a slot, or wait for one.

        :raises NoFreeSlot: the queue is full.
        """
        if self._free and self._running[caller] < self._slots_each:
            self._take(caller)
            return
        if sum(map(len, self._waiting.values())) >= self._queue:
            raise NoFreeSlot(is_own=False)
        if len(self._waiting.get(caller, ())) >= self._queue_each:
            raise NoFreeSlot(is_own=True)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(caller)
            else:
                self._forget(caller, turn)
            raise

    def release(self, caller: str) -> None:
        """Release a slot."""
        self._free += 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        able = [name for name in self._waiting if self._running[name] < self._slots_each]
        if self._free and able:
            # The order of the dict is that in which callers began to wait.
            following = min(able, key=lambda name: self._running[name])
            turn = self._waiting[following][0]
            self._forget(following, turn)
            self._take(following)
            turn.set_result(None)

    def _take(self, caller: str) -> None:
        self._free -= 1
        self._running[caller] += 1

    def _forget(self, caller: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting[caller]
        turns.remove(turn)
        if not turns:
            del self._waiting[caller]
