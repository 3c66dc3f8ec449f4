"""Rows of hours or longer steps: of the cluster, of namespaces, of label values, of workloads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from gpuctl.api.json_values import gpu_amount, rounded
from gpuctl.language.sentences import say
from gpuctl.objects.durations import DAY
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.answers.namespace_capacity import NamespaceCapacities
from gpuctl_usage.answers.query_scope import Cursor, Paging, TooMuch, find_cluster, page_or_list, rows_after
from gpuctl_usage.answers.steps import StepUnit, bounds, zone_of
from gpuctl_usage.rollup import quotients
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.hours import WorkloadStatus
from gpuctl_usage.store.period_selection import KnownStep, known_range, known_steps
from gpuctl_usage.store.step_rows import StepRows
from gpuctl_usage.store.surrogate_keys import workload_of
from gpuctl_usage.store.usage_queries import RowKey, RowOrder, RowQuery, UsageRow, is_row_key, row_key
from gpuctl_usage.sums import Level

_STATUS = {
    WorkloadStatus.PENDING: "Pending",
    WorkloadStatus.RUNNING: "Running",
    WorkloadStatus.FINISHED: "Finished",
}
RowsOrPage = list[dict[str, Any]] | dict[str, Any]
_MOST_OF_NODES = 1008
"""Maximum number of hours and days read for rows of nodes, of which a cluster has more than of any other level but
workloads.
"""
_LONGEST = 32 * DAY
"""Maximum length of a step, in seconds."""


@dataclass(frozen=True)
class HoursQuery:
    """Range, step and visible namespaces of a query.

    :param cluster: name; "" if the database has only one cluster.
    :param start: seconds since 1970; only hours that begin in [start, end).
    :param namespaces: the namespaces that the caller may see; None for all.
    :param excluded: namespaces to leave out.
    :param paging: None for all rows as a list.
    :param step: an hour belongs to the day, week or month in which it begins; the first and last step are cut to the
        range.
    :param tz: IANA name of the time zone of days, weeks and months; "" for UTC.
    """

    cluster: str
    start: float
    end: float
    namespaces: Collection[str] | None = None
    excluded: Collection[str] = ()
    paging: Paging | Cursor | None = None
    step: StepUnit = StepUnit.HOUR
    tz: str = ""


def cluster_hours(database: Database, hours: HoursQuery) -> RowsOrPage:
    """Return the rows of the cluster by hour or step.

    :raises Unanswerable: the cluster or time zone does not exist, or there are too many rows. Likewise for the
    functions below.
    """
    return _answer(database, hours, Level.CLUSTER, lambda row, _: _cluster_row(row))


def namespace_hours(
    database: Database, hours: HoursQuery, namespace: str = "", *, with_idle: bool = False
) -> RowsOrPage:
    """Return the rows of all namespaces, or of one.

    :param with_idle: include zero rows for namespaces that held GPUs at some time in the retention period but not in
    this step.
    """
    return _answer(database, hours, Level.NAMESPACE, _namespace_row, with_idle, value=namespace or None)


def label_hours(
    database: Database, hours: HoursQuery, level: Level, key: str, value: str = "", *, with_idle: bool = False
) -> RowsOrPage:
    """Return the rows of all values of a label or annotation, or of one."""
    asked = {"key": key, "value": value or None}
    return _answer(database, hours, level, lambda row, _: _label_row(row), with_idle, **asked)


def workload_hours(
    database: Database,
    hours: HoursQuery,
    *,
    namespace: str = "",
    name: str = "",
    kind: str = "",
    order: RowOrder = RowOrder.TIME,
    ascending: bool = True,
) -> RowsOrPage:
    """Return the rows of workloads, filtered by namespace, name and kind."""
    if namespace:
        seen = hours.namespaces is None or namespace in hours.namespaces
        hours = replace(hours, namespaces=[namespace] if seen else [])
    asked: dict[str, Any] = {"name": name or None, "kind": kind or None, "order": order, "ascending": ascending}
    return _answer(database, hours, Level.WORKLOAD, lambda row, _: _workload_row(row), **asked)


Row = Callable[[UsageRow, float | None], dict[str, Any]]


def rows_of(connection: Connection, hours: HoursQuery, query: RowQuery, with_idle: bool = False) -> StepRows:
    """Return the rows of hours or longer steps.

    :param with_idle: include rows of groups that held nothing, for every step.
    :raises InvalidQuery: the time zone does not exist, or the query would read too much.
    """
    steps, number = read_known_steps(connection, hours, query.cluster), list(StepUnit).index(hours.step)
    if query.level is Level.NODE and sum(len(part.periods) for part in steps) > _MOST_OF_NODES:
        raise TooMuch(say("level=node is limited to six weeks of hours; request a shorter time, or step=day"))
    return StepRows(connection, query, steps, number, with_idle)


def read_known_steps(connection: Connection, hours: HoursQuery, cluster: int) -> list[KnownStep]:
    """Return the steps of the range that have stored periods.

    :raises UnknownZone: the time zone does not exist.
    """
    zone, kept = zone_of(hours.tz), known_range(connection, cluster)
    if kept is None:
        return []
    # Limits the number of steps of a range such as year 1 to 9999.
    first, last = max(hours.start, kept[0] - _LONGEST), min(hours.end, kept[1] + _LONGEST)
    if hours.step is StepUnit.TOTAL:
        first, last = hours.start, hours.end
    return known_steps(connection, cluster, bounds(first, last, hours.step, zone))


def row_query(hours: HoursQuery, cluster: int, level: Level, **asked: Any) -> RowQuery:
    """Return the row query for a cluster and level."""
    return RowQuery(cluster, level, hours.namespaces, hours.excluded, **asked)


def answer_rows(
    hours: HoursQuery, query: RowQuery, rows: StepRows, told: Callable[[list[UsageRow]], list[dict[str, Any]]]
) -> RowsOrPage:
    """Return all rows, a page, or the rows after a cursor.

    :param told: converts rows to values of the API.
    :raises InvalidQuery: there are too many rows for a list, or the cursor is invalid.
    """
    if not isinstance(hours.paging, Cursor):
        return page_or_list(hours.paging, rows.count, lambda limit, offset: told(rows.find(limit, offset)))

    def after(limit: int, place: RowKey | None) -> tuple[list[dict[str, Any]], list[RowKey]]:
        found = rows.find(limit, after=place)
        return told(found), [row_key(query, row) for row in found]

    form = f"{query.level.value} {hours.step.value} {query.order.value} {query.ascending}"
    return rows_after(hours.paging, form, lambda place: is_row_key(query, place), after)


def namespace_capacities(
    connection: Connection, query: RowQuery, rows: StepRows, found: list[UsageRow]
) -> list[float | None]:
    """Return the capacity of each row's namespace in GPU-seconds; None if unknown, or for other levels."""
    if query.level is not Level.NAMESPACE or not found:
        return [None] * len(found)
    times = rows.period_capacities({item.start for item in found})
    capacities = NamespaceCapacities(connection, query.cluster, times, {item.group.value for item in found})
    return [capacities.of(item.group.value, item.start) for item in found]


