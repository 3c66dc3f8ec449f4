"""GPU-seconds held by each workload and GPU model, computed from holdings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row

from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage, read_known_steps
from gpuctl_usage.answers.query_scope import Paging, find_cluster, page_or_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import holdings
from gpuctl_usage.store.held_time import HeldModels, attributes_held, held_time
from gpuctl_usage.store.surrogate_keys import read_attributes
from gpuctl_usage.sums import Level


def held_models(database: Database, hours: HoursQuery, level: Level = Level.LABEL, key: str = "") -> RowsOrPage:
    """Return one row for each workload, GPU model, and value of a label or annotation.

    The rows add up to the held time of the ledger while holdings are kept, which is as long as hours.

    :param level: level of ``key``, a label or annotation; ``key`` "" groups by no key.
    :raises Unanswerable: the cluster or the time zone does not exist, or there are too many rows.
    """
    paging = hours.paging if isinstance(hours.paging, Paging) else None
    with database.reading() as connection:
        cluster = find_cluster(connection, hours.cluster)
        spans = [(*span, 0) for span in _known(connection, hours, cluster.id)]
        values = values_of_key(connection, level, key, attributes_held(connection, cluster.id)) if key else None
        held = HeldModels(connection, cluster.id, spans, values, _visible(hours))
        return page_or_list(
            paging, held.count, lambda limit, offset: [_row(row, key) for row in held.find(limit, offset)]
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
    return held_time(connection, cluster, spans, by, (*which, *_visible(parts[0])))


def _visible(hours: HoursQuery) -> list[ColumnElement[bool]]:
    """Return the conditions for holdings in the namespaces of a query."""
    found: list[ColumnElement[bool]] = []
    if hours.namespaces is not None:
        found.append(holdings.c.namespace.in_(sorted(hours.namespaces)))
    if hours.excluded:
        found.append(holdings.c.namespace.not_in(sorted(hours.excluded)))
    return found


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


def _row(held: Sequence[Any], key: str) -> dict[str, Any]:
    namespace, kind, name, uid, model, value, seconds = held
    return {
        "namespace": namespace,
        "workload_type": kind,
        "workload_name": name,
        "owner_uid": uid,
        "model": model,
        "key": key,
        "value": value,
        "allocated_gpu_seconds": round(seconds, 6),
    }
