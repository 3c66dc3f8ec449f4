"""Signals that end a process (Ctrl-C and others), held back while they must not interrupt, then raised again."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_Handler = TypeVar("_Handler", bound="SignalHandler")


def ending_signals() -> list[int]:
    """Return the signals that end this process and can be caught here; empty in a thread other than the main one.

    Ignored signals stay ignored: SIGHUP under nohup, SIGINT of a script's background process.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]


class SignalHandler:
    """Handles the ending signals by a function in a ``with`` block."""

    def __init__(self, handle: Callable[[int, FrameType | None], None]) -> None:
        self._handle = handle
        self._before: dict[int, Any] = {}

    def __enter__(self: _Handler) -> _Handler:
        # SIGINT comes first: no KeyboardInterrupt is possible from here on.
        for number in ending_signals():
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in reversed(self._before.items()):
            signal.signal(number, handler)


class Interrupts(SignalHandler):
    """Holds signals back in a ``with`` block, except inside :meth:`let_through`.

    The first signal that is held back is recorded. It is raised as KeyboardInterrupt at the next ``let_through``, and
    raised again after the block as the original signal. A second signal interrupts anywhere. Nothing can interrupt at
    the borders of the block, so that resources acquired and released there are not lost.
    """

    def __init__(self) -> None:
        super().__init__(self._note)
        self._open = False
        self._noted = 0

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._noted:
            signal.raise_signal(self._noted)

    @contextlib.contextmanager
    def let_through(self) -> Iterator[None]:
        """Let signals interrupt in this block.

        :raises KeyboardInterrupt: a signal was recorded.
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
        # The cleanup after it, such as releasing a lease, must not be interrupted by the next signal.
        self._open = False
        self._noted = number
        if breaks_in:
            raise KeyboardInterrupt
