"""Measurements of exporters, ordered and without duplicates, cut to an hour."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from operator import lt
from typing import NamedTuple

from gpuctl_usage.facts import GpuSeries
from gpuctl_usage.rollup.clipped_intervals import PodKey


class SampleSeries(NamedTuple):
    """Measurements of one GPU for the pods of one name on one node, in ascending order of distinct times.

    :param times: seconds since the start of the hour.
    :param memory: used and total, GiB; NaN or None where not measured.
    :param process_flags: see :class:`~gpuctl_usage.facts.GpuSeries`.
    """

    gpu: str
    times: array[float]
    utilization: array[float]
    memory: tuple[array[float], array[float]] | None
    process_flags: array[int] | None = None


def series_by_pod(
    start: float, seconds: float, samples: Iterable[GpuSeries], reach: float
) -> dict[PodKey, list[SampleSeries]]:
    """Return the measurements of the hour by pod: those within it, and the first one after its end if it covers the
    end.

    :param reach: maximum number of seconds that a measurement covers.
    :raises ValueError: the arrays of a series differ in length, or a utilization is not a percentage.
    """
    found: dict[PodKey, dict[str, list[GpuSeries]]] = defaultdict(lambda: defaultdict(list))
    for one in samples:
        _check(one)
        if one.times:
            found[one.node, one.namespace, one.pod][one.gpu].append(one)
    cut: dict[PodKey, list[SampleSeries]] = {}
    for place, gpus in sorted(found.items()):
        around = [_cut(_ordered(series), start, start + seconds, reach) for _, series in sorted(gpus.items())]
        cut[place] = [track for track in around if track.times]
    return cut


def _check(series: GpuSeries) -> None:
    size, values = len(series.times), series.utilization
    memory = [part for part in (series.memory_used, series.memory_total) if part is not None]
    name = f"GPU {series.gpu} of {series.node} for {series.namespace}/{series.pod}"
    if any(len(part) != size for part in (values, *memory)):
        raise ValueError(f"{name}: the arrays of a series must have equal lengths")
    # One NaN makes the sum NaN; min() and max() may skip it.
    if size and not (min(values) >= 0 and max(values) <= 100 and math.isfinite(sum(values))):
        raise ValueError(f"{name}: utilization must be between 0 and 100 percent")


def _ordered(series: list[GpuSeries]) -> GpuSeries:
    """Merge several series into one. Of two measurements with equal times the higher one counts, in any order."""
    first = series[0]
    if len(series) == 1 and all(map(lt, first.times, first.times[1:])):
        return first
    best: dict[float, tuple[float, float, float, int]] = {}
    for one in series:
        nothing = array("d", [math.nan]) * len(one.times)
        memory = zip(one.memory_used or nothing, one.memory_total or nothing, strict=True)
        marks = one.process_flags or array("b", bytes(len(one.times)))
        for time, value, (used, total), mark in zip(one.times, one.utilization, memory, marks, strict=True):
            memory_of = (-1.0, -1.0) if math.isnan(used) or math.isnan(total) else (used, total)
            best[time] = max(best.get(time, (-1.0, -1.0, -1.0, 0)), (value, *memory_of, mark))
    times = array("d", sorted(best))
    values, used_all, total_all, marks_all = zip(*(best[time] for time in times), strict=True)
    # None instead of all NaN, as in a single series: the same measurements in two parts must have the same digest.
    known = any(one.memory_used is not None for one in series)
    return first._replace(
        times=times,
        utilization=array("d", values),
        memory_used=array("d", [math.nan if amount < 0 else amount for amount in used_all]) if known else None,
        memory_total=array("d", [math.nan if amount < 0 else amount for amount in total_all]) if known else None,
        process_flags=array("b", marks_all) if any(marks_all) else None,
    )


def _cut(series: GpuSeries, start: float, end: float, reach: float) -> SampleSeries:
    times, used, total = series.times, series.memory_used, series.memory_total
    first, last = bisect_right(times, start), bisect_right(times, end)
    reaches_back = last < len(times) and times[last] - reach < end
    if reaches_back and (last == 0 or times[last - 1] < end):
        last += 1
    part = slice(first, last)
    memory = None if used is None or total is None else (used[part], total[part])
    since = array("d", [time - start for time in times[part]])
    process_flags = None if series.process_flags is None else series.process_flags[part]
    return SampleSeries(
        series.gpu,
        since,
        series.utilization[part],
        memory,
        process_flags if process_flags and any(process_flags) else None,
    )
