"""What a month's report is made of, and how its numbers are rounded so that they add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuctl.reading.gpu_time import GpuTime, KnownTime, sum_gpu_times
from gpuctl.reading.price_list import HOUR, PricePeriod
from gpuctl.reading.usage_costs import GroupCost
from gpuctl.reading.usage_records import GroupUse

_LOST = 1e-6
"""What rounding to millionths of a GPU-second may lose of a sum, as a part of it; and a second at least."""


@dataclass(frozen=True)
class MonthReport:
    """A month of a cluster.

    :param month: ``2026-10``; its first and last moment by the zone are ``start`` and ``end``, seconds since 1970.
    :param whole: the cluster; ``days``: the beginning of each, RFC 3339, or "" of one of which nothing is known.
    :param key: of the label or annotation (``key_kind``) of ``labels``; "" if usage is not collected by it.
    :param namespaces: the most GPU-hours first; likewise the groups of the other levels.
    :param known: the part of the month for which usage is known; ``days_known``: seconds of it that ``days`` cover.
    :param made: when the report was made, seconds since 1970.
    :param costs: ``namespace``, ``label``, ``workload`` or ``model`` -> the costs of its groups, in order; empty
        without prices.
    :param prices: the prices in each part of the month in which none changes; empty without prices.
    :param language: the language of its texts, ``en`` or ``zh``.
    """

    month: str
    zone: str
    cluster: str
    start: float
    end: float
    whole: GpuTime
    days: Sequence[tuple[str, GpuTime | None]]
    namespaces: Sequence[GroupUse]
    key: str
    key_kind: str
    labels: Sequence[GroupUse]
    models: Sequence[GroupUse]
    workloads: Sequence[GroupUse]
    costs: Mapping[str, Sequence[GroupCost]]
    known: KnownTime
    days_known: float
    made: float
    prices: Sequence[PricePeriod]
    currency: str
    language: str = "en"

    @property
    def is_final(self) -> bool:
        """Whether no figure can change any more: the month is over and no hour is provisional."""
        return self.made >= self.end and self.known.provisional is False

    def differs(self, groups: Iterable[GroupUse]) -> float:
        """GPU-hours that groups held more than the cluster, less if negative; 0 where that is lost by rounding."""
        found = sum_gpu_times(group.total for group in groups).held - self.whole.held
        return 0.0 if abs(found) <= max(1.0, _LOST * self.whole.held) else found / HOUR


def round_to_sum(amounts: Sequence[float], unit: float) -> list[int]:
    """Amounts in whole units, whose sum is the sum of the amounts in whole units.

    Each is its amount, rounded up or down; the largest remainders are rounded up, of equals the first.
    """
    # What additions lose may be less than nothing.
    exact = [max(0.0, amount) / unit for amount in amounts]
    floors = [math.floor(value + _LOST) for value in exact]
    missing = math.floor(sum(exact) + 0.5) - sum(floors)
    order = sorted(range(len(exact)), key=lambda number: (floors[number] - exact[number], number))
    for number in order[: max(0, missing)]:
        floors[number] += 1
    return floors
