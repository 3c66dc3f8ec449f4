"""The user's terminal while a program elsewhere has it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn


def is_interactive() -> bool:
    """Whether a person types, and sees what is printed."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def raw_terminal() -> Iterator[int]:
    """Pass every key on, Ctrl-C included; yields a descriptor that becomes readable when the size changes.

    However it ends, the terminal is as it was before: also after SIGTERM and SIGHUP, which end the program.
    """
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    resized, wake = os.pipe()
    os.set_blocking(wake, False)

    def note(*_: Any) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(wake, b"\0")

    handlers: dict[int, Any] = {signal.SIGWINCH: note, signal.SIGTERM: _end, signal.SIGHUP: _end}
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        # Not TCSAFLUSH, here and below: what was typed ahead is for the shell.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield resized
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(resized)
        os.close(wake)


def size() -> tuple[int, int]:
    """Columns and rows, whatever the environment says: that does not change with the window."""
    found = os.get_terminal_size(sys.stdin.fileno())
    return found.columns, found.lines


def _end(number: int, _: Any) -> NoReturn:
    raise SystemExit(128 + number)
