"""Measurements that a later answer of Prometheus lacks.

Prometheus may answer less than it did before: a shard is away, a block is lost, its retention has passed, or another
Prometheus is asked. What was measured once stays measured: the measurements of an hour are kept until the hour is
settled, and those that the new answer lacks are added to it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from gpuctl_usage.facts import HOUR, GpuSeries
from gpuctl_usage.sums import Level, RolledUp, Sums

_LEAST = 1e-6
"""Seconds: less is what additions lose."""
_Gpu = tuple[str, str, str, str]


class MissingMeasurements(NamedTuple):
    """A pod of which the new answer lacks measurements. ``gpu_s``: GPU-seconds that they cover."""

    node: str
    namespace: str
    pod: str
    gpu_s: float


class MergedMeasurements(NamedTuple):
    """The new measurements and the kept ones that they lack, with the pods of which they cover less time."""

    series: list[GpuSeries]
    lost: list[MissingMeasurements]


def merge_measurements(
    kept: Iterable[GpuSeries], fresh: Sequence[GpuSeries], start: float, reach: float
) -> MergedMeasurements:
    """Return the fresh measurements of an hour, and the kept ones of other times.

    :param start: of the hour; ``reach``: seconds that a measurement covers at most.
    """
    by_gpu: dict[_Gpu, list[GpuSeries]] = defaultdict(list)
    for one in fresh:
        by_gpu[_gpu(one)].append(one)
    added: list[GpuSeries] = []
    lost: dict[tuple[str, str, str], float] = defaultdict(float)
    for one in kept:
        same = by_gpu.get(_gpu(one), [])
        if any(series.times[: len(one.times)] == one.times for series in same):
            continue
        times = set(chain.from_iterable(series.times for series in same))
        missing = [number for number, time in enumerate(one.times) if time not in times]
        if not missing:
            continue
        # Also where later measurements reach back over the gap: they may be those of the next pod of this name.
        added.append(_chosen(one, missing))
        more = _covered({*times, *one.times}, start, reach) - _covered(times, start, reach)
        if one.pod and more > _LEAST:
            lost[one.node, one.namespace, one.pod] += more
    return MergedMeasurements(
        [*fresh, *added], [MissingMeasurements(*whose, seconds) for whose, seconds in sorted(lost.items())]
    )


def find_reduced_coverage(before: RolledUp, now: RolledUp) -> list[MissingMeasurements]:
    """Return the nodes and workloads of which less is measured than before, though they held as much."""
    found = []
    for group, sums in before.sums.items():
        if group.level not in (Level.NODE, Level.WORKLOAD):
            continue
        others = now.sums.get(group, Sums())
        less = min(sums.obs_gpu_s, others.alloc_gpu_s) - others.obs_gpu_s
        if less > _LEAST * max(1.0, sums.obs_gpu_s):
            is_node = group.level is Level.NODE
            found.append(MissingMeasurements(group.value if is_node else "", "" if is_node else group.key, "", less))
    # Nodes and workloads are measured by the same measurements.
    return [item for item in found if item.node] or found


def _gpu(one: GpuSeries) -> _Gpu:
    return one.node, one.gpu, one.namespace, one.pod


def _covered(times: Iterable[float], start: float, reach: float) -> float:
    """Return the seconds of the hour that measurements of these times cover."""
    end = start + HOUR
    return sum(
        max(0.0, min(time, end) - max(before, time - reach, start))
        for before, time in pairwise((start - reach, *sorted(times)))
    )


def _chosen(one: GpuSeries, numbers: Sequence[int]) -> GpuSeries:
    def columns(values: array[float] | None) -> array[float] | None:
        return None if values is None else array("d", [values[number] for number in numbers])

    return one._replace(
        times=array("d", [one.times[number] for number in numbers]),
        utilization=array("d", [one.utilization[number] for number in numbers]),
        memory_used=columns(one.memory_used),
        memory_total=columns(one.memory_total),
        process_flags=None
        if one.process_flags is None
        else array("b", [one.process_flags[number] for number in numbers]),
    )
