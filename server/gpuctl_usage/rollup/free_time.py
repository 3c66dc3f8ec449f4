"""Unallocated GPU time of each node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from gpuctl_usage.facts import CapacityState
from gpuctl_usage.rollup.clipped_intervals import ClippedCapacity, ClippedHolding


class FreeTime(NamedTuple):
    """GPU-seconds of a node during one capacity interval; see :class:`~gpuctl_usage.sums.Sums`."""

    node: str
    model: str
    cap_gpu_s: float
    free_gpu_s: float
    unusable_gpu_s: float
    unsized_gpu_s: float


def free_times(
    clipped_capacities: Sequence[ClippedCapacity], clipped_holdings: Iterable[ClippedHolding]
) -> Iterator[FreeTime]:
    """Yield the unallocated time of each capacity. Both arguments are ordered by node.

    If pods hold more than a node has, its unallocated time is 0; the excess is not taken from other nodes. The ledger
    does not close then.
    """
    held: dict[str, list[ClippedHolding]] = {}
    for clipped in clipped_holdings:
        if clipped.overlaps:
            held.setdefault(clipped.holding.node, []).append(clipped)
    for node, of_node in groupby(clipped_capacities, key=lambda clipped: clipped.capacity.node):
        levels = _levels(held.get(node, ()))
        for capacity in of_node:
            yield _free_time(capacity, levels)


def _free_time(clipped: ClippedCapacity, levels: Iterable[tuple[float, float, float]]) -> FreeTime:
    capacity, low, high = clipped
    nobodys = capacity.gpus * (high - low)
    for begin, end, gpus in levels:
        length = min(end, high) - max(begin, low)
        if length > 0:
            nobodys -= min(gpus, capacity.gpus) * length
    nobodys = max(0.0, nobodys)
    return FreeTime(
        node=capacity.node,
        model=capacity.model,
        cap_gpu_s=capacity.gpus * (high - low),
        **{name: nobodys if name == _PLACES[capacity.state] else 0.0 for name in set(_PLACES.values())},
    )


_PLACES = {
    CapacityState.READY: "free_gpu_s",
    CapacityState.CORDONED: "unusable_gpu_s",
    CapacityState.NOT_READY: "unusable_gpu_s",
    CapacityState.UNSIZED: "unsized_gpu_s",
}


def _levels(clipped_holdings: Iterable[ClippedHolding]) -> list[tuple[float, float, float]]:
    """Return intervals with a constant number of held GPUs: (begin, end, GPUs)."""
    turns = []
    for number, clipped in enumerate(clipped_holdings):
        turns += [(clipped.clipped_start, number, clipped.holding.gpus), (clipped.clipped_end, number, 0.0)]
    turns.sort()
    found: list[tuple[float, float, float]] = []
    active: dict[int, float] = {}
    for (time, number, gpus), (following, _, _) in pairwise(turns):
        active[number] = gpus
        if time < following:
            found.append((time, following, sum(active.values())))
    return found
