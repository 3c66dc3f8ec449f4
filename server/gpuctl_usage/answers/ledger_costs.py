"""The cost of the GPU-seconds that groups of the ledger held, by the prices of GPU models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuctl.reading.price_list import HOUR, PriceList
from gpuctl.reading.usage_costs import is_same_time
from gpuctl_usage.answers.held_models import held_models
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.number_format import rounded
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.rollup.ledger import KEYED
from gpuctl_usage.store.database import Database
from gpuctl_usage.sums import Level

_Held = Mapping[str, Any]
_GROUP_OF: dict[Level, Callable[[_Held], str]] = {
    Level.CLUSTER: lambda held: "",
    Level.NAMESPACE: lambda held: held["namespace"],
    Level.LABEL: lambda held: held["value"],
    Level.ANNOTATION: lambda held: held["value"],
    Level.WORKLOAD: lambda held: held["owner_uid"],
    Level.MODEL: lambda held: held["model"],
}
PRICED = frozenset(_GROUP_OF)
"""Levels whose groups have a cost: it is not recorded which pods held the GPUs of a node."""
_ALL = Paging(1, 2**31)


def with_costs(
    database: Database, hours: HoursQuery, level: Level, key: str, rows: Iterable[_Held], prices: PriceList
) -> list[dict[str, Any]]:
    """Return rows of whole ranges with their cost and its currency.

    A cost is None if a model has no price. It is also None if the recorded intervals of pods have fewer GPU-seconds
    than the row: the collector deletes them earlier than the sums of days.
    """
    own_key = (level, key) if level in KEYED else (Level.LABEL, "")
    held: dict[str, float] = defaultdict(float)
    costs: dict[str, float | None] = defaultdict(float)
    for period in () if prices.is_empty else prices.periods(hours.start, hours.end):
        part = replace(hours, start=period.start, end=period.end, paging=_ALL)
        found = held_models(database, part, *own_key)
        for item in found["data"] if isinstance(found, dict) else found:
            group, seconds = _GROUP_OF[level](item), item["allocated_gpu_seconds"]
            price, sum_ = period.models.get(item["model"]), costs[group]
            held[group] += seconds
            costs[group] = None if price is None or sum_ is None else sum_ + seconds / HOUR * price
    return [{**row, "cost": _cost(row, held, costs), "currency": prices.currency or None} for row in rows]


def _cost(row: _Held, held: Mapping[str, float], costs: Mapping[str, float | None]) -> float | None:
    group = row["value"]
    is_whole = is_same_time(held.get(group, 0.0), row["allocated_gpu_seconds"])
    found = costs.get(group) if is_whole else None
    return None if found is None else rounded(found)
