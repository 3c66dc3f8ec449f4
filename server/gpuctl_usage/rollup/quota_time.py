"""Capacity of a namespace over time: its quota, or the cluster's capacity while no quota was in force."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from gpuctl_usage.facts import GpuQuota, PeriodCapacity


class _QuotaPeriod(NamedTuple):
    start: float
    end: float
    gpus: float


class QuotaTimeline:
    """The quotas of a namespace in order of time: each is in force until its end or until the next one begins."""

    def __init__(self, quotas: Iterable[GpuQuota]) -> None:
        ends = ((quota, math.inf if quota.end is None else quota.end) for quota in quotas)
        known = sorted((quota.start, end, quota.gpus) for quota, end in ends if quota.start < end)
        nexts = [*(start for start, _, _ in known[1:]), math.inf]
        self._periods = [
            _QuotaPeriod(start, min(end, then), gpus) for (start, end, gpus), then in zip(known, nexts, strict=False)
        ]
        self._starts = [clipped.start for clipped in self._periods]
        self._ends = [clipped.end for clipped in self._periods]

    @property
    def bounds(self) -> set[float]:
        """Return the times at which a quota begins or ends."""
        return {*self._starts, *self._ends}

    def within(self, start: float, end: float) -> Sequence[_QuotaPeriod]:
        """Return the quota periods that overlap [start, end), in order."""
        return self._periods[bisect_right(self._ends, start) : bisect_left(self._starts, end)]


class CapacityTimeline:
    """The known hours and days of a step, with the cluster's capacity in them."""

    def __init__(self, kept: Iterable[PeriodCapacity]) -> None:
        self._kept = sorted(item for item in kept if item.start < item.end)
        self._starts = [item.start for item in self._kept]
        self._ends = [item.end for item in self._kept]
        self._seconds = list(accumulate((item.end - item.start for item in self._kept), initial=0.0))
        self._cap_gpu_s = list(accumulate((item.cap_gpu_s for item in self._kept), initial=0.0))

    def capacity(self, quotas: QuotaTimeline) -> float | None:
        """Return the namespace's capacity in GPU-seconds; None if there is no quota and the cluster's capacity is
        unknown.

        If a quota covers only part of an hour or day, the rest has the cluster's average capacity of that hour or day.
        """
        if not self._kept:
            return None
        theirs = quotas.within(self._starts[0], self._ends[-1])
        if len(theirs) == 1 and theirs[0].start <= self._starts[0] and theirs[0].end >= self._ends[-1]:
            # The usual case: one quota for the whole step.
            return theirs[0].gpus * self._seconds[-1]
        allowed = limited = instead = 0.0
        for start, end, gpus in theirs:
            (seconds, capacity), (before, before_that) = self._until(end), self._until(start)
            allowed += gpus * (seconds - before)
            limited += seconds - before
            instead += capacity - before_that
        if not limited:
            return self._cap_gpu_s[-1] or None
        # If only a rounding error remains, the cluster has no capacity outside of the quotas.
        is_all = math.isclose(instead, self._cap_gpu_s[-1])
        return allowed if is_all else allowed + self._cap_gpu_s[-1] - instead

    def _until(self, time: float) -> tuple[float, float]:
        """Return the known seconds before a time, and the cluster's GPU-seconds in them."""
        place = bisect_right(self._starts, time) - 1
        if place < 0:
            return 0.0, 0.0
        if time >= self._ends[place]:
            return self._seconds[place + 1], self._cap_gpu_s[place + 1]
        kept = self._kept[place]
        part = time - kept.start
        return self._seconds[place] + part, self._cap_gpu_s[place] + kept.cap_gpu_s * part / (kept.end - kept.start)
