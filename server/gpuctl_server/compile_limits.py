"""Compiling for one caller after another: each has at most one thread that compiles, so that the others get the CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

PATIENCE = 20.0
"""Seconds that a request waits for the other documents of its caller."""


class StillCompiling(Exception):
    """Other documents of the caller were compiled for all the time that a request waits."""


class CompiledTooLong(Exception):
    """Documents took more processor time to compile than a request may."""


def processor_limit(seconds: float) -> Callable[[], None]:
    """Return a function that limits the processor time of this thread, counted from now.

    Time in which other threads had the processor does not count, so a busy machine refuses no more than an idle one.

    :raises CompiledTooLong: by the function, once the time is used up.
    """
    end = time.thread_time() + seconds

    def check() -> None:
        if time.thread_time() > end:
            raise CompiledTooLong

    return check


class CompileLocks:
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
