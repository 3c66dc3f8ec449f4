"""Memory that the C library keeps after Python has freed it: by itself glibc keeps a heap for each thread, for ever."""

from __future__ import annotations

import contextlib
import ctypes

_ARENA_MAX = -8
_ARENAS = 2


def share_heaps() -> None:
    """Let all threads use two heaps. Has no effect on libraries other than glibc."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Return what is free to the system: after large plans that is most of what they took."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
