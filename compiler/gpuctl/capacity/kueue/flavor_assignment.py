"""The flavors that a job gets in its ClusterQueue, and whether it has to preempt for them.

Source: Kueue 0.19, ``pkg/scheduler/flavorassigner/flavorassigner.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.queue_quota import QuotaNode
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, FlavorGroup, PodSet, QueuedJob

PreemptionOracle = Callable[[FlavorResource, int], tuple["FlavorMode", int]]
"""Returns for a flavor resource and an amount whether preemption can free it, and the borrowing distance after it."""


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
    """

    usage: dict[FlavorResource, int]
    flavors: list[dict[str, str]]
    borrows: int
    preempts: frozenset[FlavorResource]
    fits: bool


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


_NO_FLAVORS = FlavorAssignment({}, [], 0, frozenset(), False)


def assign_flavors(
    job: QueuedJob, rules: ClusterQueueRules, node: QuotaNode, oracle: PreemptionOracle
) -> FlavorAssignment:
    """Assign flavors with the current usage. Source: assignFlavors."""
    usage: dict[FlavorResource, int] = {}
    flavors: list[dict[str, str]] = []
    preempts: set[FlavorResource] = set()
    borrows = 0
    for pods in job.pod_sets:
        given: dict[str, str] = {}
        for resource in pods.requests:
            if resource in given:
                continue
            group = next((group for group in rules.groups if resource in group.resources), None)
            if group is None:
                return _NO_FLAVORS
            best = _best_flavor(pods, group, rules, node, oracle, usage)
            if not best.assigned:
                return _NO_FLAVORS
            for name, (flavor, mode, far) in best.assigned.items():
                given[name] = flavor
                borrows = max(borrows, far)
                if mode is not FlavorMode.FIT:
                    preempts.add(FlavorResource(flavor, name))
        for name, flavor in given.items():
            slot = FlavorResource(flavor, name)
            usage[slot] = usage.get(slot, 0) + pods.requests[name]
        flavors.append(given)
    return FlavorAssignment(usage, flavors, borrows, frozenset(preempts), not preempts)


def _best_flavor(
    pods: PodSet,
    group: FlavorGroup,
    rules: ClusterQueueRules,
    node: QuotaNode,
    oracle: PreemptionOracle,
    used: Mapping[FlavorResource, int],
) -> _Best:
    """Return the best flavor for a pod set. Source: findFlavorForPodSets."""
    best = _Best(FlavorMode.NO_FIT, 1 << 30, {})
    wanted = {name: amount for name, amount in pods.requests.items() if name in group.resources}
    for flavor in group.flavors:
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
            return found
        if found.is_better(best, rules):
            best = found
    return best


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
