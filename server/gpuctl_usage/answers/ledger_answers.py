"""Rows of the ledger: what became of every GPU-second, by group and step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuctl.api.json_values import rounded
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.answers.hourly_answers import (
    HoursQuery,
    RowsOrPage,
    answer_rows,
    namespace_capacities,
    row_query,
    rows_of,
)
from gpuctl_usage.answers.query_scope import find_cluster
from gpuctl_usage.rollup import ledger as ledgers
from gpuctl_usage.rollup import quotients
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.surrogate_keys import workload_of
from gpuctl_usage.store.usage_queries import RowOrder, UsageRow
from gpuctl_usage.sums import KEYED, Group, Level

OF_NAMESPACES = frozenset({Level.NAMESPACE, Level.WORKLOAD})
"""Levels whose groups belong to one namespace each."""


def ledger(
    database: Database,
    hours: HoursQuery,
    level: Level,
    key: str = "",
    *,
    value: str = "",
    namespace: str = "",
    order: RowOrder = RowOrder.TIME,
    ascending: bool = True,
) -> RowsOrPage:
    """Return a row in GPU-seconds for each step and group, rounded to millionths.

    :param key: key of the label or annotation.
    :param value: only this namespace, label value, workload uid, node or model.
    :param namespace: only workloads of this namespace.
    :raises Unanswerable: the cluster or time zone does not exist, or there are too many rows.
    """
    if namespace:
        seen = hours.namespaces is None or namespace in hours.namespaces
        hours = replace(hours, namespaces=[namespace] if seen else [])
    with database.reading() as connection:
        cluster = find_cluster(connection, hours.cluster)
        asked: dict[str, Any] = {"value": value or None, "order": order, "ascending": ascending, "sums_only": True}
        if level in KEYED:
            asked["key"] = key
        query = row_query(hours, cluster.id, level, **asked)
        rows = rows_of(connection, hours, query)
        own, whose = level in ledgers.WITH_CAPACITY, {"cluster": cluster.name, "level": level.value}

        def told(found: list[UsageRow]) -> list[dict[str, Any]]:
            allowed = namespace_capacities(connection, query, rows, found)
            return [_row(item, level, whose, own, most) for item, most in zip(found, allowed, strict=True)]

        return answer_rows(hours, query, rows, told)


def _row(row: UsageRow, level: Level, whose: Mapping[str, str], own: bool, allowed: float | None) -> dict[str, Any]:
    """Return a row; ``own``: True if groups of the level have GPUs of their own."""
    account = ledgers.ledger(row.sums, level)
    return {
        "time": format_timestamp(row.start),
        "end_time": format_timestamp(row.end),
        **whose,
        "known_seconds": row.seconds,
        "known_from": format_timestamp(row.known_from),
        "known_until": format_timestamp(row.known_until),
        "provisional": row.provisional,
        "key": row.group.key,
        "value": row.group.value,
        **(_named(row.group) if level is Level.WORKLOAD else {}),
        "capacity_gpu_seconds": _amount(account.capacity) if own else None,
        "allocated_gpu_seconds": _amount(row.sums.alloc_gpu_s),
        "busy_gpu_seconds": _amount(account.busy),
        "held_idle_gpu_seconds": _amount(account.held_idle),
        "held_unobserved_gpu_seconds": _amount(account.held_unobserved),
        "free_gpu_seconds": _amount(account.free) if own else None,
        "unusable_gpu_seconds": _amount(account.unusable) if own else None,
        "unsized_gpu_seconds": _amount(account.unsized) if own else None,
        "allowed_gpu_seconds": None if allowed is None else _amount(allowed),
        "by_process_gpu_seconds": _amount(row.sums.by_process_gpu_s),
        "beyond_held_gpu_seconds": _amount(row.sums.beyond_gpu_s),
        "avg_utilization": rounded(quotients.avg_utilization(row.sums)),
        "coverage": rounded(quotients.coverage(row.sums), 4),
        "closes": account.closes,
    }


def _named(group: Group) -> dict[str, str]:
    workload = workload_of(group)
    return {"namespace": workload.namespace, "kind": workload.kind, "name": workload.name}


def _amount(seconds: float) -> float:
    # Remove rounding errors; adding 0.0 turns -0.0 into 0.0.
    return round(seconds, 6) + 0.0
