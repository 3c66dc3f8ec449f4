"""Reconnects of followed logs after an outage of the API server."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.reading.logs.log_streams import ContainerLog
from gpuctl.reading.logs.log_tail import ContainerRun, LogTail


def pauses(monkeypatch: pytest.MonkeyPatch, number: int) -> list[float]:
    """Return the first pauses of a log whose server does not respond."""
    found: list[float] = []

    def read(**_: Any) -> Any:
        raise ConnectionFailed("no route to host")

    def wait(tail: LogTail, run: ContainerRun, seconds: float) -> None:
        found.append(seconds)
        tail.stopped = len(found) == number

    pod = {"metadata": {"name": "train-0"}, "spec": {}, "status": {"phase": "Running"}}
    state = {"lock": threading.Condition(), "read": read, "is_there": lambda: True}
    source = SimpleNamespace(name="train", pod=pod, **state)
    monkeypatch.setattr(LogTail, "_wait", wait)
    LogTail(cast(ContainerLog, source), queue.Queue()).start().join(10)
    return found


def test_logs_that_broke_together_reconnect_at_different_times(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pauses(monkeypatch, 6), pauses(monkeypatch, 6)
    assert not set(one) & set(other)
    assert all(0.5 * low <= pause <= 1.5 * low for low, pause in zip((0.2, 0.5, 1, 2, 5, 5), one, strict=True))
