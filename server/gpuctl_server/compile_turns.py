"""Compiling for one caller after another: each has at most one thread that compiles, so that the others get the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

PATIENCE = 20.0
"""Seconds that a request waits for the other documents of its caller."""


class StillCompiling(Exception):
    """Other documents of the caller were compiled for all the time that a request waits."""


class CompileTurns:
    """The turns of all callers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """Wait until nothing else is compiled for a caller.

        :raises StillCompiling: it took too long.
        """
        with self._lock:
            turn = self._turns.setdefault(caller, threading.Lock())
        if not turn.acquire(timeout=PATIENCE):
            raise StillCompiling
        try:
            yield
        finally:
            turn.release()
