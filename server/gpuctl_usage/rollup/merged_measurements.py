"""Merging of new and stored measurements of an hour.

Prometheus may return less than before: a shard is down, a block is lost, its retention has passed, or another
Prometheus is asked. Measurements of an hour are therefore stored until the hour is final, and those that a new response
lacks are added to it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import GpuSeries
from gpuctl_usage.sums import Level, RolledUp, Sums

_EPSILON = 1e-6
"""Rounding error of sums, in seconds."""
_Gpu = tuple[str, str, str, str]


class MissingMeasurements(NamedTuple):
    """A pod for which the new response lacks measurements. ``gpu_s``: GPU-seconds that those cover."""

    node: str
    namespace: str
    pod: str
    gpu_s: float


class MergedMeasurements(NamedTuple):
    """The new measurements with the stored ones that they lack, and the pods of which the new ones cover less time."""

    series: list[GpuSeries]
    lost: list[MissingMeasurements]


def merge_measurements(
    kept: Iterable[GpuSeries], fresh: Sequence[GpuSeries], start: float, reach: float
) -> MergedMeasurements:
    """Return the fresh measurements of an hour and the stored ones with other times.

    :param start: start of the hour; ``reach``: maximum number of seconds that a measurement covers.
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
        # Added even if later measurements cover the gap: those may belong to the next pod of this name.
        added.append(_chosen(one, missing))
        more = _covered({*times, *one.times}, start, reach) - _covered(times, start, reach)
        if one.pod and more > _EPSILON:
            lost[one.node, one.namespace, one.pod] += more
    return MergedMeasurements(
        [*fresh, *added], [MissingMeasurements(*whose, seconds) for whose, seconds in sorted(lost.items())]
    )


def find_reduced_coverage(before: RolledUp, now: RolledUp) -> list[MissingMeasurements]:
    """Return the nodes and workloads that have less measured time than before although they held as much."""
    found = []
    for group, sums in before.sums.items():
        if group.level not in (Level.NODE, Level.WORKLOAD):
            continue
        others = now.sums.get(group, Sums())
        less = min(sums.obs_gpu_s, others.alloc_gpu_s) - others.obs_gpu_s
        if less > _EPSILON * max(1.0, sums.obs_gpu_s):
            is_node = group.level is Level.NODE
            found.append(MissingMeasurements(group.value if is_node else "", "" if is_node else group.key, "", less))
    # The same measurements count for nodes and workloads: one of the two lists is enough.
    return [item for item in found if item.node] or found


def _gpu(one: GpuSeries) -> _Gpu:
    return one.node, one.gpu, one.namespace, one.pod


def _covered(times: Iterable[float], start: float, reach: float) -> float:
    """Return the seconds of the hour that measurements at these times cover."""
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
