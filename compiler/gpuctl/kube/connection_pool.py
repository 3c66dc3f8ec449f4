"""Connections that wait for their next request, and new ones when none does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpuctl.kube.http1 import Wire

_IDLE = 32
_LONGEST_RACE = 0.02
"""Seconds that a request waits at most for a connection which is in use, rather than make another."""


class ConnectionPool:
    """The connections of one server, made by ``make`` as they are needed. Safe to use from several threads.

    A request waits a moment for a connection that is in use, at most as long as another takes to make: a handshake
    costs either side more than a small request, which is often over sooner.
    """

    def __init__(self, make: Callable[[], Wire]) -> None:
        self._make = make
        self._idle: list[Wire] = []
        self._given = threading.Condition()
        self._out = 0
        self._cost = _LONGEST_RACE

    def take(self) -> Wire:
        """A connection for one request, which is followed by :meth:`give`, or by :meth:`part_with`."""
        with self._given:
            if self._out and not self._idle:
                self._given.wait(min(self._cost, _LONGEST_RACE))
            self._out += 1
        # Neither the look at a connection nor its making keeps others from theirs.
        while (wire := self._waiting()) is not None:
            if wire.is_open():
                return wire
            wire.close()
        begun = time.monotonic()
        try:
            wire = self._make()
        except BaseException:
            self.part_with()
            raise
        self._cost = time.monotonic() - begun
        return wire

    def _waiting(self) -> Wire | None:
        with self._given:
            return self._idle.pop() if self._idle else None

    def give(self, wire: Wire) -> None:
        """Keep a connection for the next request, if it can carry one."""
        with self._given:
            self._out -= 1
            if wire.reusable and len(self._idle) < _IDLE:
                self._idle.append(wire)
                self._given.notify()
                return
        wire.close()

    def part_with(self) -> None:
        """A connection that was taken does not come back."""
        with self._given:
            self._out -= 1

    def close(self) -> None:
        """Let go of the connections that wait."""
        with self._given:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()
