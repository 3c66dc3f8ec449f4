"""The width of a terminal is that of the terminal: for tables, paragraphs and help texts."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import pytest

WIDTHS = """
import sys
from gpuctl.cli.main import run
run(["version"])
from gpuctl.cli.output.terminal import columns_of, terminal_width
print("columns", terminal_width(), columns_of(sys.stderr))
run(["apply", "--help"])
"""


def shown(columns: int, **env: str) -> list[str]:
    """What a terminal of so many columns shows."""
    ours, theirs = os.openpty()
    ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"} | env
    text = bytearray()
    with subprocess.Popen([sys.executable, "-c", WIDTHS], env=environment, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        # Linux reports EIO when the other end is closed.
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                text += data
    os.close(ours)
    return text.decode().splitlines()


@pytest.mark.parametrize(
    ("columns", "env", "found"),
    [(200, {}, 200), (80, {}, 80), (70, {}, 70), (0, {}, 80), (200, {"COLUMNS": "60"}, 60), (90, {"COLUMNS": "x"}, 90)],
)
def test_width_of_a_terminal(columns: int, env: dict[str, str], found: int) -> None:
    lines = shown(columns, **env)
    assert f"columns {found} {found}" in lines
    widest = max(len(line) for line in lines)
    # Help texts are no wider than 100 columns; click keeps two free.
    assert widest <= found
    assert widest > 80 or found < 90


def test_help_ends_with_the_connection_options() -> None:
    """The common options of `apply` come first."""
    text = "\n".join(shown(100))
    first, _, last = text.partition("\nConnection options:\n")
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", first, re.M)
    assert options[:5] == ["--filename", "--namespace", "--dry-run", "--wait", "--yes"]
    connection = ["--kubeconfig", "--context", "--cluster", "--server", "--as", "--as-group", "--as-uid"]
    assert re.findall(r"^  (--[a-z-]+)", last, re.M) == connection
    assert not set(connection) & set(options)
