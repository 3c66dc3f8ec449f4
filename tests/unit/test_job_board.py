"""The list of all jobs that the service computes after each change."""

from __future__ import annotations

from typing import Any, cast

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


def test_odd_object_leaves_out_its_job_alone() -> None:
    """The others must not stay as they were before it was created."""
    template = {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
    session = cast(
        Session, Listed(job("fine", template), job("odd", {**template, "parallelism": "many"}), job("last", template))
    )
    board = JobBoard(cast(Connection, None), cast(Mirror, None), SETTINGS)
    found = board._read(ReadContext(Scope(session, None), SETTINGS, KEYS), 1)
    assert [item.row.identity.name for item in found.jobs] == ["fine", "last"]
