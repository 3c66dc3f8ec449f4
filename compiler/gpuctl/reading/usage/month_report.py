"""The data of a monthly usage report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuctl.objects.durations import HOUR
from gpuctl.reading.usage.gpu_time import GpuTime, KnownTime, sum_gpu_times
from gpuctl.reading.usage.price_list import PricePeriod
from gpuctl.reading.usage.usage_costs import GroupCost, is_same_time
from gpuctl.reading.usage.usage_records import GroupUse


@dataclass(frozen=True)
class MonthReport:
    """A month of a cluster.

    :param month: ``2026-10``. ``start`` and ``end`` are its bounds in the time zone, seconds since 1970.
    :param whole: usage of the whole cluster.
    :param days: start of each day, RFC 3339 ("" if nothing is known of the day), with its usage.
    :param key: the label or annotation (``key_kind``) that ``labels`` groups by; "" if usage is not collected by one.
    :param namespaces: groups with the most GPU-hours first; likewise ``labels``, ``models`` and ``workloads``.
    :param known: the part of the month with data; ``days_known``: seconds of it that ``days`` cover.
    :param made: when the report was created, seconds since 1970.
    :param costs: ``namespace``, ``label``, ``workload`` or ``model`` -> costs of its groups, in the same order; empty
        without prices.
    :param prices: periods with constant prices; empty without prices.
    :param language: ``en`` or ``zh``.
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
        """Return True if no figure can change: the month is over and no hour is provisional."""
        return self.made >= self.end and self.known.provisional is False

    def differs(self, groups: Iterable[GroupUse]) -> float:
        """Return the GPU-hours by which groups exceed the cluster (negative: fall short); 0 within rounding errors."""
        held = sum_gpu_times(group.total for group in groups).held
        return 0.0 if is_same_time(held, self.whole.held) else (held - self.whole.held) / HOUR
