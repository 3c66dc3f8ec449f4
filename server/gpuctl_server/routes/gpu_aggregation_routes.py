"""``/gpu-aggregation``: names, and the hourly allocation and utilization of GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from gpuctl.api.usage_models import (
    ClusterHour,
    ClusterUsage,
    LabelHour,
    LabelUsage,
    NamespaceHour,
    NamespaceUsage,
    UsageNames,
    WorkloadHour,
    WorkloadUsage,
)
from gpuctl_server.lookups.usage_lookups import cluster_names, require_all_namespaces, usage_answer, visible_namespaces
from gpuctl_server.routes.dependencies import ServiceOf
from gpuctl_server.routes.usage_parameters import (
    Cluster,
    Dimension,
    Excluded,
    HourlyQueryParameters,
    Idle,
    Key,
    Namespace,
    OrderBy,
    OrderDirection,
)
from gpuctl_server.routes.usage_responses import (
    Reads,
    ReadsUsage,
    json_response,
    limited_query,
    rows_response,
    usage_router,
    usage_rows,
    usage_success,
)
from gpuctl_usage.answers.name_answers import dimension_keys as keys
from gpuctl_usage.answers.name_answers import dimension_values as values
from gpuctl_usage.answers.name_answers import namespace_names
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import Level

router = usage_router()
_NAMESPACES = "/gpu-aggregation/namespaces/hourly-stats"
_WORKLOADS = "/gpu-aggregation/workloads/hourly-stats"


@router.get("/clusters", responses=json_response(UsageNames))
def clusters(service: ServiceOf, caller: Reads) -> Response:
    """List the names of clusters; the first one is the default. Clusters other than that of this service are only
    listed for callers who see all namespaces and pools.
    """
    return usage_success(cluster_names(service, caller))


@router.get("/namespaces", responses=json_response(UsageNames))
def namespaces(service: ServiceOf, caller: ReadsUsage, cluster: Cluster = "") -> Response:
    """List the visible namespaces in which GPUs were allocated."""
    there = usage_answer(service, caller, cluster, namespace_names)
    seen = visible_namespaces(service, caller, cluster)
    return usage_success([name for name in there if seen is None or name in seen])


@router.get("/dimension-keys", responses=json_response(UsageNames))
def dimension_keys(
    service: ServiceOf, caller: ReadsUsage, dimension_type: Dimension = "label", cluster: Cluster = ""
) -> Response:
    """List the keys of labels or annotations by which usage is aggregated. Only for callers who see all namespaces."""
    require_all_namespaces(caller, _WORKLOADS)
    return usage_success(
        usage_answer(service, caller, cluster, lambda database, name: keys(database, name, Level(dimension_type)))
    )


@router.get("/dimension-values", responses=json_response(UsageNames))
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
    return usage_success(
        usage_answer(service, caller, cluster, lambda database, name: values(database, name, level, dimension_key))
    )


@router.get("/cluster/hourly-stats", responses=rows_response(ClusterUsage))
def cluster_hours(service: ServiceOf, caller: ReadsUsage, query: HourlyQueryParameters) -> Response:
    """Return the usage of a cluster, one row per step. Only for callers who see all namespaces."""
    from gpuctl_usage.answers.hourly_answers import cluster_hours as answer

    require_all_namespaces(caller, _NAMESPACES)
    return usage_rows(service, caller, query, ClusterHour, answer)


@router.get("/namespaces/hourly-stats", responses=rows_response(NamespaceUsage))
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

    query = limited_query(
        query, visible_namespaces(service, caller, query.hours.cluster, namespace), exclude_namespaces
    )
    return usage_rows(
        service,
        caller,
        query,
        NamespaceHour,
        lambda database, hours: answer(database, hours, namespace, with_idle=include_idle),
    )


@router.get("/labels/hourly-stats", responses=rows_response(LabelUsage))
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
    return usage_rows(
        service,
        caller,
        query,
        LabelHour,
        lambda database, hours: answer(database, hours, level, dimension_key, dimension_value, with_idle=include_idle),
    )


@router.get("/workloads/hourly-stats", responses=rows_response(WorkloadUsage))
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
    query = limited_query(
        query, visible_namespaces(service, caller, query.hours.cluster, namespace), exclude_namespaces
    )
    about: dict[str, Any] = {"namespace": namespace, "name": workload_name, "kind": workload_type}
    about |= {"order": RowOrder(order_by), "ascending": order_direction == "asc"}
    return usage_rows(service, caller, query, WorkloadHour, lambda database, hours: answer(database, hours, **about))
