"""An apply on two clusters that is killed before each of its writes: after `recover` each cluster has the old or the
new job, and clusters that were not begun are unchanged.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.calls import PARTS
from fault_tools.proxy import Action, Request, before
from fault_tools.world import Api
from properties.scale import part_of
from support.cluster_tools import Place, image, training
from support.command import Command, Start
from support.two_clusters import BOTH, Pair, pairs

WRITES = 7
"""Writes per cluster: lease, journal, delete, create, history, and the deletion of journal and lease."""


@pytest.fixture
def pair(
    plane: ControlPlane, queue_plane: ControlPlane, place: Place, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    yield from pairs(plane, queue_plane, place, monkeypatch)


def job_of(api: Api, namespace: str) -> dict[str, Any] | None:
    """Return the training, unless it is being deleted."""
    jobs = [job for job in api.list_objects("Job", namespace) if "deletionTimestamp" not in job["metadata"]]
    return jobs[0] if jobs else None


def image_of(job: dict[str, Any]) -> str:
    return str(job["spec"]["template"]["spec"]["containers"][0]["image"])


def journals_of(api: Api, namespace: str) -> list[str]:
    names = [secret["metadata"]["name"] for secret in api.list_objects("Secret", namespace)]
    return [name for name in names if name.startswith("gpuctl-journal-")]


class KillBeforeWrite:
    """Kill a command before its n-th write, counted over both clusters."""

    def __init__(self, number: int, command: Command) -> None:
        self._number = number
        self._seen = 0
        self._command = command

    def __call__(self, request: Request) -> Action | None:
        # The clusters are written to one after the other, one request at a time.
        self._seen += request.is_write
        # All later requests are dropped too, because the signal takes a moment to arrive.
        return before(self._command.process.kill) if self._seen >= self._number else None


def test_apply_killed_before_any_write_can_be_recovered(pair: Pair, start: Start) -> None:
    """Kills after a write are covered by the kill before the next write."""
    place, namespace = pair.here, pair.here.namespace
    apis = {"prod": place.api, "staging": pair.there}
    place.gpuctl("apply", "-f", place.file(training("a", environment=image("v0"))), *BOTH)
    for number in part_of(range(1, 2 * WRITES + 1), PARTS):
        new = place.file(training("a", environment=image(f"v{number}")))
        old = {name: job_of(api, namespace) for name, api in apis.items()}
        command = start("apply", "-f", new, *BOTH, "--yes", "-n", namespace)
        stopped = KillBeforeWrite(number, command)
        pair.first.reset(stopped)
        pair.proxy.reset(stopped)
        assert command.end() == -signal.SIGKILL, (number, command.err)
        for proxy in (pair.first, pair.proxy):
            proxy.drain()
            proxy.reset()
        for name, api in apis.items():
            left = journals_of(api, namespace)
            assert left or job_of(api, namespace) is not None, (number, name)
            if left:
                place.gpuctl("recover", "--cluster", name, "--yes")
            found, before_it = job_of(api, namespace), old[name]
            assert found is not None, (number, name)
            assert before_it is not None
            assert image_of(found) in (f"registry.example.com/app:v{number}", image_of(before_it)), (number, name)
            assert journals_of(api, namespace) == [], (number, name)
            begun = name == "prod" or number > WRITES + 1
            assert begun or found["metadata"]["uid"] == before_it["metadata"]["uid"], number
    told = place.gpuctl("apply", "-f", new, *BOTH, "--yes", "-o", "json").value
    assert [item["state"] for item in told["clusters"]] == ["done", "done"]
    assert {image_of(job_of(api, namespace) or {}) for api in apis.values()} == {f"registry.example.com/app:v{number}"}
