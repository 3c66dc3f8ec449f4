"""After a change the service waits until its own reads have it, without doubt about the change itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.objects.api_resources import Key, Object
from gpuctl_server.changes.plan_runs import await_seen

JOB, DELETED = Key("Job", "team-a", "train"), Key("Job", "team-a", "old")


class Cluster:
    """The objects of a session; with ``away`` they cannot be read."""

    def __init__(self, objects: dict[Key, Object], *, away: bool = False) -> None:
        self._objects = objects
        self._away = away

    def get(self, key: Key) -> Object | None:
        if self._away:
            raise ConnectionFailed("the API server does not answer")
        return self._objects.get(key)

    def each(self, function: Callable[[Key], Any], keys: Iterable[Key]) -> list[Any]:
        return list(map(function, keys))


def seen_by(waited: list[Any]) -> Any:
    """Return a service that notes what it waits for."""
    return SimpleNamespace(
        mirror=SimpleNamespace(version=7),
        wait_until_seen=lambda written, gone: waited.append((written, gone)),
        board=SimpleNamespace(wait_for=lambda holds, within: waited.append(holds(SimpleNamespace(version=7)))),
    )


def test_written_and_deleted_objects_are_awaited() -> None:
    waited: list[Any] = []
    job = {"metadata": {"name": "train"}}
    found = await_seen(seen_by(waited), Cluster({JOB: job}), [JOB, DELETED])  # type: ignore[arg-type]
    assert found == {JOB: job, DELETED: None}
    assert waited == [([job], [DELETED]), True]


def test_change_that_cannot_be_read_again_is_no_failure() -> None:
    """The change was made: an error would let the client repeat it, such as a deletion, which then gets a 404."""
    waited: list[Any] = []
    assert await_seen(seen_by(waited), Cluster({}, away=True), [JOB]) == {}  # type: ignore[arg-type]
    assert waited == []
