"""Capacity of namespaces in the steps of an answer: their quota, or the cluster's capacity without a quota."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.facts import GpuQuota, PeriodCapacity
from gpuctl_usage.rollup.quota_time import CapacityTimeline, QuotaTimeline
from gpuctl_usage.store import intervals
from gpuctl_usage.store.cluster_capacity import capacity_of_hours
from gpuctl_usage.store.database_tables import quotas

_NONE = QuotaTimeline(())


class NamespaceCapacities:
    """Capacities of some namespaces in some steps.

    :param steps: known hours and days of each step, by its start.
    """

    def __init__(
        self,
        connection: Connection,
        cluster: int,
        steps: Mapping[int, Sequence[PeriodCapacity]],
        names: Collection[str],
    ) -> None:
        kept = [item for of_step in steps.values() for item in of_step]
        self._quotas = _quotas(connection, cluster, kept, names)
        hours = _hours_of_days(connection, cluster, kept, self._quotas)
        self._steps = {
            start: CapacityTimeline(part for item in of_step for part in hours.get(item, (item,)))
            for start, of_step in steps.items()
        }

    def of(self, namespace: str, start: int) -> float | None:
        """Return the GPU-seconds of a namespace in the step that begins at ``start``; None if neither a quota nor the
        cluster's capacity is known.
        """
        step, theirs = self._steps.get(start), self._quotas.get(namespace, _NONE)
        return None if step is None else step.capacity(theirs)


def _quotas(
    connection: Connection, cluster: int, kept: Sequence[PeriodCapacity], names: Collection[str]
) -> dict[str, QuotaTimeline]:
    if not kept:
        return {}
    # The known part of a day may be anywhere in it.
    first = min(item.start for item in kept) // DAY * DAY
    then = intervals.overlapping(quotas, first, max(item.end for item in kept))
    found: dict[str, list[GpuQuota]] = defaultdict(list)
    for quota in intervals.read_quotas(connection, cluster, intervals.of_namespaces(names) & then):
        found[quota.namespace].append(quota)
    return {name: QuotaTimeline(theirs) for name, theirs in found.items()}


def _hours_of_days(
    connection: Connection, cluster: int, kept: Sequence[PeriodCapacity], known: Mapping[str, QuotaTimeline]
) -> dict[PeriodCapacity, list[PeriodCapacity]]:
    """Return the hours of the days in which a quota begins or ends, and of partly known days, if all of their hours are
    stored.

    With hours, the time without a quota counts with the cluster's capacity of that hour.
    """
    if not known:
        return {}
    days = sorted(item for item in kept if item.is_day)
    starts = [day.start for day in days]
    bounds = {bound for quota in known.values() for bound in quota.bounds}
    places = ((bisect_right(starts, bound) - 1, bound) for bound in bounds)
    cut = {days[place] for place, bound in places if place >= 0 and days[place].start < bound < days[place].end}
    cut.update(day for day in days if _length(day) < DAY)
    hours_of = {day: range(int(day.start // DAY) * DAY, int(day.end), HOUR) for day in cut}
    hours = capacity_of_hours(connection, cluster, ((of_day.start, of_day.stop) for of_day in hours_of.values()))
    found = {day: [hours[hour] for hour in of_day if hour in hours] for day, of_day in hours_of.items()}
    return {day: kept for day, kept in found.items() if sum(map(_length, kept)) == _length(day)}


def _length(time: PeriodCapacity) -> float:
    return time.end - time.start
