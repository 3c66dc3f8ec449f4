"""``/gpu-aggregation``: who held GPUs, and what the GPUs did, hour by hour; and who holds them now.

Answers are ``{"code", "message", "data"}``, errors ``{"code", "message", "error"}``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel
from starlette.responses import JSONResponse

from gpuctl_server.access.caller import Caller
from gpuctl_server.models.usage_models import (
    AllocationHistory,
    ClusterUsage,
    LabelUsage,
    LatestAllocation,
    LedgerAnswer,
    NamespaceUsage,
    UsageNames,
    UsageProblem,
    WorkloadUsage,
)
from gpuctl_server.openapi import PROBLEMS
from gpuctl_server.problems import Problem, Route
from gpuctl_server.routes.common import BASE, LARGEST_PAGE, ServiceOf, allowed, time_of
from gpuctl_server.service import Service
from gpuctl_server.usage_lookups import demand_whole, demand_workloads, namespaces_seen, usage_answer

if TYPE_CHECKING:
    from gpuctl_usage.answers.hourly_answers import Hours
    from gpuctl_usage.answers.scopes import Paging

DAY = 24 * 3600
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": UsageProblem, "description": text} for status, text in PROBLEMS.items()
}
router = APIRouter(prefix=f"{BASE}/gpu-aggregation", route_class=Route, responses=_PROBLEMS)

Reads = Annotated[Caller, Depends(allowed("get", "metrics"))]
Cluster = Annotated[str, Query(max_length=253, description="A cluster's name. Default: the first that was collected.")]
Namespace = Annotated[str, Query(max_length=63, description="Of this namespace. Default: of all that may be seen.")]
_START = "Hours that begin at it or later; RFC 3339."
Start = Annotated[str, Query(max_length=64, description=_START, examples=["2025-11-05T00:00:00Z"])]
End = Annotated[str, Query(max_length=64, description="Before this time.", examples=["2025-11-06T00:00:00Z"])]
Page = Annotated[int | None, Query(ge=1, le=2**31, description="Which page, from 1: then the answer is one.")]
PageSize = Annotated[int | None, Query(ge=1, le=LARGEST_PAGE, description="Rows of a page. Default: 20.")]
Dimension = Annotated[Literal["label", "annotation"], Query(description="What kind of dimension it is.")]
Key = Annotated[str, Query(min_length=1, max_length=317, description="The key of the label.", examples=["team"])]
StepOf = Annotated[
    Literal["hour", "day", "week", "month", "total"],
    Query(description="What a row is of. Weeks begin on Monday; `total` is one row for the whole time."),
]
Zone = Annotated[
    str,
    Query(max_length=64, description="Time zone of days, weeks and months. Default: UTC.", examples=["Asia/Shanghai"]),
]
_NAMESPACES = "/gpu-aggregation/namespaces/hourly-stats"
_LEDGER = "/gpu-aggregation/ledger?by=namespace"
_WORKLOADS = "/gpu-aggregation/workloads/hourly-stats"


def _success(value: Any, note: str = "") -> JSONResponse:
    return JSONResponse({"code": 200, "message": note or "success", "data": value})


def _of(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}}


def _paging(page: int | None, size: int | None, always: bool = False) -> Paging | None:
    from gpuctl_usage.answers.scopes import Paging

    return Paging(page or 1, size or 20) if always or page is not None or size is not None else None


def _seconds(field: str, text: str, default: float | None = None) -> float:
    """A time that a parameter says."""
    found = time_of(field, text)
    if found is None and default is None:
        raise Problem(400, f"the query parameter {field} is required", error="InvalidRequest")
    return found.timestamp() if found is not None else default or 0.0


def _hours(cluster: str, start: float, end: float, paging: Paging | None) -> Hours:
    from gpuctl_usage.answers.hourly_answers import Hours

    if start >= end:
        raise Problem(400, "start_time has to be before end_time", error="InvalidRequest")
    return Hours(cluster, start, end, paging=paging)


def _between(cluster: str, start: str, end: str, paging: Paging | None, step: str, zone: str) -> Hours:
    from gpuctl_usage.answers.steps import Step

    hours = _hours(cluster, _seconds("start_time", start), _seconds("end_time", end), paging)
    return replace(hours, step=Step(step), tz=zone)


def _seen(service: Service, caller: Caller, cluster: str, namespace: str = "") -> frozenset[str] | None:
    from gpuctl_usage.answers.name_answers import namespace_names

    return namespaces_seen(service, caller, lambda database: namespace_names(database, cluster), namespace)


@router.get("/clusters", responses=_of(UsageNames))
def clusters(service: ServiceOf, caller: Reads) -> JSONResponse:
    """The names of clusters; the first is asked about where none is named."""
    from gpuctl_usage.answers.name_answers import cluster_names

    return _success(usage_answer(service, cluster_names))


@router.get("/namespaces", responses=_of(UsageNames))
def namespaces(service: ServiceOf, caller: Reads, cluster: Cluster = "") -> JSONResponse:
    """Namespaces in which GPUs were held, of those that may be seen."""
    from gpuctl_usage.answers.name_answers import namespace_names

    there = usage_answer(service, lambda database: namespace_names(database, cluster))
    seen = _seen(service, caller, cluster)
    return _success([name for name in there if seen is None or name in seen])


@router.get("/dimension-keys", responses=_of(UsageNames))
def dimension_keys(
    service: ServiceOf, caller: Reads, dimension_type: Dimension = "label", cluster: Cluster = ""
) -> JSONResponse:
    """Keys of labels, or of annotations, by which usage is added up. For those who see all namespaces."""
    from gpuctl_usage.answers.name_answers import dimension_keys as keys
    from gpuctl_usage.sums import Level

    demand_whole(caller, _WORKLOADS)
    return _success(usage_answer(service, lambda database: keys(database, cluster, Level(dimension_type))))


@router.get("/dimension-values", responses=_of(UsageNames))
def dimension_values(
    service: ServiceOf, caller: Reads, dimension_key: Key, dimension_type: Dimension = "label", cluster: Cluster = ""
) -> JSONResponse:
    """Values that a label, or an annotation, has had. For those who see all namespaces."""
    from gpuctl_usage.answers.name_answers import dimension_values as values
    from gpuctl_usage.sums import Level

    demand_whole(caller, _WORKLOADS)
    level = Level(dimension_type)
    return _success(usage_answer(service, lambda database: values(database, cluster, level, dimension_key)))


@router.get("/cluster/hourly-stats", responses=_of(ClusterUsage))
def cluster_hours(
    service: ServiceOf,
    caller: Reads,
    start_time: Start,
    end_time: End,
    cluster: Cluster = "",
    step: StepOf = "hour",
    tz: Zone = "",
    page: Page = None,
    page_size: PageSize = None,
) -> JSONResponse:
    """A cluster, hour by hour. For those who see all namespaces."""
    from gpuctl_usage.answers.hourly_answers import cluster_hours as answer

    demand_whole(caller, _NAMESPACES)
    hours = _between(cluster, start_time, end_time, _paging(page, page_size), step, tz)
    return _success(usage_answer(service, lambda database: answer(database, hours)))


@router.get("/namespaces/hourly-stats", responses=_of(NamespaceUsage))
def namespace_hours(
    service: ServiceOf,
    caller: Reads,
    start_time: Start,
    end_time: End,
    cluster: Cluster = "",
    namespace: Namespace = "",
    step: StepOf = "hour",
    tz: Zone = "",
    page: Page = None,
    page_size: PageSize = None,
) -> JSONResponse:
    """Namespaces, hour by hour, of those that may be seen."""
    from gpuctl_usage.answers.hourly_answers import namespace_hours as answer

    hours = _between(cluster, start_time, end_time, _paging(page, page_size), step, tz)
    hours = replace(hours, namespaces=_seen(service, caller, cluster, namespace))
    return _success(usage_answer(service, lambda database: answer(database, hours, namespace)))


@router.get("/labels/hourly-stats", responses=_of(LabelUsage))
def label_hours(
    service: ServiceOf,
    caller: Reads,
    dimension_type: Dimension,
    dimension_key: Key,
    start_time: Start,
    end_time: End,
    cluster: Cluster = "",
    dimension_value: Annotated[str, Query(max_length=4096, description="Of this value. Default: of all.")] = "",
    step: StepOf = "hour",
    tz: Zone = "",
    page: Page = None,
    page_size: PageSize = None,
) -> JSONResponse:
    """The values of a label or annotation, hour by hour. For those who see all namespaces."""
    from gpuctl_usage.answers.hourly_answers import label_hours as answer
    from gpuctl_usage.sums import Level

    demand_whole(caller, _WORKLOADS)
    level = Level(dimension_type)
    hours = _between(cluster, start_time, end_time, _paging(page, page_size), step, tz)
    return _success(
        usage_answer(service, lambda database: answer(database, hours, level, dimension_key, dimension_value))
    )


@router.get("/workloads/hourly-stats", responses=_of(WorkloadUsage))
def workload_hours(
    service: ServiceOf,
    caller: Reads,
    start_time: Start,
    end_time: End,
    cluster: Cluster = "",
    namespace: Namespace = "",
    workload_name: Annotated[str, Query(max_length=253, description="Of this name.", examples=["bert"])] = "",
    workload_type: Annotated[str, Query(max_length=63, description="Of this kind.", examples=["Job"])] = "",
    step: StepOf = "hour",
    tz: Zone = "",
    page: Page = None,
    page_size: PageSize = None,
    order_by: Annotated[
        Literal["time", "utilization", "allocated_gpu_count"],
        Query(description="By what; what is not known is last."),
    ] = "time",
    order_direction: Annotated[Literal["asc", "desc"], Query(description="The least first, or the most.")] = "asc",
) -> JSONResponse:
    """Workloads, hour by hour, of the namespaces that may be seen; always a page."""
    from gpuctl_usage.answers.hourly_answers import workload_hours as answer
    from gpuctl_usage.store.usage_queries import RowOrder

    demand_workloads(caller)
    hours = _between(cluster, start_time, end_time, _paging(page, page_size, always=True), step, tz)
    hours = replace(hours, namespaces=_seen(service, caller, cluster, namespace))
    asked: dict[str, Any] = {"namespace": namespace, "name": workload_name, "kind": workload_type}
    order, ascending = RowOrder(order_by), order_direction == "asc"
    return _success(
        usage_answer(service, lambda database: answer(database, hours, **asked, order=order, ascending=ascending))
    )


@router.get("/ledger", responses=_of(LedgerAnswer))
def ledger(
    service: ServiceOf,
    caller: Reads,
    start_time: Start,
    end_time: End,
    by: Annotated[
        Literal["cluster", "namespace", "label", "annotation", "workload", "node", "model"],
        Query(description="What a row is about."),
    ] = "cluster",
    key: Annotated[str, Query(max_length=317, description="Of a label or annotation.", examples=["team"])] = "",
    value: Annotated[
        str,
        Query(
            max_length=4096, description="Of this namespace, value, workload (its uid), node, model. Default: of all."
        ),
    ] = "",
    cluster: Cluster = "",
    namespace: Namespace = "",
    step: StepOf = "hour",
    tz: Zone = "",
    page: Page = None,
    page_size: PageSize = None,
) -> JSONResponse:
    """What became of every GPU-second. What is not of namespaces or workloads is for those who see all namespaces."""
    from gpuctl_usage.answers.ledger_answers import KEYED, OF_NAMESPACES
    from gpuctl_usage.answers.ledger_answers import ledger as answer
    from gpuctl_usage.sums import Level

    level = Level(by)
    if level is Level.WORKLOAD:
        demand_workloads(caller)
    elif level not in OF_NAMESPACES:
        demand_whole(caller, _LEDGER)
    if (level in KEYED) != bool(key):
        said = "is required" if level in KEYED else "is that of a label or annotation: leave it out"
        raise Problem(400, f"key {said} with by={by}", error="InvalidRequest")
    if namespace and level not in OF_NAMESPACES:
        raise Problem(400, "namespace is for by=namespace and by=workload", error="InvalidRequest")
    hours = _between(cluster, start_time, end_time, _paging(page, page_size), step, tz)
    if level in OF_NAMESPACES:
        hours = replace(hours, namespaces=_seen(service, caller, cluster, namespace))
    asked: dict[str, Any] = {"value": value, "namespace": namespace}
    return _success(usage_answer(service, lambda database: answer(database, hours, level, key, **asked)))


@router.get("/snapshots/latest", responses=_of(LatestAllocation))
def latest_snapshot(service: ServiceOf, caller: Reads, cluster: Cluster = "") -> JSONResponse:
    """Who held GPUs when that was looked at last, of the namespaces that may be seen."""
    from gpuctl_usage.answers.snapshot_answers import latest

    demand_workloads(caller)
    seen = _seen(service, caller, cluster)
    return _success(usage_answer(service, lambda database: latest(database, cluster, seen)))


@router.get("/snapshots", responses=_of(AllocationHistory))
def snapshots(
    service: ServiceOf,
    caller: Reads,
    cluster: Cluster = "",
    start_time: Annotated[
        str, Query(max_length=64, description="From when on, RFC 3339. Default: 24 hours before the end.")
    ] = "",
    end_time: Annotated[str, Query(max_length=64, description="Before this time. Default: now.")] = "",
    include_details: Annotated[
        bool | None,
        Query(description="Whether to tell of every workload. Default: where there are no more than 300 snapshots."),
    ] = None,
    page: Page = None,
    page_size: PageSize = None,
) -> JSONResponse:
    """Who held GPUs, every five minutes, of the namespaces that may be seen."""
    from gpuctl_usage.answers.snapshot_answers import snapshot_list

    demand_workloads(caller)
    end = _seconds("end_time", end_time, time.time())
    hours = _hours(cluster, _seconds("start_time", start_time, end - DAY), end, _paging(page, page_size))
    hours = replace(hours, namespaces=_seen(service, caller, cluster))
    found = usage_answer(service, lambda database: snapshot_list(database, hours, details=include_details))
    return _success(found.answer, found.note)
