"""``/gpu-aggregation``: hourly allocation and utilization of GPUs, and the current allocation.

Answers are ``{"code", "message", "data"}``, errors ``{"code", "message", "error"}``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel
from starlette.responses import Response

from gpuctl.api.usage_models import (
    AllocationHistory,
    ClusterHour,
    ClusterUsage,
    HeldModelsAnswer,
    LabelHour,
    LabelUsage,
    LatestAllocation,
    LedgerAnswer,
    LedgerRow,
    NamespaceHour,
    NamespaceUsage,
    UsageNames,
    UsageProblem,
    WasteAnswer,
    WorkloadHour,
    WorkloadUsage,
)
from gpuctl.reading.usage.price_list import price_list
from gpuctl_server.access.caller import Caller
from gpuctl_server.content_negotiation import JSON
from gpuctl_server.http_problems import Problem, Route, usage_form
from gpuctl_server.openapi_document import ALWAYS, PROBLEMS, example_of
from gpuctl_server.routes.common import BASE, ServiceOf, allowed
from gpuctl_server.routes.usage_parameters import (
    Cluster,
    HourlyQuery,
    HourlyQueryParameters,
    Page,
    PageSize,
    hours_between,
    paging_of,
    seconds_of,
)
from gpuctl_server.service_context import Service
from gpuctl_server.usage_lookups import (
    cluster_names,
    pausable_by,
    require_all_namespaces,
    require_all_pools,
    usage_answer,
    visible_namespaces,
)
from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage
from gpuctl_usage.answers.ledger_answers import OF_NAMESPACES
from gpuctl_usage.answers.name_answers import dimension_keys as keys
from gpuctl_usage.answers.name_answers import dimension_values as values
from gpuctl_usage.answers.name_answers import namespace_names
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.rows_as_csv import as_csv
from gpuctl_usage.answers.snapshot_answers import latest, snapshot_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.answers.waste_answers import IdleRule
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import KEYED, Level

DAY = 24 * 3600
_SECONDS = {"m": 60, "h": 3600, "d": DAY}
_INTERVAL = r"^([1-9]\d{0,5}[mhd])?$"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "model": UsageProblem,
        "description": PROBLEMS[status],
        "content": {"application/json": {"example": usage_form(Problem(status, example_of(status)["message"]))}},
    }
    for status in (*(status for status in ALWAYS if status != 431), 404)
}
router = APIRouter(prefix=f"{BASE}/gpu-aggregation", route_class=Route, responses=_PROBLEMS)

Reads = Annotated[Caller, Depends(allowed("get", "metrics"))]


async def _of_all_pools(caller: Reads) -> Caller:
    require_all_pools(caller)
    return caller


ReadsUsage = Annotated[Caller, Depends(_of_all_pools)]
Namespace = Annotated[str, Query(max_length=63, description="Namespace. Default: all visible namespaces.")]
Since = Annotated[
    str, Query(max_length=64, description="Start, inclusive, RFC 3339. Default: 24 hours before the end.")
]
Until = Annotated[str, Query(max_length=64, description="End, exclusive, RFC 3339. Default: now.")]
Dimension = Annotated[Literal["label", "annotation"], Query(description="Kind of the dimension.")]
Key = Annotated[
    str, Query(min_length=1, max_length=317, description="Key of the label or annotation.", examples=["team"])
]
Excluded = Annotated[
    str,
    Query(
        max_length=8192,
        description="Namespaces to leave out, separated by commas.",
        examples=["ml-inference,ml-test"],
    ),
]
Idle = Annotated[
    bool,
    Query(
        description="Include rows of zero for those that held GPUs within the retention period, but not in this step.",
    ),
]
OrderBy = Annotated[
    Literal["time", "utilization", "allocated_gpu_count"], Query(description="Sort key; unknown values are last.")
]
OrderDirection = Annotated[Literal["asc", "desc"], Query(description="Ascending or descending.")]
_NAMESPACES = "/gpu-aggregation/namespaces/hourly-stats"
_LEDGER = "/gpu-aggregation/ledger?by=namespace"
_WORKLOADS = "/gpu-aggregation/workloads/hourly-stats"


def _success(value: Any, note: str = "") -> Response:
    # For thousands of rows, the module `json` would need ten times as long to write the numbers.
    return Response(orjson.dumps({"code": 200, "message": note or "success", "data": value}), media_type=JSON)


def _rows(
    service: Service,
    caller: Caller,
    query: HourlyQuery,
    row: type[BaseModel],
    ask: Callable[[Database, HoursQuery], RowsOrPage],
) -> Response:
    """Return rows as JSON or CSV."""
    hours = query.hours
    found = usage_answer(
        service, caller, hours.cluster, lambda database, cluster: ask(database, replace(hours, cluster=cluster))
    )
    if not query.as_csv:
        return _success(found)
    rows = found if isinstance(found, list) else found["data"]
    return Response(as_csv(list(row.model_fields), rows), media_type="text/csv; charset=utf-8")


def _of_rows(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "content": {"text/csv": {"schema": {"type": "string"}}}}}


def _of(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}}


def _only(query: HourlyQuery, seen: frozenset[str] | None, excluded: str = "") -> HourlyQuery:
    """Return a query limited to the visible namespaces, without the excluded ones."""
    without = frozenset(filter(None, (name.strip() for name in excluded.split(","))))
    return query._replace(hours=replace(query.hours, namespaces=seen, excluded=without))


def _narrowed(seen: frozenset[str] | None, namespace: str) -> frozenset[str] | None:
    """Return the visible namespaces that a request is about; None: all."""
    if not namespace:
        return seen
    return frozenset({namespace}) if seen is None else seen & {namespace}


@router.get("/clusters", responses=_of(UsageNames))
def clusters(service: ServiceOf, caller: Reads) -> Response:
    """List the names of clusters; the first one is the default. Clusters other than that of this service are only
    listed for callers who see all namespaces and pools.
    """
    return _success(cluster_names(service, caller))


@router.get("/namespaces", responses=_of(UsageNames))
def namespaces(service: ServiceOf, caller: ReadsUsage, cluster: Cluster = "") -> Response:
    """List the visible namespaces in which GPUs were allocated."""
    there = usage_answer(service, caller, cluster, namespace_names)
    seen = visible_namespaces(service, caller, cluster)
    return _success([name for name in there if seen is None or name in seen])


@router.get("/dimension-keys", responses=_of(UsageNames))
def dimension_keys(
    service: ServiceOf, caller: ReadsUsage, dimension_type: Dimension = "label", cluster: Cluster = ""
) -> Response:
    """List the keys of labels or annotations by which usage is aggregated. Only for callers who see all namespaces."""
    require_all_namespaces(caller, _WORKLOADS)
    return _success(
        usage_answer(service, caller, cluster, lambda database, name: keys(database, name, Level(dimension_type)))
    )


@router.get("/dimension-values", responses=_of(UsageNames))
def dimension_values(
    service: ServiceOf,
    caller: ReadsUsage,
    dimension_key: Key,
    dimension_type: Dimension = "label",
    cluster: Cluster = "",
) -> Response:
    """List the values that a label or annotation has had. Only for callers who see all namespaces."""
    require_all_namespaces(caller, _WORKLOADS)
    level = Level(dimension_type)
    return _success(
        usage_answer(service, caller, cluster, lambda database, name: values(database, name, level, dimension_key))
    )


@router.get("/cluster/hourly-stats", responses=_of_rows(ClusterUsage))
def cluster_hours(service: ServiceOf, caller: ReadsUsage, query: HourlyQueryParameters) -> Response:
    """Return the usage of a cluster, one row per step. Only for callers who see all namespaces."""
    from gpuctl_usage.answers.hourly_answers import cluster_hours as answer

    require_all_namespaces(caller, _NAMESPACES)
    return _rows(service, caller, query, ClusterHour, answer)


@router.get("/namespaces/hourly-stats", responses=_of_rows(NamespaceUsage))
def namespace_hours(
    service: ServiceOf,
    caller: ReadsUsage,
    query: HourlyQueryParameters,
    namespace: Namespace = "",
    exclude_namespaces: Excluded = "",
    include_idle: Idle = False,
) -> Response:
    """Return the usage of the visible namespaces, one row per namespace and step."""
    from gpuctl_usage.answers.hourly_answers import namespace_hours as answer

    query = _only(query, visible_namespaces(service, caller, query.hours.cluster, namespace), exclude_namespaces)
    return _rows(
        service,
        caller,
        query,
        NamespaceHour,
        lambda database, hours: answer(database, hours, namespace, with_idle=include_idle),
    )


@router.get("/labels/hourly-stats", responses=_of_rows(LabelUsage))
def label_hours(
    service: ServiceOf,
    caller: ReadsUsage,
    dimension_type: Dimension,
    dimension_key: Key,
    query: HourlyQueryParameters,
    dimension_value: Annotated[
        str, Query(max_length=4096, description="Value of the label or annotation. Default: all.")
    ] = "",
    include_idle: Idle = False,
) -> Response:
    """Return usage by the values of a label or annotation, one row per value and step. Only for callers who see all
    namespaces.
    """
    from gpuctl_usage.answers.hourly_answers import label_hours as answer

    require_all_namespaces(caller, _WORKLOADS)
    level = Level(dimension_type)
    return _rows(
        service,
        caller,
        query,
        LabelHour,
        lambda database, hours: answer(database, hours, level, dimension_key, dimension_value, with_idle=include_idle),
    )


@router.get("/workloads/hourly-stats", responses=_of_rows(WorkloadUsage))
def workload_hours(
    service: ServiceOf,
    caller: ReadsUsage,
    query: HourlyQueryParameters,
    namespace: Namespace = "",
    exclude_namespaces: Excluded = "",
    workload_name: Annotated[str, Query(max_length=253, description="Name of the workload.", examples=["bert"])] = "",
    workload_type: Annotated[str, Query(max_length=63, description="Kind of the workload.", examples=["Job"])] = "",
    order_by: OrderBy = "time",
    order_direction: OrderDirection = "asc",
) -> Response:
    """Return the usage of workloads in the visible namespaces, one row per workload and step. JSON always has pages;
    CSV only if a page is requested.
    """
    from gpuctl_usage.answers.hourly_answers import workload_hours as answer

    if query.hours.paging is None and not query.as_csv:
        query = query._replace(hours=replace(query.hours, paging=Paging(1, 20)))
    query = _only(query, visible_namespaces(service, caller, query.hours.cluster, namespace), exclude_namespaces)
    about: dict[str, Any] = {"namespace": namespace, "name": workload_name, "kind": workload_type}
    about |= {"order": RowOrder(order_by), "ascending": order_direction == "asc"}
    return _rows(service, caller, query, WorkloadHour, lambda database, hours: answer(database, hours, **about))


@router.get("/workloads/models", responses=_of(HeldModelsAnswer))
def held_models(
    service: ServiceOf,
    caller: ReadsUsage,
    cluster: Cluster = "",
    namespace: Namespace = "",
    start_time: Since = "",
    end_time: Until = "",
    dimension_type: Dimension = "label",
    dimension_key: Annotated[
        str,
        Query(
            max_length=317,
            description="Key of a label or annotation to group by, in addition to the model.",
            examples=["team"],
        ),
    ] = "",
    page: Page = None,
    page_size: PageSize = None,
) -> Response:
    """Return the GPU-seconds that workloads held, by GPU model. For hours within the retention period they add up to
    the ledger.
    """
    from gpuctl_usage.answers.held_models import held_models as answer

    end = seconds_of("end_time", end_time, time.time())
    hours = hours_between(cluster, seconds_of("start_time", start_time, end - DAY), end, paging_of(page, page_size))
    seen = _narrowed(visible_namespaces(service, caller, cluster, namespace), namespace)
    level = Level(dimension_type)
    return _success(
        usage_answer(
            service,
            caller,
            cluster,
            lambda database, name: answer(
                database, replace(hours, cluster=name, namespaces=seen), level, dimension_key
            ),
        )
    )


@router.get("/ledger", responses=_of_rows(LedgerAnswer))
def ledger(
    service: ServiceOf,
    caller: ReadsUsage,
    query: HourlyQueryParameters,
    by: Annotated[
        Literal["cluster", "namespace", "label", "annotation", "workload", "node", "model"],
        Query(description="Unit of a row."),
    ] = "cluster",
    key: Annotated[
        str, Query(max_length=317, description="Key of the label or annotation; required for these.", examples=["team"])
    ] = "",
    value: Annotated[
        str,
        Query(max_length=4096, description="Only this namespace, value, workload (uid), node or model. Default: all."),
    ] = "",
    namespace: Namespace = "",
    exclude_namespaces: Excluded = "",
    order_by: OrderBy = "time",
    order_direction: OrderDirection = "asc",
    costs: Annotated[
        bool,
        Query(
            description="Return `cost` and `currency`. Only with step=total, and not with by=node: it is not recorded "
            "which pods held the GPUs of a node."
        ),
    ] = False,
) -> Response:
    """Return the use of all GPU-seconds: what they were available for, allocated to and used by. Rows other than
    namespaces and workloads are only for callers who see all namespaces.
    """
    from gpuctl_usage.answers.ledger_answers import ledger as answer
    from gpuctl_usage.answers.ledger_costs import PRICED, with_costs

    level = Level(by)
    if level not in OF_NAMESPACES:
        require_all_namespaces(caller, _LEDGER)
    if (level in KEYED) != bool(key):
        said = "is required" if level in KEYED else "is only for by=label and by=annotation: leave it out"
        raise Problem(400, f"key {said} with by={by}", error="InvalidRequest")
    if level in OF_NAMESPACES:
        query = _only(query, visible_namespaces(service, caller, query.hours.cluster, namespace), exclude_namespaces)
    elif namespace or exclude_namespaces:
        said = "namespace" if namespace else "exclude_namespaces"
        raise Problem(400, f"{said} is for by=namespace and by=workload", error="InvalidRequest")
    if costs and (query.hours.step is not StepUnit.TOTAL or level not in PRICED):
        raise Problem(400, "costs: only with step=total, and not with by=node", error="InvalidRequest")
    about: dict[str, Any] = {"value": value, "namespace": namespace}
    about |= {"order": RowOrder(order_by), "ascending": order_direction == "asc"}
    prices = price_list(service.platform.platform.usage.prices)

    def ask(database: Database, hours: HoursQuery) -> RowsOrPage:
        found = answer(database, hours, level, key, **about)
        if not costs:
            return found
        if isinstance(found, list):
            return with_costs(database, hours, level, key, found, prices)
        return {**found, "data": with_costs(database, hours, level, key, found["data"], prices)}

    return _rows(service, caller, query, LedgerRow, ask)


@router.get("/waste", responses=_of(WasteAnswer))
def waste(
    service: ServiceOf,
    caller: ReadsUsage,
    cluster: Cluster = "",
    namespace: Namespace = "",
    start_time: Since = "",
    end_time: Until = "",
    below: Annotated[
        float, Query(gt=0, le=100, description="Percent: an hour with a lower utilization is idle.")
    ] = 5.0,
) -> Response:
    """Return workloads that hold GPUs and have not used them for an hour or longer, and the idle GPU time of a
    period."""
    from gpuctl_usage.answers.waste_answers import waste as answer

    end = seconds_of("end_time", end_time, time.time())
    hours = hours_between(cluster, seconds_of("start_time", start_time, end - DAY), end, None)
    seen = _narrowed(visible_namespaces(service, caller, cluster, namespace), namespace)
    query: dict[str, Any] = {
        "prices": price_list(service.platform.platform.usage.prices),
        "rule": IdleRule(below=below),
        "namespaces": seen,
    }
    found = usage_answer(
        service, caller, cluster, lambda database, name: answer(database, name, hours.start, hours.end, **query)
    )
    pauses = pausable_by(service, caller, {item["owner_uid"] for item in found["workloads"]})
    told = [{**item, "pause": pauses.get(item["owner_uid"])} for item in found["workloads"]]
    return _success({**found, "workloads": told})


@router.get("/snapshots/latest", responses=_of(LatestAllocation))
def latest_snapshot(service: ServiceOf, caller: ReadsUsage, cluster: Cluster = "") -> Response:
    """Return the GPU allocation of the visible namespaces at the last snapshot."""
    seen = visible_namespaces(service, caller, cluster)
    return _success(usage_answer(service, caller, cluster, lambda database, name: latest(database, name, seen)))


@router.get("/snapshots", responses=_of(AllocationHistory))
def snapshots(
    service: ServiceOf,
    caller: ReadsUsage,
    cluster: Cluster = "",
    start_time: Since = "",
    end_time: Until = "",
    include_details: Annotated[
        bool | None,
        Query(description="Include every workload. Default: true for at most 300 snapshots."),
    ] = None,
    interval: Annotated[
        str,
        Query(
            max_length=8,
            json_schema_extra={"pattern": _INTERVAL},
            description="Return only the first snapshot of each interval, in minutes, hours or days. Default: all.",
            examples=["1h"],
        ),
    ] = "",
    page: Page = None,
    page_size: PageSize = None,
) -> Response:
    """Return snapshots of the GPU allocation of the visible namespaces, taken every five minutes."""
    # Not a constraint of the parameter: the message would only show the pattern.
    if not re.fullmatch(_INTERVAL, interval, re.ASCII):
        raise Problem(400, f"interval: `{interval}` is not a duration such as 5m, 1h or 1d", error="InvalidRequest")
    end = seconds_of("end_time", end_time, time.time())
    start = seconds_of("start_time", start_time, end - DAY)
    hours = hours_between(cluster, start, end, paging_of(page, page_size))
    hours = replace(hours, namespaces=visible_namespaces(service, caller, cluster))
    every = int(interval[:-1]) * _SECONDS[interval[-1]] if interval else 0
    found = usage_answer(
        service,
        caller,
        cluster,
        lambda database, name: snapshot_list(
            database, replace(hours, cluster=name), details=include_details, interval=every
        ),
    )
    return _success(found.answer, found.note)
