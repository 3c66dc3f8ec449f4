"""What the capacity of a namespace was over a time: its quota's, and while none was in force the cluster's."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from gpuctl_usage.facts import GpuQuota, KeptTime


class QuotaTime:
    """The quotas of a namespace, one after the other: where two of them are in force, the one that began last.

    :ivar bounds: when anything changes.
    """

    def __init__(self, quotas: Iterable[GpuQuota]) -> None:
        ends = ((quota, math.inf if quota.end is None else quota.end) for quota in quotas)
        known = sorted((quota.start, end, quota.gpus) for quota, end in ends if quota.start < end)
        nexts = [*(start for start, _, _ in known[1:]), math.inf]
        spells = [(start, min(end, then), gpus) for (start, end, gpus), then in zip(known, nexts, strict=False)]
        self._starts = [start for start, _, _ in spells]
        self._ends = [end for _, end, _ in spells]
        self._gpus = [gpus for _, _, gpus in spells]

    @property
    def bounds(self) -> set[float]:
        """When anything changes."""
        return {*self._starts, *self._ends}

    def within(self, start: float, end: float) -> tuple[float, float]:
        """The GPU-seconds that quotas allow in [start, end), and for how many seconds one is in force."""
        allowed = seconds = 0.0
        for place in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            both = min(self._ends[place], end) - max(self._starts[place], start)
            allowed += self._gpus[place] * both
            seconds += both
        return allowed, seconds


class StepTime:
    """The hours and days of a step that are known, and what a namespace had in them."""

    def __init__(self, kept: Iterable[KeptTime]) -> None:
        self._kept = sorted(item for item in kept if item.start < item.end)
        self._cap_gpu_s = sum(item.cap_gpu_s for item in self._kept)
        self._runs = _runs(self._kept)
        self._seconds = sum(end - start for start, end in self._runs)

    def capacity(self, quotas: QuotaTime) -> float | None:
        """GPU-seconds; None where there is no quota, and nothing is known of the cluster's.

        In an hour or day that has a quota for a part of the time, the rest has the cluster's average of it.
        """
        allowed = seconds = 0.0
        for start, end in self._runs:
            of_run, limited = quotas.within(start, end)
            allowed += of_run
            seconds += limited
        if not seconds:
            return self._cap_gpu_s or None
        if math.isclose(seconds, self._seconds):
            return allowed
        for start, end, capacity in self._kept:
            _, limited = quotas.within(start, end)
            allowed += capacity * (1 - limited / (end - start))
        return allowed


def _runs(kept: Sequence[KeptTime]) -> list[tuple[float, float]]:
    """What follows without a gap, together: mostly it is one."""
    if not kept:
        return []
    cuts = [number for number, (one, other) in enumerate(pairwise(kept), 1) if one.end != other.start]
    places = pairwise([0, *cuts, len(kept)])
    return [(kept[first].start, kept[last - 1].end) for first, last in places]
