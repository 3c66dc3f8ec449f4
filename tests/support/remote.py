"""The command line of a user without a kubeconfig, compared with that of a user with one."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.cluster_tools import Outcome, Place
from support.command import Command
from support.served import Served

READING = frozenset({"get", "describe", "logs", "why", "diff", "fit"})
ALIKE_IN = 30.0
"""Seconds until what the service knows is what the API server answers."""


class Remote:
    """The command line of a user without a kubeconfig."""

    def __init__(self, place: Place, served: Served, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.served = served
        self.directory = directory
        self._monkeypatch = monkeypatch
        self._started: list[Command] = []

    def login(self, name: str = "admin", code: int | None = 0, url: str = "", token: str = "") -> Outcome:
        """Log in as one of the service's users."""
        return self.typed(
            "login", url or self.served.url, "--token-stdin", text=token or self.served.tokens[name], code=code
        )

    def typed(self, *arguments: str, text: str = "", code: int | None = 0) -> Outcome:
        """Run a command without a kubeconfig; ``text`` is its standard input."""
        with self._monkeypatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.directory))
            patch.setenv("KUBECONFIG", str(self.directory / "no-kubeconfig"))
            patch.setattr("sys.stdin", standard_input(text))
            return self.place.anywhere(*arguments, code=code)

    def start(self, *arguments: str) -> Command:
        """Run a command in a process of its own, without a kubeconfig."""
        with self._monkeypatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.directory))
            patch.setenv("KUBECONFIG", str(self.directory / "no-kubeconfig"))
            self._started.append(Command(*arguments))
        return self._started[-1]

    @property
    def port(self) -> int:
        """Return the port of the service."""
        port = urlsplit(self.served.url).port
        assert port is not None
        return port

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the shell without a kubeconfig; ``$0`` is Python."""
        with self._monkeypatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.directory))
            patch.setenv("KUBECONFIG", str(self.directory / "no-kubeconfig"))
            return subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, timeout=120)

    def stop(self) -> None:
        """End what was started."""
        for command in self._started:
            command.stop()

    def same(self, *arguments: str, code: int | None = 0) -> Outcome:
        """A command in the namespace by both ways: what is printed, and the exit code, are the same."""
        return self.same_anywhere(*arguments, "-n", self.place.namespace, code=code)

    def same_anywhere(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Compare as :meth:`same`, without a namespace. Commands that only read, or are refused, are retried if the
        cluster changes between the two runs.
        """
        end = time.monotonic() + (ALIKE_IN if arguments[0] in READING or code else 0)
        while True:
            near = self.place.anywhere(*arguments, code=code)
            far = self.typed(*arguments, code=code)
            if _told(far) != _told(near) and time.monotonic() < end:
                time.sleep(0.1)
                continue
            assert _told(far) == _told(near)
            return far


def standard_input(text: str) -> io.TextIOWrapper:
    """Return a stream that stands in for standard input."""
    return io.TextIOWrapper(io.BytesIO(text.encode()))


def _told(outcome: Outcome) -> tuple[str, str, int]:
    return timeless(outcome.out), timeless(outcome.err), outcome.code


def timeless(text: str) -> str:
    """Output without ages, which grow from one command to the next."""
    return re.sub(r" +", " ", re.sub(r"\b(?:\d+m)?\d+s\b|\b\d+m\b", "0s", text))


def settled(remote: Remote, *names: str) -> None:
    """Wait until the service knows that jobs run."""
    remote.place.running(*names)
    remote.served.until(
        "/jobs",
        lambda value: {item["name"] for item in value["items"] if item["status"] == "running"} == set(names),
        namespace=remote.place.namespace,
    )
