"""The flavors that a job gets in its ClusterQueue, and whether it has to preempt for them.

Source: Kueue 0.19, ``pkg/scheduler/flavorassigner/flavorassigner.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from gpuctl.capacity.cohorts import FlavorResource
from gpuctl.capacity.queue_quota import QuotaNode
from gpuctl.capacity.queue_state import ClusterQueueRules, FlavorGroup, PodSet, QueuedJob

PreemptionOracle = Callable[[FlavorResource, int], tuple["FlavorMode", int]]
"""Returns for a flavor resource and an amount whether preemption can free it, and the borrowing distance after it."""
LastTried = dict[tuple[int, int], int]
"""Pod set and group -> the flavor at which the last search stopped; -1 at the end of the list."""


class FlavorMode(IntEnum):
    """The condition for assigning a flavor, the worst first. Source: preemptionMode."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class FlavorAssignment(NamedTuple):
    """The result. ``flavors``: for each pod set, resource -> flavor.

    - ``borrows``: the borrowing distance, 0 if nothing is borrowed.
    - ``preempts``: the flavor resources for which jobs must be preempted. If it is empty and ``fits`` is False, the job
      cannot be admitted.
    - ``tried``: where the next search continues, also for pod sets before the one that found no flavor.
    """

    usage: dict[FlavorResource, int]
    flavors: list[dict[str, str]]
    borrows: int
    preempts: frozenset[FlavorResource]
    fits: bool
    tried: LastTried

    @property
    def is_possible(self) -> bool:
        """True if the job can be admitted, now or after preemption."""
        return self.fits or bool(self.preempts)


class _Best(NamedTuple):
    mode: FlavorMode
    borrows: int
    assigned: dict[str, tuple[str, FlavorMode, int]]

    def is_better(self, other: _Best, rules: ClusterQueueRules) -> bool:
        """Source: isPreferred."""
        if FlavorMode.NO_FIT in (self.mode, other.mode):
            return self.mode != FlavorMode.NO_FIT
        if rules.prefers_preemption and FlavorMode.NO_CANDIDATES not in (self.mode, other.mode):
            return (-self.borrows, self.mode) > (-other.borrows, other.mode)
        return (self.mode, -self.borrows) > (other.mode, -other.borrows)


def assign_flavors(
    job: QueuedJob, rules: ClusterQueueRules, node: QuotaNode, oracle: PreemptionOracle, tried: LastTried
) -> FlavorAssignment:
    """Assign flavors with the current usage. Source: assignFlavors."""
    usage: dict[FlavorResource, int] = {}
    flavors: list[dict[str, str]] = []
    preempts: set[FlavorResource] = set()
    borrows, done, stops = 0, LastTried(), LastTried()
    for number, pods in enumerate(job.pod_sets):
        given: dict[str, str] = {}
        done = {**stops}
        for resource in pods.requests:
            if resource in given:
                continue
            place = next((index for index, group in enumerate(rules.groups) if resource in group.resources), None)
            if place is None:
                return FlavorAssignment({}, [], 0, frozenset(), False, done)
            first = tried.get((number, place), -1) + 1
            best, stop = _search(pods, rules.groups[place], rules, node, oracle, usage, first)
            if not best.assigned:
                return FlavorAssignment({}, [], 0, frozenset(), False, done)
            stops[number, place] = stop
            for name, (flavor, mode, far) in best.assigned.items():
                given[name] = flavor
                borrows = max(borrows, far)
                if mode is not FlavorMode.FIT:
                    preempts.add(FlavorResource(flavor, name))
        for name, flavor in given.items():
            slot = FlavorResource(flavor, name)
            usage[slot] = usage.get(slot, 0) + pods.requests[name]
        flavors.append(given)
    return FlavorAssignment(usage, flavors, borrows, frozenset(preempts), not preempts, stops)


def _search(
    pods: PodSet,
    group: FlavorGroup,
    rules: ClusterQueueRules,
    node: QuotaNode,
    oracle: PreemptionOracle,
    used: Mapping[FlavorResource, int],
    first: int,
) -> tuple[_Best, int]:
    """Return the best flavor from an index on, and the index where the search stopped. Source: findFlavorForPodSets."""
    best = _Best(FlavorMode.NO_FIT, 1 << 30, {})
    wanted = {name: amount for name, amount in pods.requests.items() if name in group.resources}
    last = -1
    for index in range(first, len(group.flavors)):
        last, flavor = index, group.flavors[index]
        if flavor in pods.excluded:
            continue
        found = _Best(FlavorMode.FIT, 0, {})
        for name, amount in wanted.items():
            slot = FlavorResource(flavor, name)
            mode, far = _mode(slot, used.get(slot, 0) + amount, rules, node, oracle)
            single = _Best(mode, far, {})
            worst = single if found.is_better(single, rules) else found
            found = worst._replace(assigned={**found.assigned, name: (flavor, mode, far)})
            if mode is FlavorMode.NO_FIT:
                break
        if not _tries_next(found, rules):
            best = found
            break
        if found.is_better(best, rules):
            best = found
    return best, -1 if last == len(group.flavors) - 1 else last


def _tries_next(found: _Best, rules: ClusterQueueRules) -> bool:
    """Source: shouldTryNextFlavor."""
    if found.mode in (FlavorMode.NO_FIT, FlavorMode.NO_CANDIDATES):
        return True
    if found.mode in (FlavorMode.PREEMPT, FlavorMode.RECLAIM) and not rules.stops_at_preempting:
        return True
    return found.borrows > 0 and not rules.stops_at_borrowing


def _mode(
    slot: FlavorResource, amount: int, rules: ClusterQueueRules, node: QuotaNode, oracle: PreemptionOracle
) -> tuple[FlavorMode, int]:
    """Source: fitsResourceQuota."""
    if amount > node.potential(slot):
        return FlavorMode.NO_FIT, 0
    far, below_root = node.borrowing_distance(slot, amount)
    if amount <= max(0, node.available(slot)):
        return FlavorMode.FIT, far
    if amount <= node.subtree.get(slot, 0) or below_root or rules.borrows:
        return oracle(slot, amount)
    return FlavorMode.NO_FIT, far
