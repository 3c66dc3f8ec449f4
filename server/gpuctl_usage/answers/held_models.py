"""GPU-seconds held by each workload and GPU model, computed from holdings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row

from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage, read_known_steps
from gpuctl_usage.answers.query_scope import Paging, find_cluster, page_or_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import UNSET, WorkloadKey
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import holdings
from gpuctl_usage.store.held_time import held_time
from gpuctl_usage.store.surrogate_keys import read_attributes, workload_keys
from gpuctl_usage.sums import Level

_Group = tuple[WorkloadKey, str, str]


def held_models(database: Database, hours: HoursQuery, level: Level = Level.LABEL, key: str = "") -> RowsOrPage:
    """Return one row for each workload, GPU model, and value of a label or annotation.

    The rows add up to the held time of the ledger while holdings are kept, which is as long as hours.

    :param level: level of ``key``, a label or annotation; ``key`` "" groups by no key.
    :raises Unanswerable: the cluster or the time zone does not exist, or there are too many rows.
    """
    by = [holdings.c.workload_id, *([holdings.c.attributes_id] if key else [])]
    with database.reading() as connection:
        cluster = find_cluster(connection, hours.cluster)
        held = held_by(connection, cluster.id, [hours], by)
        workloads = workload_keys(connection, (row.workload_id for row in held))
        value_of = values_of_key(connection, level, key, (row.attributes_id for row in held if key))
    found: dict[_Group, float] = defaultdict(float)
    for row in held:
        value = value_of[row.attributes_id] if key else ""
        found[workloads[row.workload_id], row.model, value] += row.seconds
    groups = sorted(found)
    paging = hours.paging if isinstance(hours.paging, Paging) else None
    return page_or_list(
        paging,
        lambda: len(groups),
        lambda limit, offset: [_row(group, found[group], key) for group in groups[offset : offset + limit]],
    )


def held_by(
    connection: Connection,
    cluster: int,
    parts: Sequence[HoursQuery],
    by: Sequence[Column[Any]],
    which: Sequence[ColumnElement[bool]] = (),
) -> Sequence[Row[Any]]:
    """Return the GPU-seconds held in each part by GPU model and by columns of holdings.

    :param parts: queries that differ only in their ranges; ``part`` of a row is the index of one of them.
    :param which: further conditions for holdings.
    """
    spans = [(*span, number) for number, part in enumerate(parts) for span in _known(connection, part, cluster)]
    seen, excluded = parts[0].namespaces, parts[0].excluded
    visible = [] if seen is None else [holdings.c.namespace.in_(sorted(seen))]
    hidden = [holdings.c.namespace.not_in(sorted(excluded))] if excluded else []
    return held_time(connection, cluster, spans, by, (*which, *visible, *hidden))


def values_of_key(connection: Connection, level: Level, key: str, numbers: Iterable[int]) -> dict[int, str]:
    """Return the value of a label or annotation by attributes id."""
    said = read_attributes(connection, numbers)
    is_label = level is Level.LABEL
    return {number: (of.labels if is_label else of.annotations).get(key, UNSET) for number, of in said.items()}


def _known(connection: Connection, hours: HoursQuery, cluster: int) -> list[tuple[float, float]]:
    """Return the ranges for which usage is known, adjacent ones merged."""
    found: list[tuple[float, float]] = []
    steps = read_known_steps(connection, replace(hours, step=StepUnit.TOTAL), cluster)
    for start, end, _ in sorted(time for step in steps for time in step.times):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _row(group: _Group, seconds: float, key: str) -> dict[str, Any]:
    workload, model, value = group
    return {
        "namespace": workload.namespace,
        "workload_type": workload.kind,
        "workload_name": workload.name,
        "owner_uid": workload.uid,
        "model": model,
        "key": key,
        "value": value,
        "allocated_gpu_seconds": round(seconds, 6),
    }
