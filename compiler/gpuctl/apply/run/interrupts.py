"""Ctrl-C, and whatever else ends a process, where it must not break in between two steps: held back, then delivered."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


def ending_signals() -> list[int]:
    """The signals that end this process and can be caught here; empty in other threads than the main one.

    What is ignored stays so: SIGHUP under nohup, SIGINT of what a script runs in the background.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]


class Interrupts:
    """Holds signals back in a ``with`` block, but where :meth:`let_through` opens it.

    Held back, the first one is noted: it breaks in, as KeyboardInterrupt, at the next ``let_through``, and is raised
    again after the block, by then as the signal that it was. A second one breaks in wherever it comes. As nothing
    breaks in at the borders of the block, what it takes and gives back cannot get lost there.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._open = False
        self._noted = 0

    def __enter__(self) -> Interrupts:
        # SIGINT is the first: none can break in from then on.
        for number in ending_signals():
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in reversed(self._before.items()):
            signal.signal(number, handler)
        if self._noted:
            signal.raise_signal(self._noted)

    @contextlib.contextmanager
    def let_through(self) -> Iterator[None]:
        """A block in which signals break in at once.

        :raises KeyboardInterrupt: there was one.
        """
        self._open = True
        try:
            if self._noted:
                raise KeyboardInterrupt
            yield
        finally:
            self._open = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        breaks_in = self._open or self._noted
        # What follows from it, giving back for instance, is not to be broken off by the next one.
        self._open = False
        self._noted = number
        if breaks_in:
            raise KeyboardInterrupt
