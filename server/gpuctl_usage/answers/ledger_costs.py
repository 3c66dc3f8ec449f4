"""The cost of the GPU-seconds that groups of the ledger held, by the prices of GPU models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Row

from gpuctl.api.json_values import rounded
from gpuctl.reading.usage.price_list import PriceList, cost_at
from gpuctl.reading.usage.usage_costs import is_same_time
from gpuctl_usage.answers.held_models import held_by, values_of_key
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.query_scope import find_cluster
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import holdings
from gpuctl_usage.store.surrogate_keys import group_ids
from gpuctl_usage.sums import KEYED, Group, Level

_COLUMNS: dict[Level, list[Column[Any]]] = {
    Level.CLUSTER: [],
    Level.NAMESPACE: [holdings.c.namespace],
    Level.LABEL: [holdings.c.attributes_id],
    Level.ANNOTATION: [holdings.c.attributes_id],
    Level.WORKLOAD: [holdings.c.workload_id],
    Level.MODEL: [],
}
PRICED = frozenset(_COLUMNS)
"""Levels whose groups have a cost: it is not recorded which pods held the GPUs of a node."""


def with_costs(
    database: Database, hours: HoursQuery, level: Level, key: str, rows: Sequence[Mapping[str, Any]], prices: PriceList
) -> list[dict[str, Any]]:
    """Return rows of whole ranges with their cost and its currency.

    A cost is None if a model has no price. It is also None if the recorded intervals of pods have fewer GPU-seconds
    than the row: the collector deletes them earlier than the sums of days.
    """
    periods = [] if prices.is_empty else list(prices.periods(hours.start, hours.end))
    seconds: dict[str, float] = defaultdict(float)
    costs: dict[str, float | None] = defaultdict(float)
    for group, held in _held(
        database, [replace(hours, start=one.start, end=one.end) for one in periods], level, key, rows
    ):
        price, sum_ = periods[held.part].models.get(held.model), costs[group]
        seconds[group] += held.seconds
        costs[group] = None if price is None or sum_ is None else sum_ + cost_at(price, held.seconds)
    return [{**row, "cost": _cost(row, seconds, costs), "currency": prices.currency or None} for row in rows]


def _held(
    database: Database, parts: Sequence[HoursQuery], level: Level, key: str, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Row[Any]]]:
    """Return the held time of each part by group of the rows and by GPU model."""
    if not parts or not rows:
        return []
    with database.reading() as connection:
        cluster, which = find_cluster(connection, parts[0].cluster).id, []
        names: Mapping[Any, str] = {}
        if level is Level.WORKLOAD:
            # A page has few of the workloads.
            ids = group_ids(connection, cluster, (Group(level, row["key"], row["value"]) for row in rows))
            names = {number: group.value for group, number in ids.items()}
            which = [holdings.c.workload_id.in_(names)]
        found = held_by(connection, cluster, parts, _COLUMNS[level], which)
        if level in KEYED:
            names = values_of_key(connection, level, key, (row.attributes_id for row in found))
    if level is Level.MODEL:
        return [(row.model, row) for row in found]
    groups = (row[0] if _COLUMNS[level] else "" for row in found)
    return [(names.get(group, group), row) for group, row in zip(groups, found, strict=True)]


def _cost(row: Mapping[str, Any], seconds: Mapping[str, float], costs: Mapping[str, float | None]) -> float | None:
    group = row["value"]
    is_whole = is_same_time(seconds.get(group, 0.0), row["allocated_gpu_seconds"])
    found = costs.get(group) if is_whole else None
    return None if found is None else rounded(found)
