"""Processes that end with the tests, whatever ends the tests."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def free_ports(number: int) -> list[int]:
    """Loopback ports that nobody listens on, each another one."""
    sockets = [socket.socket() for _ in range(number)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


class Process:
    """A program that runs in the background and writes to a log file."""

    def __init__(self, command: Sequence[str], log: Path, directory: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(directory)},
                preexec_fn=_end_with_parent,
            )

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        return self.process.poll() is not None

    def stop(self, *, kill: bool = False) -> None:
        """End it, and wait until it is gone."""
        if self.ended:
            return
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _end_with_parent() -> None:
    """Ask the kernel to end this process when its parent is killed: SIGKILL runs no cleanup of ours."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
