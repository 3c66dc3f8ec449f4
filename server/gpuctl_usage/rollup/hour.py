"""Rollup of an hour: a pure function of holdings, capacities and measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import Capacity, GpuSeries, Holding, SharedGpuMetrics, UsageKeys
from gpuctl_usage.rollup.aggregation import CLUSTER, GroupAggregate, groups_of, in_order, keys_of
from gpuctl_usage.rollup.clipped_intervals import ClippedHolding, clip_capacities, clip_holdings
from gpuctl_usage.rollup.free_time import FreeTime, free_times
from gpuctl_usage.rollup.inputs_digest import digest_of
from gpuctl_usage.rollup.observation import Observed, count_unowned_samples, observe
from gpuctl_usage.rollup.sample_series import series_by_pod
from gpuctl_usage.rollup.shared_card_values import mark_process_metrics
from gpuctl_usage.sums import Group, LabeledWorkload, Level, RolledUp, Sums

MOST_INTERVALS = 2.5
"""Maximum number of scrape intervals that a measurement covers: one missed scrape makes no gap, two do."""


def reach(interval: float) -> float:
    """Return the maximum number of seconds that a measurement covers. A measurement this long after an hour may still
    cover its end.

    :param interval: seconds between scrapes.
    """
    return MOST_INTERVALS * interval


def roll_up(
    start: int,
    seconds: float,
    holdings: Iterable[Holding],
    capacities: Iterable[Capacity],
    samples: Iterable[GpuSeries],
    interval: float,
    *,
    label_keys: Iterable[str] = (),
    annotation_keys: Iterable[str] = (),
    shared: SharedGpuMetrics = SharedGpuMetrics.DETECT,
) -> RolledUp:
    """Return the sums of an hour.

    :param start: seconds since 1970, on a full hour; ``seconds``: elapsed length of the hour, 3600 once it is over.
    :param holdings: all that overlap the hour or the :func:`reach` after it; ``capacities``: all that overlap the hour.
    :param samples: all measurements after ``start`` until :func:`reach` after the end. Without those after the end, the
        time after the last measurement counts as not measured. Further measurements change nothing.
    :param interval: seconds between scrapes.
    :param label_keys: label keys to group by, even if no workload has them; likewise ``annotation_keys``.
    :param shared: what the metrics of pods that share a card contain.
    :raises ValueError: the arguments do not describe an hour, or a series is invalid.
    """
    if start % HOUR or not 0 <= seconds <= HOUR or interval <= 0:
        raise ValueError(f"{seconds} seconds from {start}, scraped every {interval} seconds, are not an hour")
    seconds, interval = float(seconds), float(interval)
    most = reach(interval)
    held, there = clip_holdings(start, seconds, holdings, most), clip_capacities(start, seconds, capacities)
    measured = series_by_pod(start, seconds, mark_process_metrics(samples, start, start + seconds, shared), most)
    keys = keys_of((clipped.holding for clipped in held if clipped.overlaps), label_keys, annotation_keys)
    aggregates: dict[Group, GroupAggregate] = defaultdict(GroupAggregate)
    aggregates[CLUSTER] = GroupAggregate()
    foreign = dict(measured)
    dropped = 0
    for place, same in groupby(held, key=lambda clipped: clipped.place):
        alike, of_place = list(same), foreign.pop(place, [])
        _count(aggregates, keys, alike, dict(observe(seconds, most, alike, of_place)))
        dropped += count_unowned_samples(seconds, alike, of_place)
    dropped += sum(count_unowned_samples(seconds, [], of_place) for of_place in foreign.values())
    sums = {group: aggregate.finish() for group, aggregate in aggregates.items()}
    for one in free_times(there, held):
        for group in (CLUSTER, Group(Level.NODE, "", one.node), Group(Level.MODEL, "", one.model)):
            _add_free(sums.setdefault(group, Sums()), one)
    ours = {place: of_place for place, of_place in measured.items() if place not in foreign}
    digest = digest_of((start, seconds, interval, keys, dropped), seconds + most, held, there, ours)
    return RolledUp(start, seconds, in_order(sums), digest, dropped, _holders(held))


def _holders(held: Iterable[ClippedHolding]) -> frozenset[LabeledWorkload]:
    found = set()
    for clipped in held:
        if clipped.overlaps:
            labels, annotations = clipped.holding.labels, clipped.holding.annotations
            found.add(
                LabeledWorkload(
                    clipped.holding.workload, tuple(sorted(labels.items())), tuple(sorted(annotations.items()))
                )
            )
    return frozenset(found)


def _count(
    aggregates: dict[Group, GroupAggregate],
    keys: UsageKeys,
    alike: Sequence[ClippedHolding],
    observed: Mapping[int, Observed],
) -> None:
    for number, clipped in enumerate(alike):
        for group in groups_of(clipped.holding, keys) if clipped.overlaps else ():
            aggregate = aggregates[group]
            aggregate.add_holding(clipped)
            if number in observed:
                aggregate.add_observation(observed[number])


def _add_free(sums: Sums, one: FreeTime) -> None:
    sums.cap_gpu_s += one.cap_gpu_s
    sums.free_gpu_s += one.free_gpu_s
    sums.unusable_gpu_s += one.unusable_gpu_s
    sums.unsized_gpu_s += one.unsized_gpu_s