def _answer(
    database: Database, hours: HoursQuery, level: Level, row: Row, with_idle: bool = False, **asked: Any
) -> RowsOrPage:
    with database.reading() as connection:
        cluster = find_cluster(connection, hours.cluster)
        query = row_query(hours, cluster.id, level, **asked)
        rows = rows_of(connection, hours, query, with_idle)

        def told(found: list[UsageRow]) -> list[dict[str, Any]]:
            values = []
            for item, capacity in zip(found, namespace_capacities(connection, query, rows, found), strict=True):
                value = {"id": item.id, "cluster_name": cluster.name, **row(item, capacity)}
                if hours.step is not StepUnit.HOUR:
                    value["end_time"] = format_timestamp(item.end)
                value["known_seconds"] = item.seconds
                value["provisional"] = item.provisional
                values.append(value)
            return values

        return answer_rows(hours, query, rows, told)


def _cluster_row(row: UsageRow) -> dict[str, Any]:
    sums = row.sums
    return {
        "stat_hour": format_timestamp(row.start),
        "total_gpu_capacity": gpu_amount(quotients.total_gpu_capacity(sums, row.seconds)),
        "allocated_gpu_count": rounded(quotients.allocated_gpu_count(sums, row.seconds)),
        "allocation_rate": rounded(quotients.allocation_rate(sums)),
        **_utilization(row),
        **_percentiles(row),
        "sample_count": sums.buckets,
        **_last(row),
    }


def _namespace_row(row: UsageRow, capacity: float | None) -> dict[str, Any]:
    there = None if capacity is None else quotients.mean_over(capacity, row.seconds)
    return {
        "namespace": row.group.value,
        "stat_hour": format_timestamp(row.start),
        "total_gpu_capacity": gpu_amount(there),
        "allocated_gpu_count": rounded(quotients.allocated_gpu_count(row.sums, row.seconds)),
        "allocation_rate": rounded(quotients.rate_of(row.sums.alloc_gpu_s, capacity or 0.0)),
        **_utilization(row),
        "active_workload_count": row.sums.workloads,
        **_last(row),
    }


def _label_row(row: UsageRow) -> dict[str, Any]:
    return {
        "dimension_type": row.group.level.value,
        "dimension_key": row.group.key,
        "dimension_value": row.group.value,
        "stat_hour": format_timestamp(row.start),
        "allocated_gpu_count": rounded(quotients.allocated_gpu_count(row.sums, row.seconds)),
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
        "stat_hour": format_timestamp(row.start),
        "allocated_gpu_count": rounded(quotients.allocated_gpu_count(sums, row.seconds)),
        # The request with all pods present, even if they were present for a part of the hour only.
        "requested_gpu_count": rounded(None if each is None else each * sums.pods_max),
        **_utilization(row),
        **_percentiles(row),
        "avg_gpu_memory_used": rounded(quotients.avg_gpu_memory_used(sums)),
        "max_gpu_memory_used": rounded(sums.memory_max),
        "avg_gpu_memory_total": rounded(quotients.avg_gpu_memory_total(sums)),
        "avg_replica_count": rounded(quotients.avg_replica_count(sums, row.seconds)),
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
        "avg_utilization": rounded(quotients.avg_utilization(row.sums)),
        # Stored as hundredths: already rounded.
        "max_utilization": row.sums.util_max,
        "min_utilization": row.sums.util_min,
    }


def _percentiles(row: UsageRow) -> dict[str, Any]:
    return {
        "p50_utilization": rounded(quotients.utilization_percentile(row.sums, 50)),
        "p95_utilization": rounded(quotients.utilization_percentile(row.sums, 95)),
    }


def _last(row: UsageRow) -> dict[str, Any]:
    return {
        "coverage": rounded(quotients.coverage(row.sums), 4),
        "created_at": format_timestamp(row.created_at),
        "updated_at": format_timestamp(row.updated_at),
    }
