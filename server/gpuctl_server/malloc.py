"""Settings of glibc's malloc, which otherwise keeps a heap for each thread and never returns freed memory."""

from __future__ import annotations

import contextlib
import ctypes

_ARENA_MAX = -8
_ARENAS = 2


def limit_heaps() -> None:
    """Limit the number of heaps to two for all threads. No effect with other C libraries."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def trim_heap() -> None:
    """Return free memory to the system. After large plans that is most of what they used."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
