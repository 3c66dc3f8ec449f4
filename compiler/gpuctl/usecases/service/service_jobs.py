"""Rows of jobs from the REST API. Unknown fields are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from gpuctl.kube.scope import Scope
from gpuctl.objects.hashed_names import is_hashed_name
from gpuctl.reading.jobs.job_objects import Identity
from gpuctl.reading.jobs.job_rows import JobTableRow
from gpuctl.reading.jobs.status import Status
from gpuctl.usecases.service.service_client import ServiceClient

_PAGE = 5000
_ELSEWHERE = frozenset({"uid", "identity", "state", "ready", "pools", "gpu", "object_name"})
_OPTIONAL = {
    name: re.sub("_([a-z])", lambda match: match[1].upper(), name)
    for name in JobTableRow._fields
    if name not in _ELSEWHERE
}
"""Field of a row -> field of the REST API."""


class RowPage(NamedTuple):
    """Rows, and the status words of all rows before the filter."""

    rows: list[JobTableRow]
    statuses: list[str]


class ServiceGpus(NamedTuple):
    """GPUs of the visible jobs: on nodes, in total (None if unknown), and waited for."""

    allocated: int
    total: int | None
    waiting: int


def pages_of_rows(service: ServiceClient, scope: Scope, parameters: Mapping[str, str]) -> Iterator[RowPage]:
    """Yield the rows of jobs page by page. Notes go to the scope.

    :param parameters: query parameters of ``GET /pods`` except namespace and page.
    :raises ServiceRefusal: 404 if a named job or pod does not exist.
    """
    seen, where = 0, {"namespace": scope.namespace or "", "pageSize": str(_PAGE)}
    for number in count(1):
        with service.reading() as get:
            page = get("/pods", **parameters, **where, page=str(number))
            rows, total = list(map(row_of, page["items"])), int(page["total"])
            _note(scope, page)
        yield RowPage(rows, list(page.get("statuses") or ()))
        seen += len(rows)
        if not rows or seen >= total:
            return


def gpu_use_of_service(service: ServiceClient, scope: Scope) -> ServiceGpus:
    """Return the GPUs that visible jobs hold and wait for. Notes go to the scope."""
    with service.reading() as get:
        found = get("/gpu-use", namespace=scope.namespace or "")
        _note(scope, found)
        return ServiceGpus(int(found["allocated"]), found.get("total"), int(found["waiting"]))


def _note(scope: Scope, value: Mapping[str, Any]) -> None:
    for note in value.get("notes") or ():
        scope.note(str(note))


def row_of(item: Mapping[str, Any]) -> JobTableRow:
    """Return the row of an item of ``GET /pods``."""
    name: str = item["name"]
    own: str = item.get("objectName") or name
    return JobTableRow(
        uid=item.get("uid") or "",
        identity=Identity(item["namespace"], name, item["kind"], own if is_hashed_name(own, name) else ""),
        state=Status(item["status"], item["phase"], item.get("reason") or ""),
        ready=item["ready"],
        pools=tuple(filter(None, (item.get("pool") or "").split(","))),
        gpu=int(item["gpu"]),
        object_name=own,
        **{field: item.get(key) for field, key in _OPTIONAL.items()},
    )
