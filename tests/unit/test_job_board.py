"""The list of all jobs that the service computes after each change."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpuctl.kube.connection import Connection
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, Resource
from gpuctl.objects.ownership_metadata import records
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl_server.mirror.job_board import JobBoard
from gpuctl_server.mirror.mirror import Mirror

SETTINGS = Settings()
KEYS = records(SETTINGS)


def job(name: str, spec: Object) -> Object:
    labels = {"app": name, KEYS.job_type: "training"}
    metadata = {"name": name, "namespace": "n", "uid": name, "labels": labels}
    return {"kind": "Job", "metadata": metadata, "spec": spec, "status": {}}


class Listed:
    """A session with some objects."""

    def __init__(self, *objects: Object) -> None:
        self._objects = objects

    def list_objects(self, resource: Resource, namespace: str | None = None, **selectors: str) -> Any:
        return [obj for obj in self._objects if obj["kind"] == resource.kind], "1"

    def each(self, task: Any, items: Any) -> list[Any]:
        return list(map(task, items))


@pytest.mark.parametrize(
    ("odd", "lines"),
    [
        ({"parallelism": "many"}, ["a job is left out of the list"]),
        ({"template": {"spec": None}}, ["a job is left out of the list"]),
        ({"template": "x"}, ["the GPUs of resource claims could not be counted", "a job is left out of the list"]),
    ],
    ids=["cannot be read with the others", "has no row", "has no pods"],
)
def test_odd_object_leaves_out_its_job_alone(caplog: pytest.LogCaptureFixture, odd: Object, lines: list[str]) -> None:
    """The others must not stay as they were before it was created. It is logged once, not at each computation."""
    template = {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
    session = cast(Session, Listed(job("fine", template), job("odd", {**template, **odd}), job("last", template)))
    board = JobBoard(cast(Connection, None), cast(Mirror, None), SETTINGS)
    for version in (1, 2):
        found = board._board = board._read(ReadContext(Scope(session, None), SETTINGS, KEYS), version)
        assert [item.row.identity.name for item in found.jobs] == ["fine", "last"]
        assert len(found.left_out) == 1
    assert [(line.getMessage(), line.exc_info) for line in caplog.records] == [(line, None) for line in lines]
    assert all("Error: " in line.__dict__["problem"] for line in caplog.records)
