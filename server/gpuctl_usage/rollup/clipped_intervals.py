"""Holdings and capacities clipped to an hour, so that each pod and each node has at most one interval at any moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, TypeVar

from gpuctl_usage.facts import Capacity, Holding

Interval = TypeVar("Interval", Holding, Capacity)
PodKey = tuple[str, str, str]
"""Node, namespace and name of a pod, by which measurements are assigned to it."""


@dataclass
class ClippedHolding:
    """A holding clipped to an hour. Times are seconds since the start of the hour.

    :param begin: start of the whole holding, ``finish`` its end; both may lie outside of the hour.
    :param started: when the pod's containers started; infinite before that.
    :param clipped_start: start of the part within the hour, ``clipped_end`` its end. If the holding begins shortly
        after the hour, ``clipped_end`` is not after ``clipped_start``: it is kept because its first measurement may
        cover the end of the hour.
    """

    holding: Holding
    begin: float
    finish: float
    started: float
    clipped_start: float
    clipped_end: float

    @property
    def overlaps(self) -> bool:
        """Return True if the pod held GPUs within the hour."""
        return self.clipped_start < self.clipped_end

    @property
    def running_s(self) -> float:
        """Return the seconds of the hour in which the pod's containers ran."""
        return max(0.0, self.clipped_end - max(self.clipped_start, self.started))

    @property
    def alloc_gpu_s(self) -> float:
        """Return the GPU-seconds held within the hour."""
        return (self.clipped_end - self.clipped_start) * self.holding.gpus

    @property
    def place(self) -> PodKey:
        """Return the key by which measurements find the holding."""
        return self.holding.node, self.holding.namespace, self.holding.pod


class ClippedCapacity(NamedTuple):
    """A capacity clipped to an hour. Times are seconds since the start of the hour."""

    capacity: Capacity
    clipped_start: float
    clipped_end: float


def clip_holdings(
    start: float, seconds: float, holdings: Iterable[Holding], beyond: float = 0.0
) -> list[ClippedHolding]:
    """Return the holdings that overlap the hour or begin within ``beyond`` seconds after it, in a fixed order."""
    found = []
    for holding in _once([holding for holding in holdings if holding.gpus > 0], lambda holding: holding.pod_uid):
        begin, finish, started = (_since(start, time) for time in (holding.start, holding.end, holding.started))
        clipped = ClippedHolding(holding, begin, finish, started, max(0.0, begin), min(seconds, finish))
        if clipped.clipped_start < clipped.clipped_end or (finish > seconds > begin - beyond):
            found.append(clipped)
    return sorted(found, key=lambda clipped: (clipped.place, clipped.begin, clipped.holding.pod_uid))


def clip_capacities(start: float, seconds: float, capacities: Iterable[Capacity]) -> list[ClippedCapacity]:
    """Return the capacities that overlap the hour, by node and time."""
    found = []
    for capacity in _once(list(capacities), lambda capacity: capacity.node):
        clipped = ClippedCapacity(
            capacity, max(0.0, _since(start, capacity.start)), min(seconds, _since(start, capacity.end))
        )
        if clipped.clipped_start < clipped.clipped_end:
            found.append(clipped)
    return found


def _since(start: float, time: float | None) -> float:
    """Return seconds since ``start``; infinity for None."""
    return math.inf if time is None else float(time - start)


def _once(intervals: Iterable[Interval], whose: Callable[[Interval], str]) -> list[Interval]:
    """Return intervals that do not overlap: each ends no later than the next one of the same pod or node begins.

    If two begin together, the one that ends first wins: a known end is the later information.
    """

    def order(interval: Interval) -> tuple[str, float, float, str]:
        # The text breaks ties by all fields, so that the result does not depend on the input order.
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
