"""What the capacity of a namespace was over a time: its quota's, and while none was in force the cluster's."""

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
    """The quotas of a namespace, one after the other: each is in force until the next one begins, at the latest."""

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
        """When anything changes."""
        return {*self._starts, *self._ends}

    def within(self, start: float, end: float) -> Sequence[_QuotaPeriod]:
        """The spells that have a moment in common with [start, end), in order, with the GPUs of each."""
        return self._periods[bisect_right(self._ends, start) : bisect_left(self._starts, end)]


class CapacityTimeline:
    """The hours and days of a step that are known, and what a namespace had in them."""

    def __init__(self, kept: Iterable[PeriodCapacity]) -> None:
        self._kept = sorted(item for item in kept if item.start < item.end)
        self._starts = [item.start for item in self._kept]
        self._ends = [item.end for item in self._kept]
        self._seconds = list(accumulate((item.end - item.start for item in self._kept), initial=0.0))
        self._cap_gpu_s = list(accumulate((item.cap_gpu_s for item in self._kept), initial=0.0))

    def capacity(self, quotas: QuotaTimeline) -> float | None:
        """GPU-seconds; None where there is no quota, and nothing is known of the cluster's.

        In an hour or day that has a quota for a part of the time, the rest has the cluster's average of it.
        """
        if not self._kept:
            return None
        theirs = quotas.within(self._starts[0], self._ends[-1])
        if len(theirs) == 1 and theirs[0].start <= self._starts[0] and theirs[0].end >= self._ends[-1]:
            # Most often it does not change.
            return theirs[0].gpus * self._seconds[-1]
        allowed = limited = instead = 0.0
        for start, end, gpus in theirs:
            (seconds, capacity), (before, before_that) = self._until(end), self._until(start)
            allowed += gpus * (seconds - before)
            limited += seconds - before
            instead += capacity - before_that
        if not limited:
            return self._cap_gpu_s[-1] or None
        # No GPUs are left where the cluster had none, either: what additions lose is not a capacity.
        is_all = math.isclose(instead, self._cap_gpu_s[-1])
        return allowed if is_all else allowed + self._cap_gpu_s[-1] - instead

    def _until(self, time: float) -> tuple[float, float]:
        """Of what is known before a time: how many seconds, and the GPU-seconds that the cluster had."""
        place = bisect_right(self._starts, time) - 1
        if place < 0:
            return 0.0, 0.0
        if time >= self._ends[place]:
            return self._seconds[place + 1], self._cap_gpu_s[place + 1]
        kept = self._kept[place]
        part = time - kept.start
        return self._seconds[place] + part, self._cap_gpu_s[place] + kept.cap_gpu_s * part / (kept.end - kept.start)
