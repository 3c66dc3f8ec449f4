"""Positions at which a client of a followed log resumes, and what a channel keeps for them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from gpuctl.language.settings import Settings
from gpuctl.reading.logs.log_follower import PodEnded
from gpuctl.reading.logs.log_parsing import LogLine
from gpuctl.reading.logs.log_streams import ContainerLog, LogBatch, LogOptions
from gpuctl_server.logs import log_channel
from gpuctl_server.logs.follower import LogSelection, LogSubscription
from gpuctl_server.logs.log_entries import (
    BEGINNING,
    AfterPosition,
    LogEntry,
    LogPosition,
    LogPositions,
    parse_positions,
    source_key,
)

SECOND = 1_000_000_000
LARGEST_HEADER = 8 * 1024 - len("Last-Event-ID: \r\n")
"""nginx rejects a longer header, as do other proxies."""


def entry(container: int, second: float) -> LogEntry:
    """Return a line of a container, which is written once at this time."""
    position = LogPosition(int(second * SECOND), 1)
    return LogEntry(source_key(f"uid-{container}", "main"), f"uid-{container}", position, "text", "{}")


def resumed(id: str, lines: Iterable[LogEntry]) -> list[LogEntry]:
    """Return the lines that a client with this id receives, of all lines in order of time."""
    positions = parse_positions(id)
    after: dict[bytes, AfterPosition] = {}
    return [
        line
        for line in lines
        if after.setdefault(line.source, AfterPosition(positions.position_in(line.source) or BEGINNING)).takes(line)
    ]


def test_client_of_a_thousand_containers_resumes_without_old_lines() -> None:
    """The id fits into a header. Only the last minute of the logs that it leaves out may be repeated."""
    old = [entry(container, second) for second in range(0, 5000, 1000) for container in range(1000)]
    old += [entry(container, 5000 + container) for container in range(1000)]
    new = [entry(container, 6000 + container) for container in range(1001)]
    client = LogSubscription(LogSelection(resume_from=LogPositions({}, whole=True)))
    for line in old:
        client.reached(line)
    id = client.resume_positions.text()
    assert len(id) < LARGEST_HEADER
    found = resumed(id, [*old, *new])
    assert found[-len(new) :] == new, "no new line is lost, also of a container that is new"
    repeated = found[: -len(new)]
    assert len(repeated) <= 60
    assert all(line.position.time >= 5000 * SECOND for line in repeated)
    # Past lines are read again from these positions if new ones were lost meanwhile.
    assert len(client.positions) == 1000


def test_position_of_an_active_container_is_not_left_out() -> None:
    client = LogSubscription(LogSelection(resume_from=LogPositions({}, whole=True)))
    last = entry(0, 0)
    for pod in range(1, 2000):
        last = entry(0, pod)
        client.reached(last)
        client.reached(entry(pod, pod))
    for _ in range(2):
        positions = parse_positions(client.resume_positions.text())
        assert positions.positions[last.source] == last.position
        # The order is that of the lines after a reconnect as well.
        client = LogSubscription(LogSelection(resume_from=positions))
        client.reached(entry(2000, 2000))


def test_channel_forgets_the_numbers_of_lines_of_ended_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service is followed for weeks, in which pods come and go. The log of each has hundreds of lines."""

    class Pods:
        """A followed log: one pod after the other."""

        read_first: tuple[ContainerLog, ...] = ()

        def past(self) -> Iterator[LogBatch]:
            return iter(())

        def items(self) -> Iterator[Any]:
            for number in range(40):
                pod = {"metadata": {"uid": f"uid-{number}", "name": f"pod-{number}"}}
                source = ContainerLog(None, pod, "main", LogOptions())  # type: ignore[arg-type]
                for start in range(0, 700, 100):
                    times = (f"2026-01-31T08:00:00.{line:09d}Z" for line in range(start, start + 100))
                    yield LogBatch(source, [LogLine(time, b"line", ends=True) for time in times])
                used.append(tracemalloc.get_traced_memory()[0])
                yield PodEnded(f"uid-{number}", "pod has finished", gone=True)

    class Job:
        def __init__(self, *_: object) -> None: ...

        def followed(self, **_: object) -> Pods:
            return Pods()

    def posted(message: object) -> None:
        if isinstance(message, log_channel._Lines):
            last.append(message.entries[-1].position)

    used: list[int] = []
    last: list[LogPosition] = []
    monkeypatch.setattr(log_channel, "JobLogs", Job)
    monkeypatch.setattr(log_channel, "context_of", lambda *_: None)
    address = log_channel.LogAddress("team-a", "inference/chat", None, None)
    reader = log_channel._ChannelReader(None, Settings(), address, posted)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        reader._follow(None)  # type: ignore[arg-type]
    finally:
        tracemalloc.stop()
    assert {position.number for position in last} == {1}
    assert used[-1] - used[0] < 1_000_000, "memory grows with each pod"
