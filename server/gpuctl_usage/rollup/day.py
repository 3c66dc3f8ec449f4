"""Rollup of a day from its hours."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace

from gpuctl.objects.durations import DAY
from gpuctl_usage.facts import UNSET, Holding, UsageKeys, largest, smallest
from gpuctl_usage.rollup.aggregation import CLUSTER, groups_of, in_order
from gpuctl_usage.rollup.clipped_intervals import clip_holdings
from gpuctl_usage.sums import Group, Level, RolledUp, Sums

_ADDED = (*(part.name for part in fields(Sums) if part.name.endswith("_s")), "samples", "buckets")


def add_up(hours: Sequence[RolledUp], holdings: Iterable[Holding]) -> RolledUp:
    """Return the sums of a day, equal to a rollup of the whole day at once.

    The number of workloads is not additive (a workload that ran for three hours counts once), so it is counted from the
    holdings.

    :param hours: hours of one UTC day, each once.
    :param holdings: the holdings that the hours were rolled up from.
    :raises ValueError: there are no hours, they belong to different days, or one is repeated.
    """
    hours = sorted(hours, key=lambda hour: hour.start)
    if len({hour.start for hour in hours}) != len(hours) or len({hour.start // DAY for hour in hours}) != 1:
        raise ValueError("the hours must be distinct and of one day")
    start = hours[0].start // DAY * DAY
    keys = _keys(hours)
    sums: dict[Group, Sums] = {}
    for hour in hours:
        for group, of_hour in _with_unset(hour, keys):
            _add(sums.setdefault(group, Sums()), of_hour)
    counted = _workloads(start, hours, holdings, keys)
    for group, of_day in sums.items():
        of_day.workloads = counted[group]
    lines = [(hour.start, hour.seconds, hour.digest) for hour in hours]
    text = repr((lines, sorted((group.level.value, group.key, group.value, n) for group, n in counted.items())))
    return RolledUp(
        start=start,
        seconds=sum(hour.seconds for hour in hours),
        sums=in_order(sums),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        dropped=sum(hour.dropped for hour in hours),
        holders=frozenset().union(*(hour.holders for hour in hours)),
    )


def _keys(hours: Iterable[RolledUp]) -> UsageKeys:
    """Return the label and annotation keys of all hours."""
    found: dict[Level, set[str]] = {Level.LABEL: set(), Level.ANNOTATION: set()}
    for hour in hours:
        for group in hour.sums:
            if group.level in found:
                found[group.level].add(group.key)
    return UsageKeys(sorted(found[Level.LABEL]), sorted(found[Level.ANNOTATION]))


def _with_unset(hour: RolledUp, keys: UsageKeys) -> Iterator[tuple[Group, Sums]]:
    """Yield the sums of an hour. For keys that the hour lacks, everything it held counts as
    :data:`~gpuctl_usage.facts.UNSET`.
    """
    yield from hour.sums.items()
    cluster = hour.sums.get(CLUSTER, Sums())
    if not cluster.pods_max:
        return
    without = replace(cluster, cap_gpu_s=0.0, free_gpu_s=0.0, unusable_gpu_s=0.0, unsized_gpu_s=0.0)
    for level, of_level in ((Level.LABEL, keys.labels), (Level.ANNOTATION, keys.annotations)):
        known = {group.key for group in hour.sums if group.level is level}
        yield from ((Group(level, key, UNSET), without) for key in of_level if key not in known)


def _add(day: Sums, hour: Sums) -> None:
    for name in _ADDED:
        setattr(day, name, getattr(day, name) + getattr(hour, name))
    day.util_min, day.util_max = smallest(day.util_min, hour.util_min), largest(day.util_max, hour.util_max)
    day.memory_max = largest(day.memory_max, hour.memory_max)
    if hour.histogram:
        together = Counter(day.histogram or {})
        together.update(hour.histogram)
        day.histogram = dict(sorted(together.items()))
    if hour.pods_max:
        day.pods_min = min(day.pods_min, hour.pods_min) if day.pods_max else hour.pods_min
        day.pods_max = max(day.pods_max, hour.pods_max)


def _workloads(start: int, hours: Sequence[RolledUp], holdings: Iterable[Holding], keys: UsageKeys) -> Counter[Group]:
    """Count the distinct workloads of each group that held GPUs in at least one of the hours."""
    windows = [(hour.start + hour.missed - start, hour.known_until - start) for hour in hours]
    found = {
        (group, clipped.holding.workload)
        for clipped in clip_holdings(start, DAY, holdings)
        if any(clipped.clipped_start < end and begin < clipped.clipped_end for begin, end in windows)
        for group in groups_of(clipped.holding, keys)
    }
    return Counter(group for group, _ in found)
