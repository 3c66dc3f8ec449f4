"""Processes that end with the tests, whatever ends the tests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Looked up here: between fork and exec a process with threads must do as little as it can.
_PRCTL = ctypes.CDLL(None).prctl
# Below the ports that Linux gives to outgoing connections (net.ipv4.ip_local_port_range): none of those takes a port
# between its choice and its use.
_PORTS = range(20_000, 32_000)
# An eighth less processor time of an API server, for some hundred MiB: it collects garbage less often, begins requests
# with the stack that they grow to, and is not interrupted by a signal where a function call will do.
_THRIFTY = {"GOGC": "400", "GODEBUG": "adaptivestackstart=1,asyncpreemptoff=1"}
# A quarter less of etcd and a fifth of the controllers: their threads do not look for work in turns.
_ONE_AFTER_ANOTHER = {"GOMAXPROCS": "1"}


def free_ports(number: int) -> list[int]:
    """Return distinct loopback ports that are not in use."""
    with ExitStack() as open_sockets:
        ports: list[int] = []
        while len(ports) < number:
            item = open_sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                item.bind(("127.0.0.1", secrets.choice(_PORTS)))
                ports.append(item.getsockname()[1])
        return ports


class Process:
    """A program that runs in the background and writes to a log file.

    :param parallel: it may use several processors at once, if it is written in Go.
    """

    def __init__(self, command: Sequence[str], log: Path, directory: Path, *, parallel: bool = True) -> None:
        self.log = log
        go = {**_THRIFTY, **({} if parallel else _ONE_AFTER_ANOTHER)}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(directory), **go},
                # Ctrl-C in a terminal is for us, who end these in order.
                start_new_session=True,
                preexec_fn=partial(end_with_parent, os.getpid()),
            )

    @property
    def ended(self) -> bool:
        """True if the process has ended."""
        return self.process.poll() is not None

    def stop(self, *, kill: bool = False) -> None:
        """End it, and wait until it is gone."""
        if self.ended:
            return
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.resume()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def pause(self) -> None:
        """Let it stand still: connections to it stay open and get no answer."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process continue."""
        self.process.send_signal(signal.SIGCONT)

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def end_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent is killed: SIGKILL runs no cleanup.

    ``parent`` is its id, taken before the fork. A parent that was killed since then is not detected.
    """
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
