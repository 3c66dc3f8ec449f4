"""The user's terminal: what is never written to it, and how it is while a program elsewhere has it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any, NoReturn

# Colours, and the line that progress rewrites, are our own; the rest of what controls a terminal, or turns the order of
# what is read, comes from names and messages that anybody in the cluster may have written.
_OURS = r"\x1b\[[0-9;]*m|\r\x1b\[2K"
_CONTROL = re.compile(f"({_OURS})|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_COLUMNS = 80


def escape_controls(text: str) -> str:
    """Return text with escapes for what controls a terminal, but for colours and the line of progress."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: match[1] or match[0].encode("unicode_escape").decode(), text)


class Terminal(io.TextIOWrapper):
    """A stream to a terminal that shows control characters as escapes. Its ``buffer`` takes bytes as they are."""

    def write(self, text: str) -> int:
        return super().write(escape_controls(text))


def is_interactive() -> bool:
    """Whether a person types, and sees what is printed."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def raw_terminal() -> Iterator[int]:
    """Pass every key on, Ctrl-C included; yields a descriptor that becomes readable when the size changes.

    However it ends, the terminal is as it was before: also after SIGTERM and SIGHUP, which end the program.
    """
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


def is_coloured(stream: Any = None) -> bool:
    """Whether a stream (standard output unless another is given) is a terminal that wants colours."""
    stream = stream if stream is not None else sys.stdout
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Return the columns of the terminal that standard output is, None for a pipe or a file."""
    return columns_of(sys.stdout) if sys.stdout.isatty() else None


def columns_of(stream: Any) -> int:
    """Return how many columns the terminal of a stream has: $COLUMNS, else its own answer, else 80."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    with contextlib.suppress(OSError):
        # A terminal that does not know its size answers 0.
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    return _COLUMNS
