"""Grouping of holdings, and aggregation of their sums for each group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import add

from gpuctl_usage.facts import UNSET, Holding, UsageKeys, WorkloadKey, largest
from gpuctl_usage.rollup.clipped_intervals import ClippedHolding
from gpuctl_usage.rollup.observation import MINUTES, Observed
from gpuctl_usage.sums import Group, Level, Sums

CLUSTER = Group(Level.CLUSTER)
BUCKET_MINUTES = 5


def keys_of(holdings: Iterable[Holding], labels: Iterable[str] = (), annotations: Iterable[str] = ()) -> UsageKeys:
    """Return the given keys and all keys of the holdings, sorted."""
    all_labels, all_annotations = set(labels), set(annotations)
    for holding in holdings:
        all_labels.update(holding.labels)
        all_annotations.update(holding.annotations)
    return UsageKeys(sorted(all_labels), sorted(all_annotations))


def groups_of(holding: Holding, keys: UsageKeys) -> Iterator[Group]:
    """Yield every group that a holding belongs to: one of each level, for labels and annotations one per key."""
    workload = holding.workload
    yield CLUSTER
    yield Group(Level.NAMESPACE, "", holding.namespace)
    yield Group(Level.WORKLOAD, f"{workload.namespace}/{workload.kind}/{workload.name}", workload.uid)
    yield Group(Level.NODE, "", holding.node)
    yield Group(Level.MODEL, "", holding.model)
    yield from _valued(Level.LABEL, keys.labels, holding.labels)
    yield from _valued(Level.ANNOTATION, keys.annotations, holding.annotations)


def _valued(level: Level, keys: Iterable[str], values: Mapping[str, str]) -> Iterator[Group]:
    for key in keys:
        yield Group(level, key, values.get(key, UNSET))


class GroupAggregate:
    """Accumulates the sums of one group for an hour."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._obs, self._util = [0.0] * MINUTES, [0.0] * MINUTES
        self._spans: list[tuple[float, float]] = []
        self._workloads: set[WorkloadKey] = set()

    def add_holding(self, clipped: ClippedHolding) -> None:
        self.sums.alloc_gpu_s += clipped.alloc_gpu_s
        self.sums.running_gpu_s += clipped.running_s * clipped.holding.gpus
        self.sums.pod_s += clipped.clipped_end - clipped.clipped_start
        self._spans.append((clipped.clipped_start, clipped.clipped_end))
        self._workloads.add(clipped.holding.workload)

    def add_observation(self, observed: Observed) -> None:
        sums = self.sums
        sums.obs_gpu_s += observed.obs_gpu_s
        sums.util_gpu_s += observed.util_gpu_s
        sums.by_process_gpu_s += observed.by_process_gpu_s
        sums.beyond_gpu_s += observed.beyond_gpu_s
        sums.memory_obs_gpu_s += observed.memory_obs_gpu_s
        sums.memory_used_gpu_s += observed.memory_used_gpu_s
        sums.memory_total_gpu_s += observed.memory_total_gpu_s
        sums.memory_max = largest(sums.memory_max, observed.memory_max)
        sums.samples += observed.samples
        self._obs = list(map(add, self._obs, observed.minutes_obs))
        self._util = list(map(add, self._util, observed.minutes_util))

    def finish(self) -> Sums:
        """Return the sums, including the figures that need the whole hour: minimum, maximum, histogram and distinct
        counts.
        """
        sums = self.sums
        means = [_mean(util, obs) for util, obs in zip(self._util, self._obs, strict=True) if obs > 0]
        if means:
            sums.util_min, sums.util_max = min(means), max(means)
            bins = sorted(int(mean + 0.5) for mean in means)
            sums.histogram = {percent: bins.count(percent) for percent in dict.fromkeys(bins)}
        pieces = range(0, MINUTES, BUCKET_MINUTES)
        sums.buckets = sum(any(obs > 0 for obs in self._obs[first : first + BUCKET_MINUTES]) for first in pieces)
        sums.pods_min, sums.pods_max = _min_and_max_overlap(self._spans)
        sums.workloads = len(self._workloads)
        return sums


def _mean(util: float, obs: float) -> float:
    """Return the mean of a minute, rounded to nine digits: half a percent must round the same way in any order of
    addition.
    """
    return min(100.0, round(util / obs, 9))


def _min_and_max_overlap(spans: Iterable[tuple[float, float]]) -> tuple[int, int]:
    """Return the lowest and highest number of simultaneous spans, over the moments that have at least one."""
    turns: dict[float, int] = {}
    for low, high in spans:
        turns[low] = turns.get(low, 0) + 1
        turns[high] = turns.get(high, 0) - 1
    count, counts = 0, set()
    for time in sorted(turns):
        # Counted after all changes of one moment: a span that ends when another begins does not overlap it.
        count += turns[time]
        counts.add(count)
    counts.discard(0)
    return (min(counts), max(counts)) if counts else (0, 0)


def in_order(sums: Mapping[Group, Sums]) -> dict[Group, Sums]:
    """Return the sums ordered by level, key and value, so that equal sums have one order."""
    levels = {level: number for number, level in enumerate(Level)}
    return dict(sorted(sums.items(), key=lambda item: (levels[item[0].level], item[0].key, item[0].value)))
