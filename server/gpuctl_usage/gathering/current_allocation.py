"""The allocation of a cluster's GPUs at one time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from gpuctl_usage.facts import (
    PROCESS_UTILIZATION,
    AllocationSnapshot,
    Capacity,
    GpuSeries,
    Holding,
    WorkloadAllocation,
    WorkloadKey,
)


def take_snapshot(
    time: float,
    holdings: Iterable[Holding],
    capacities: Iterable[Capacity],
    measured: Iterable[GpuSeries],
    reach: float = math.inf,
) -> AllocationSnapshot:
    """Return the allocation at a time.

    :param measured: measurements of the minutes before; the mean of a workload is weighted by the GPUs of its pods.
    :param reach: seconds that a measurement covers: a GPU whose last measurement is older counts as not measured.
    """
    of_pods: dict[tuple[str, str, str], list[GpuSeries]] = defaultdict(list)
    for series in measured:
        if not series.times or max(series.times) < time - reach:
            continue
        of_pods[series.node, series.namespace, series.pod].append(series)
    held: dict[WorkloadKey, float] = defaultdict(float)
    seen: dict[WorkloadKey, list[tuple[float, float]]] = defaultdict(list)
    for holding in holdings:
        held[holding.workload] += holding.gpus
        found = of_pods.get((holding.node, holding.namespace, holding.pod))
        if found:
            means = [_mean_of(series, min(1.0, holding.gpus / len(found))) for series in found]
            seen[holding.workload].append((holding.gpus, sum(means) / len(means)))
    return AllocationSnapshot(
        time,
        sum(capacity.gpus for capacity in capacities),
        sum(held.values()),
        tuple(WorkloadAllocation(workload, held[workload], _mean(seen[workload])) for workload in sorted(held)),
    )


def _mean_of(series: GpuSeries, share: float) -> float:
    """Return the mean utilization of the share that a pod holds, percent."""
    if series.process_flags is None:
        return sum(series.utilization) / len(series.utilization)
    both = zip(series.utilization, series.process_flags, strict=True)
    own = (min(100.0, value / share) if mark & PROCESS_UTILIZATION else value for value, mark in both)
    return sum(own) / len(series.utilization)


def _mean(parts: list[tuple[float, float]]) -> float | None:
    weight = sum(gpus for gpus, _ in parts)
    return sum(gpus * percent for gpus, percent in parts) / weight if weight else None
