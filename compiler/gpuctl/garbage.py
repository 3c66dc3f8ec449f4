"""Python's garbage collector while large trees are built that live to the end of the work: looking through them again
and again finds nothing, and takes a third of the time of a compile.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (200_000, 50, 100)
"""Objects before a collection, and collections before one of the next generation: seldom, but not never."""

_lock = threading.Lock()
_at_work = 0
_before = (0, 0, 0)


@contextmanager
def patient() -> Iterator[None]:
    """Let the collector run seldom meanwhile, in this process and for as long as anybody in it is here.

    The thresholds of before come back with the last one who leaves, unless somebody else has set others meanwhile. A
    collector that is off, or set to run more seldom, is left alone.
    """
    global _at_work, _before
    with _lock:
        if _at_work == 0:
            _before = gc.get_threshold()
            if 0 < _before[0] < THRESHOLDS[0]:
                gc.set_threshold(*THRESHOLDS)
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if _at_work == 0 and gc.get_threshold() == THRESHOLDS:
                gc.set_threshold(*_before)
