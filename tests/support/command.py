"""Commands in processes of their own, for tests of commands that run until an event."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fault_tools.zygote import shared


class Command:
    """A command that runs in a process of its own; ``out`` and ``err`` grow as it prints.

    It is a fork of one that has imported gpuctl: a start of Python costs more than most of what is looked at here.
    """

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.out = self.err = b""
        nothing = os.open(os.devnull, os.O_RDONLY)
        pipes = {name: os.pipe() for name in ("out", "err")}
        streams = [nothing, *(writing for _, writing in pipes.values())]
        try:
            self.process = shared().fork(arguments, streams, env=os.environ, cwd=Path.cwd())
        finally:
            for descriptor in streams:
                os.close(descriptor)
        self._threads = [
            threading.Thread(target=self._collect, args=(name, reading), daemon=True)
            for name, (reading, _) in pipes.items()
        ]
        for thread in self._threads:
            thread.start()

    def _collect(self, name: str, reading: int) -> None:
        while data := os.read(reading, 65536):
            setattr(self, name, getattr(self, name) + data)
        os.close(reading)

    def until(self, text: bytes, timeout: float = 120) -> None:
        """Wait until it has printed something."""
        deadline = time.monotonic() + timeout
        while text not in self.out + self.err:
            assert time.monotonic() < deadline, f"no {text!r} in\n{self.out!r}\n{self.err!r}"
            time.sleep(0.02)

    def until_connected(self, port: int, timeout: float = 120) -> None:
        """Wait until it has a connection to a port of this machine: it has been loaded, and is about its work."""
        deadline = time.monotonic() + timeout
        while port not in _connected(self.process.pid):
            assert self.process.poll() is None, f"it has ended\n{self.out!r}\n{self.err!r}"
            assert time.monotonic() < deadline, f"no connection to {port}"
            time.sleep(0.02)

    def end(self, timeout: float = 120) -> int:
        """Its exit code."""
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(timeout)
        return code

    def stop(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _connected(pid: int) -> set[int]:
    """The remote ports of a process's open connections."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        # A stream that was closed has no output.
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[2].partition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in sockets and row[3] == "01"}


def on_a_terminal(
    *arguments: str, answer: str | None = None, meanwhile: Callable[[], None] | None = None
) -> tuple[int, str]:
    """Run a command on a terminal, and answer its question; return its exit code and the screen.

    :param meanwhile: called between the question and the answer.
    """
    ours, theirs = os.openpty()
    process = shared().fork(arguments, [theirs, theirs, theirs], env=os.environ, cwd=Path.cwd())
    os.close(theirs)
    shown = bytearray()
    try:
        while meanwhile is not None and b"Continue?" not in shown:
            shown += os.read(ours, 65536)
        if meanwhile is not None:
            meanwhile()
        if answer is not None:
            os.write(ours, f"{answer}\n".encode())
        # Linux says EIO when the other end is closed.
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                shown += data
    except BaseException:
        process.kill()
        raise
    finally:
        code = process.wait()
    os.close(ours)
    return code, shown.decode("utf-8", "replace").replace("\r\n", "\n")


Start = Callable[..., Command]
"""Starts a command that is ended with the test."""
