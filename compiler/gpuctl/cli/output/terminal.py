"""The terminal: escaping control characters, raw mode, size and colours."""

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
from typing import Any, NoReturn, TextIO

from gpuctl.language.display_text import CONTROLLING

# Colours and the rewritten progress line come from gpuctl. Other control characters, and those that change the reading
# direction, come from names and messages in the cluster, which any user may have written.
_OURS = r"\x1b\[[0-9;]*m|\r\x1b\[2K"
_CONTROL = re.compile(f"({_OURS})|[\x00-\x08\x0b-\x1f{CONTROLLING}]")

_COLUMNS = 80


def escape_controls(text: str) -> str:
    """Escape control characters, except for colours and the progress line."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: match[1] or match[0].encode("unicode_escape").decode(), text)


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal that escapes control characters. Bytes written to its ``buffer`` are not escaped."""

    def write(self, text: str) -> int:
        return super().write(escape_controls(text))


def is_interactive() -> bool:
    """Return True if standard input and standard output are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def raw_terminal() -> Iterator[int]:
    """Put the terminal into raw mode, in which Ctrl-C is passed on like every key.

    Yield a descriptor that becomes readable when the size changes. The terminal is always restored, also after SIGTERM
    and SIGHUP, which end the program.
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
        # Not TCSAFLUSH, here and below: typed-ahead input is for the remote shell, and later for the local one.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield resized
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(resized)
        os.close(wake)


def size() -> tuple[int, int]:
    """Return columns and rows of the terminal; $COLUMNS and $LINES do not follow the window."""
    found = os.get_terminal_size(sys.stdin.fileno())
    return found.columns, found.lines


def _end(number: int, _: Any) -> NoReturn:
    raise SystemExit(128 + number)


def is_coloured(stream: TextIO | None = None) -> bool:
    """Return True if a stream (default: standard output) is a terminal and colours are not disabled."""
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Return the width of the terminal on standard output; None for a pipe or a file."""
    return columns_of(sys.stdout) if sys.stdout.isatty() else None


def columns_of(stream: Any) -> int:
    """Return the width of a stream's terminal: $COLUMNS, else the terminal's own, else 80."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    with contextlib.suppress(OSError):
        # 0 if the terminal does not report its size.
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    return _COLUMNS
