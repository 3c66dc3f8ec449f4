"""Hours as rows, of the cluster, of namespaces, of the values of a label, of workloads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from gpuctl_usage.answers.figures import counted, shown, stamped
from gpuctl_usage.answers.scopes import Paging, cluster_named, page_or_list
from gpuctl_usage.rolling import quotients
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.hours import WorkloadStatus
from gpuctl_usage.store.numbering import workload_of
from gpuctl_usage.store.usage_queries import (
    Question,
    RowOrder,
    UsageRow,
    capacity_by_hour,
    count_rows,
    find_rows,
)
from gpuctl_usage.sums import Level

_STATUS = {
    WorkloadStatus.PENDING: "Pending",
    WorkloadStatus.RUNNING: "Running",
    WorkloadStatus.FINISHED: "Finished",
}
Answer = list[dict[str, Any]] | dict[str, Any]


@dataclass(frozen=True)
class Hours:
    """Which hours are asked about.

    :param cluster: its name; "" is the first that was collected.
    :param start: seconds since 1970: hours that begin at it or later, and before ``end``.
    :param namespaces: those that may be seen; None for all.
    :param paging: None for all rows as a list.
    """

    cluster: str
    start: float
    end: float
    namespaces: Collection[str] | None = None
    paging: Paging | None = None


def cluster_hours(database: Database, hours: Hours) -> Answer:
    """The cluster, hour by hour.

    :raises Unanswerable: there is no such cluster, or there are too many rows. Likewise all below.
    """
    return _answer(database, hours, Level.CLUSTER, lambda row, _: _cluster_row(row))


def namespace_hours(database: Database, hours: Hours, namespace: str = "") -> Answer:
    """Namespaces, or one."""
    return _answer(database, hours, Level.NAMESPACE, _namespace_row, value=namespace or None)


def label_hours(database: Database, hours: Hours, level: Level, key: str, value: str = "") -> Answer:
    """The values of a label or annotation, or one."""
    return _answer(database, hours, level, lambda row, _: _label_row(row), key=key, value=value or None)


def workload_hours(
    database: Database,
    hours: Hours,
    *,
    namespace: str = "",
    name: str = "",
    kind: str = "",
    order: RowOrder = RowOrder.TIME,
    ascending: bool = True,
) -> Answer:
    """Workloads, those of a namespace, a name, a kind."""
    if namespace:
        seen = hours.namespaces is None or namespace in hours.namespaces
        hours = replace(hours, namespaces=[namespace] if seen else [])
    asked: dict[str, Any] = {"name": name or None, "kind": kind or None, "order": order, "ascending": ascending}
    return _answer(database, hours, Level.WORKLOAD, lambda row, _: _workload_row(row), **asked)


Row = Callable[[UsageRow, float | None], dict[str, Any]]


def _answer(database: Database, hours: Hours, level: Level, row: Row, **asked: Any) -> Answer:
    with database.reading() as connection:
        cluster = cluster_named(connection, hours.cluster)
        question = Question(cluster.id, level, hours.start, hours.end, hours.namespaces, **asked)

        def find(limit: int, offset: int) -> list[dict[str, Any]]:
            found = find_rows(connection, question, limit, offset)
            whole = _capacities(connection, question, found)
            return [{"id": item.id, "cluster_name": cluster.name, **row(item, whole.get(item.start))} for item in found]

        return page_or_list(hours.paging, lambda: count_rows(connection, question), find)


def _capacities(connection: Connection, question: Question, found: list[UsageRow]) -> dict[int, float]:
    """Of the hours of namespaces without a capacity of their own that of the cluster."""
    if question.level is not Level.NAMESPACE or not found:
        return {}
    return capacity_by_hour(connection, question)


def _cluster_row(row: UsageRow) -> dict[str, Any]:
    sums = row.sums
    return {
        "stat_hour": stamped(row.start),
        "total_gpu_capacity": counted(quotients.total_gpu_capacity(sums, row.seconds)),
        "allocated_gpu_count": shown(quotients.allocated_gpu_count(sums, row.seconds)),
        "allocation_rate": shown(quotients.allocation_rate(sums)),
        **_utilization(row),
        **_percentiles(row),
        "sample_count": sums.buckets,
        **_last(row),
    }


def _namespace_row(row: UsageRow, whole: float | None) -> dict[str, Any]:
    capacity = row.sums.cap_gpu_s or whole or 0.0
    return {
        "namespace": row.group.value,
        "stat_hour": stamped(row.start),
        "total_gpu_capacity": counted(quotients.mean_over(capacity, row.seconds)) if capacity else None,
        "allocated_gpu_count": shown(quotients.allocated_gpu_count(row.sums, row.seconds)),
        **_utilization(row),
        "active_workload_count": row.sums.workloads,
        **_last(row),
    }


def _label_row(row: UsageRow) -> dict[str, Any]:
    return {
        "dimension_type": row.group.level.value,
        "dimension_key": row.group.key,
        "dimension_value": row.group.value,
        "stat_hour": stamped(row.start),
        "allocated_gpu_count": shown(quotients.allocated_gpu_count(row.sums, row.seconds)),
        **_utilization(row),
        "active_workload_count": row.sums.workloads,
        **_last(row),
    }


def _workload_row(row: UsageRow) -> dict[str, Any]:
    sums, workload = row.sums, workload_of(row.group)
    each = quotients.mean_over(sums.alloc_gpu_s, sums.pod_s)
    return {
        "namespace": workload.namespace,
        "workload_name": workload.name,
        "workload_type": workload.kind,
        "stat_hour": stamped(row.start),
        "allocated_gpu_count": shown(quotients.allocated_gpu_count(sums, row.seconds)),
        # What it asks for while it is there with all its pods, however much of the hour that is.
        "requested_gpu_count": shown(None if each is None else each * sums.pods_max),
        **_utilization(row),
        **_percentiles(row),
        "avg_gpu_memory_used": shown(quotients.avg_gpu_memory_used(sums)),
        "max_gpu_memory_used": shown(sums.memory_max),
        "avg_gpu_memory_total": shown(quotients.avg_gpu_memory_total(sums)),
        "avg_replica_count": shown(quotients.avg_replica_count(sums, row.seconds)),
        "max_replica_count": sums.pods_max,
        "min_replica_count": sums.pods_min,
        "workload_status": None if row.status is None else _STATUS[row.status],
        "sample_count": sums.samples,
        "owner_uid": workload.uid,
        "owner_name": workload.name,
        "labels": dict(row.labels),
        "annotations": dict(row.annotations),
        **_last(row),
    }


def _utilization(row: UsageRow) -> dict[str, Any]:
    return {
        "avg_utilization": shown(quotients.avg_utilization(row.sums)),
        "max_utilization": shown(row.sums.util_max),
        "min_utilization": shown(row.sums.util_min),
    }


def _percentiles(row: UsageRow) -> dict[str, Any]:
    return {
        "p50_utilization": shown(quotients.utilization_percentile(row.sums, 50)),
        "p95_utilization": shown(quotients.utilization_percentile(row.sums, 95)),
    }


def _last(row: UsageRow) -> dict[str, Any]:
    return {
        "coverage": shown(quotients.coverage(row.sums), 4),
        "created_at": stamped(row.created_at),
        "updated_at": stamped(row.updated_at),
    }
