"""A sandbox as ``make sandbox`` starts it, for tests of what readers of the documentation type."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pages import ROOT
from support.real_parts import control_plane_binaries


@contextlib.contextmanager
def running_sandbox(home: Path) -> Iterator[Path]:
    """Run a sandbox in a directory; without its programs the test is skipped, in CI it fails."""
    control_plane_binaries(queues=True)
    command = [sys.executable, "-m", "control_plane.sandbox", f"--directory={home}", "--usage-days=0"]
    path = os.pathsep.join((str(ROOT / "tests"), str(ROOT / "compiler")))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("Ctrl-C here"):
                break
        else:
            pytest.fail("the sandbox ended")
        yield home
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
