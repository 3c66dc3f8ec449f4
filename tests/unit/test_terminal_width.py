"""Width of the terminal in tables, paragraphs and help texts."""

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


def lines_in_terminal(columns: int, **env: str) -> list[str]:
    """Return the lines lines_in_terminal by a terminal with this number of columns."""
    parent_end, child_end = os.openpty()
    ioctl(parent_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"} | env
    text = bytearray()
    with subprocess.Popen(
        [sys.executable, "-c", WIDTHS], env=environment, stdin=child_end, stdout=child_end, stderr=child_end
    ):
        os.close(child_end)
        # Linux reports EIO when the other end is closed.
        with contextlib.suppress(OSError):
            while data := os.read(parent_end, 65536):
                text += data
    os.close(parent_end)
    return text.decode().splitlines()


@pytest.mark.parametrize(
    ("columns", "env", "found"),
    [(200, {}, 200), (80, {}, 80), (70, {}, 70), (0, {}, 80), (200, {"COLUMNS": "60"}, 60), (90, {"COLUMNS": "x"}, 90)],
)
def test_output_fits_the_terminal_width(columns: int, env: dict[str, str], found: int) -> None:
    lines = lines_in_terminal(columns, **env)
    assert f"columns {found} {found}" in lines
    widest = max(len(line) for line in lines)
    # Help texts are no wider than 100 columns; click keeps two free.
    assert widest <= found
    assert widest > 80 or found < 90


def test_help_ends_with_the_connection_options() -> None:
    """The common options of `apply` come first."""
    text = "\n".join(lines_in_terminal(100))
    first, _, last = text.partition("\nConnection options:\n")
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", first, re.M)
    assert options[:5] == ["--filename", "--namespace", "--dry-run", "--wait", "--yes"]
    connection = ["--kubeconfig", "--context", "--cluster", "--server", "--as", "--as-group", "--as-uid"]
    assert re.findall(r"^  (--[a-z-]+)", last, re.M) == connection
    assert not set(connection) & set(options)
