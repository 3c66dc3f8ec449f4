"""A snapshot of who holds GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpuctl_usage.facts import AllocationSnapshot, Capacity, GpuSeries, Holding, WorkloadAllocation, WorkloadKey


def snapshot(
    time: float, holdings: Iterable[Holding], capacities: Iterable[Capacity], measured: Iterable[GpuSeries]
) -> AllocationSnapshot:
    """What is held at a time.

    :param measured: of the minutes before it; the mean of a workload is weighted by what its pods hold.
    """
    means: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for series in measured:
        means[series.node, series.namespace, series.pod].append(sum(series.utilization) / len(series.utilization))
    held: dict[WorkloadKey, float] = defaultdict(float)
    seen: dict[WorkloadKey, list[tuple[float, float]]] = defaultdict(list)
    for holding in holdings:
        held[holding.workload] += holding.gpus
        found = means.get((holding.node, holding.namespace, holding.pod))
        if found:
            seen[holding.workload].append((holding.gpus, sum(found) / len(found)))
    return AllocationSnapshot(
        time,
        sum(capacity.gpus for capacity in capacities),
        sum(held.values()),
        tuple(WorkloadAllocation(workload, held[workload], _mean(seen[workload])) for workload in sorted(held)),
    )


def _mean(parts: list[tuple[float, float]]) -> float | None:
    weight = sum(gpus for gpus, _ in parts)
    return sum(gpus * percent for gpus, percent in parts) / weight if weight else None
