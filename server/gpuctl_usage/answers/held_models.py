"""GPU-seconds held by each workload and GPU model, computed from holdings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage, read_known_steps
from gpuctl_usage.answers.query_scope import Paging, find_cluster, page_or_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import UNSET, Holding, WorkloadKey
from gpuctl_usage.rollup.clipped_intervals import clip_holdings
from gpuctl_usage.store import intervals
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import holdings
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.sums import Level

_Group = tuple[WorkloadKey, str, str]


def held_models(database: Database, hours: HoursQuery, level: Level = Level.LABEL, key: str = "") -> RowsOrPage:
    """Return one row for each workload, GPU model, and value of a label or annotation.

    The rows add up to the held time of the ledger while holdings are kept, which is as long as hours.

    :param level: level of ``key``, a label or annotation; ``key`` "" groups by no key.
    :raises Unanswerable: the cluster or the time zone does not exist, or there are too many rows.
    """
    with database.reading() as connection:
        cluster = find_cluster(connection, hours.cluster)
        parts = read_known_steps(connection, replace(hours, step=StepUnit.TOTAL), cluster.id)
        spans = _spans(parts)
        which = intervals.overlapping(holdings, spans[0][0], spans[-1][1]) if spans else None
        held = [] if which is None else intervals.read_holdings(connection, cluster.id, which)
    seen = [
        item
        for item in held
        if (hours.namespaces is None or item.namespace in hours.namespaces) and item.namespace not in hours.excluded
    ]
    rows = sorted(_added(seen, spans, level, key).items())
    values = [_row(group, seconds, key) for group, seconds in rows]
    paging = hours.paging if isinstance(hours.paging, Paging) else None
    return page_or_list(paging, lambda: len(values), lambda limit, offset: values[offset : offset + limit])


def _spans(parts: Iterable[KnownStep]) -> list[tuple[float, float]]:
    """Return the ranges for which usage is known, adjacent ones merged."""
    found: list[tuple[float, float]] = []
    for start, end, _ in sorted(time for part in parts for time in part.times):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _added(held: list[Holding], spans: Iterable[tuple[float, float]], level: Level, key: str) -> dict[_Group, float]:
    found: dict[_Group, float] = defaultdict(float)
    for start, end in spans:
        for clipped in clip_holdings(start, end - start, held):
            holding = clipped.holding
            said = holding.annotations if level is Level.ANNOTATION else holding.labels
            value = said.get(key, UNSET) if key else ""
            found[holding.workload, holding.model, value] += clipped.alloc_gpu_s if clipped.overlaps else 0.0
    return {group: seconds for group, seconds in found.items() if seconds > 0}


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
