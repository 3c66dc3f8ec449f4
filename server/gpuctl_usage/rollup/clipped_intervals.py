"""Who held GPUs, and which GPUs there were, within an hour: each pod and each node once at any moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, TypeVar

from gpuctl_usage.facts import Capacity, Holding

Interval = TypeVar("Interval", Holding, Capacity)
PodKey = tuple[str, str, str]
"""Node, namespace and name of a pod: how its measurements say whose they are."""


@dataclass
class ClippedHolding:
    """A holding as the hour sees it; times are seconds since the hour began, and may lie outside of it.

    :param started: when its containers began to run; infinite while they do not.
    :param clipped_start: where its part of the hour begins; ``clipped_end``: where it ends, not after
        ``clipped_start`` if it has none: it may
        begin so soon after the hour that its measurements speak of the hour too.
    """

    holding: Holding
    begin: float
    finish: float
    started: float
    clipped_start: float
    clipped_end: float

    @property
    def overlaps(self) -> bool:
        """Whether it held GPUs within the hour."""
        return self.clipped_start < self.clipped_end

    @property
    def running_s(self) -> float:
        """Seconds of the hour in which its containers ran."""
        return max(0.0, self.clipped_end - max(self.clipped_start, self.started))

    @property
    def alloc_gpu_s(self) -> float:
        """GPU-seconds of the hour that it held."""
        return (self.clipped_end - self.clipped_start) * self.holding.gpus

    @property
    def place(self) -> PodKey:
        """By which measurements find it."""
        return self.holding.node, self.holding.namespace, self.holding.pod


class ClippedCapacity(NamedTuple):
    """A capacity as the hour sees it, cut to the hour."""

    capacity: Capacity
    clipped_start: float
    clipped_end: float


def clip_holdings(
    start: float, seconds: float, holdings: Iterable[Holding], beyond: float = 0.0
) -> list[ClippedHolding]:
    """Those of the holdings that held something within the hour, or until ``beyond`` seconds after it; in one order."""
    found = []
    for holding in _once([holding for holding in holdings if holding.gpus > 0], lambda holding: holding.pod_uid):
        begin, finish, started = (_since(start, time) for time in (holding.start, holding.end, holding.started))
        clipped = ClippedHolding(holding, begin, finish, started, max(0.0, begin), min(seconds, finish))
        if clipped.clipped_start < clipped.clipped_end or (finish > seconds > begin - beyond):
            found.append(clipped)
    return sorted(found, key=lambda clipped: (clipped.place, clipped.begin, clipped.holding.pod_uid))


def clip_capacities(start: float, seconds: float, capacities: Iterable[Capacity]) -> list[ClippedCapacity]:
    """Those of the capacities that there were within the hour, by node and time."""
    found = []
    for capacity in _once(list(capacities), lambda capacity: capacity.node):
        clipped = ClippedCapacity(
            capacity, max(0.0, _since(start, capacity.start)), min(seconds, _since(start, capacity.end))
        )
        if clipped.clipped_start < clipped.clipped_end:
            found.append(clipped)
    return found


def _since(start: float, time: float | None) -> float:
    """What has not come yet comes after everything."""
    return math.inf if time is None else float(time - start)


def _once(intervals: Iterable[Interval], whose: Callable[[Interval], str]) -> list[Interval]:
    """Intervals that do not overlap: one ends where the next of the same pod or node begins.

    Of two that begin together the one that ends first counts: what is known to have ended is the later knowledge.
    """

    def order(interval: Interval) -> tuple[str, float, float, str]:
        # The last breaks a tie by everything that there is, so that the order in which they come never decides.
        return whose(interval), interval.start, _since(0, interval.end), _text(interval)

    found = []
    real = [interval for interval in intervals if interval.end is None or interval.start < interval.end]
    for _, same in groupby(sorted(real, key=order), whose):
        starts: dict[float, Interval] = {}
        for interval in same:
            starts.setdefault(interval.start, interval)
        alone = list(starts.values())
        for one, following in pairwise(alone):
            found.append(one if _since(0, one.end) <= following.start else one._replace(end=following.start))
        found.append(alone[-1])
    return found


def _text(interval: Interval) -> str:
    return repr([sorted(part.items()) if isinstance(part, Mapping) else part for part in interval])
