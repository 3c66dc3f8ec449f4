"""``/gpu-aggregation``: the ledger and its costs, idle GPUs, held GPU models, and snapshots of the allocation."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.responses import Response

from gpuctl.api.usage_ledger_models import (
    AllocationHistory,
    HeldModelsAnswer,
    LatestAllocation,
    LedgerAnswer,
    LedgerRow,
    WasteAnswer,
)
from gpuctl.language.sentences import say
from gpuctl.objects.durations import DAY, HOUR
from gpuctl.reading.usage.price_list import price_list
from gpuctl_server.access.caller import Caller
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.lookups.usage_lookups import pausable_by, require_all_namespaces, usage_answer, visible_namespaces
from gpuctl_server.routes.dependencies import ServiceOf
from gpuctl_server.routes.query_parameters import names_in, page_of
from gpuctl_server.routes.usage_parameters import (
    Cluster,
    Dimension,
    Excluded,
    HourlyQueryParameters,
    Namespace,
    OrderBy,
    OrderDirection,
    Page,
    PageSize,
    Since,
    Until,
    hours_up_to,
    paging_of,
)
from gpuctl_server.routes.usage_responses import (
    ReadsUsage,
    json_response,
    limited_query,
    rows_response,
    usage_router,
    usage_rows,
    usage_success,
)
from gpuctl_server.service_context import Service
from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage
from gpuctl_usage.answers.idle_gpu_answers import IdleRule
from gpuctl_usage.answers.ledger_answers import OF_NAMESPACES
from gpuctl_usage.answers.snapshot_answers import latest, snapshot_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import KEYED, Level

_SECONDS = {"m": 60, "h": HOUR, "d": DAY}
_INTERVAL = r"^([1-9]\d{0,5}[mhd])?$"
router = usage_router()
_LEDGER = "/gpu-aggregation/ledger?by=namespace"


def _seen(service: Service, caller: Caller, cluster: str, namespace: str) -> frozenset[str] | None:
    """Return the visible namespaces that a request is about; None: all."""
    seen = visible_namespaces(service, caller, cluster, namespace)
    if not namespace:
        return seen
    return frozenset({namespace}) if seen is None else seen & {namespace}


@router.get("/workloads/models", responses=json_response(HeldModelsAnswer))
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

    hours = hours_up_to(service.server_time(), cluster, start_time, end_time, paging_of(page, page_size))
    seen = _seen(service, caller, cluster, namespace)
    level = Level(dimension_type)
    return usage_success(
        usage_answer(
            service,
            caller,
            cluster,
            lambda database, name: answer(
                database, replace(hours, cluster=name, namespaces=seen), level, dimension_key
            ),
        )
    )


@router.get("/ledger", responses=rows_response(LedgerAnswer))
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
        wrong = say("is required") if level in KEYED else say("is only for by=label and by=annotation: leave it out")
        raise Problem(400, say("key {state} with by={by}", state=wrong, by=by), error="InvalidRequest")
    if level in OF_NAMESPACES:
        query = limited_query(
            query, visible_namespaces(service, caller, query.hours.cluster, namespace), exclude_namespaces
        )
    elif namespace or exclude_namespaces:
        said = "namespace" if namespace else "exclude_namespaces"
        raise Problem(400, say("{name} is for by=namespace and by=workload", name=said), error="InvalidRequest")
    if costs and (query.hours.step is not StepUnit.TOTAL or level not in PRICED):
        raise Problem(400, say("costs: only with step=total, and not with by=node"), error="InvalidRequest")
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

    return usage_rows(service, caller, query, LedgerRow, ask)


@router.get("/waste", responses=json_response(WasteAnswer))
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
    page: Page = None,
    page_size: PageSize = None,
) -> Response:
    """Return workloads that hold GPUs and have not used them for an hour or longer, and the idle GPU time of a
    period."""
    from gpuctl_usage.answers.idle_gpu_answers import waste as answer

    hours = hours_up_to(service.server_time(), cluster, start_time, end_time, paging_of(page, page_size))
    seen = _seen(service, caller, cluster, namespace)
    query: dict[str, Any] = {
        "prices": price_list(service.platform.platform.usage.prices),
        "rule": IdleRule(below=below),
        "namespaces": seen,
    }
    found = usage_answer(
        service, caller, cluster, lambda database, name: answer(database, name, hours.start, hours.end, **query)
    )
    items = found["workloads"]
    some = items if hours.paging is None else page_of(items, *hours.paging)
    pauses = pausable_by(service, caller, {item["owner_uid"] for item in some})
    told = [{**item, "pause": pauses.get(item["owner_uid"])} for item in some]
    return usage_success({**found, "total": len(items), "workloads": told})


@router.get("/snapshots/latest", responses=json_response(LatestAllocation))
def latest_snapshot(service: ServiceOf, caller: ReadsUsage, cluster: Cluster = "") -> Response:
    """Return the GPU allocation of the visible namespaces at the last snapshot."""
    seen = visible_namespaces(service, caller, cluster)
    return usage_success(usage_answer(service, caller, cluster, lambda database, name: latest(database, name, seen)))


@router.get("/snapshots", responses=json_response(AllocationHistory))
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
    workload_names: Annotated[
        str,
        Query(
            max_length=8192,
            description="Names of workloads, separated by commas: `allocation_details` has no others. Default: all.",
            examples=["bert-training-job"],
        ),
    ] = "",
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
        raise Problem(
            400, say("interval: `{text}` is not a duration such as 5m, 1h or 1d", text=interval), error="InvalidRequest"
        )
    hours = hours_up_to(service.server_time(), cluster, start_time, end_time, paging_of(page, page_size))
    hours = replace(hours, namespaces=visible_namespaces(service, caller, cluster))
    names = names_in(workload_names) if workload_names else None
    every = int(interval[:-1]) * _SECONDS[interval[-1]] if interval else 0
    found = usage_answer(
        service,
        caller,
        cluster,
        lambda database, name: snapshot_list(
            database, replace(hours, cluster=name), details=include_details, names=names, interval=every
        ),
    )
    return usage_success(found.answer, found.note)
