"""Limits on compilation: one thread per caller, so that other callers get CPU time, and a CPU time per request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

QUEUE_TIMEOUT = 20.0
"""Seconds that a request waits for other compilations of its caller."""


class StillCompiling(Exception):
    """Other documents of the caller were still being compiled when the wait ended."""


class CompiledTooLong(Exception):
    """Documents need more CPU time to compile than a request may use."""


def processor_limit(seconds: float) -> Callable[[], None]:
    """Return a function that checks the CPU time that this thread has used since now.

    CPU time instead of elapsed time: a busy machine rejects no more documents than an idle one.

    :raises CompiledTooLong: by the function, once the time is used up.
    """
    end = time.thread_time() + seconds

    def check() -> None:
        if time.thread_time() > end:
            raise CompiledTooLong

    return check


class CompileLocks:
    """A lock for each caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """Hold the lock of a caller.

        :raises StillCompiling: the wait took too long.
        """
        with self._lock:
            turn = self._turns.setdefault(caller, threading.Lock())
        if not turn.acquire(timeout=QUEUE_TIMEOUT):
            raise StillCompiling
        try:
            yield
        finally:
            turn.release()
