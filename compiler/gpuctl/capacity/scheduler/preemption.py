"""The pods that the scheduler evicts from a node for a more important pod.

:mod:`~gpuctl.capacity.pods.job_pods` adds those that end with them.
Source: Kubernetes 1.36, ``pkg/scheduler/framework/preemption`` and ``plugins/defaultpreemption``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo, PlacedPod
from gpuctl.objects.api_resources import Object
from gpuctl.objects.selectors import selector_matches

_PRIORITY_OFFSET = 2**31
_MINIMUM_CANDIDATES = 100


class Budget(NamedTuple):
    """A PodDisruptionBudget. ``allowed``: the number of its pods that may still be disrupted."""

    namespace: str
    selector: Object | None
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def covers(self, pod: PlacedPod) -> bool:
        """Source: ``defaultpreemption/default_preemption.go``, filterPodsWithPDBViolation."""
        if pod.namespace != self.namespace or not pod.labels or pod.name in self.disrupted:
            return False
        return any((self.selector or {}).values()) and selector_matches(self.selector, pod.labels)


class Eviction(NamedTuple):
    """The victims on one node. Not ``certain``: other pods of equal importance may be evicted instead."""

    victims: tuple[PlacedPod, ...]
    violations: int
    certain: bool

    @property
    def cost(self) -> tuple[int, int, int, int, tuple[int, ...]]:
        """Sort key: the smallest is preferred. Source: ``preemption/preemption.go``, pickOneNodeForPreemption."""
        highest = self.victims[0].priority
        total = sum(pod.priority + _PRIORITY_OFFSET for pod in self.victims)
        earliest = min(pod.importance[1] for pod in self.victims if pod.priority == highest)
        # The latest start is preferred.
        return self.violations, highest, total, len(self.victims), tuple(-ord(character) for character in earliest)


def find_eviction(
    incoming: IncomingPod, node_info: NodeInfo, fits: Callable[[NodeInfo], bool], budgets: Sequence[Budget]
) -> Eviction | None:
    """Return the victims on a node, or None if evicting does not help.

    All pods with a lower priority are removed; then those for which there is room are spared, the most important first.
    Source: ``defaultpreemption/default_preemption.go``, SelectVictimsOnNode.
    """
    # The devices of evicted pods are free only after their deletion: the scheduler evicts no pod for devices
    # (dynamicresources.go, PreFilterExtensions).
    if any(
        amount > node_info.free(name)
        for name, amount in node_info.node.charged(incoming.pod.requests).items()
        if name in node_info.node.devices
    ):
        return None
    lower = sorted((pod for pod in node_info.pods if may_evict(incoming, pod)), key=lambda pod: pod.importance)
    left = node_info.without(lower)
    if not lower or not fits(left):
        return None

    def spare(pod: PlacedPod) -> bool:
        nonlocal left
        more = left.with_pod(pod)
        if not fits(more):
            return False
        left = more
        return True

    return select_victims(lower, spare, budgets)


def select_victims(
    lower: Sequence[PlacedPod], spare: Callable[[PlacedPod], bool], budgets: Sequence[Budget]
) -> Eviction | None:
    """Return the eviction of the pods that ``spare`` rejects; pods protected by a budget are tried first.

    :param lower: candidates, the most important first.
    :param spare: returns True if a pod fits beside those already spared, and then counts it.
    """
    violating = _violating(lower, budgets) if budgets else []
    protected = [pod for pod in lower if pod in violating]
    victims: list[PlacedPod] = []
    spared: list[PlacedPod] = []
    for pod in [*protected, *(pod for pod in lower if pod not in violating)]:
        (spared if spare(pod) else victims).append(pod)
    if not victims:
        return None
    victims.sort(key=lambda pod: pod.importance)
    certain = not _tied(victims, spared, lower, budgets)
    return Eviction(tuple(victims), sum(pod in violating for pod in victims), certain)


def may_evict(incoming: IncomingPod, pod: PlacedPod) -> bool:
    """Source: ``defaultpreemption/default_preemption.go``, isPreemptionAllowed."""
    return pod.priority < incoming.pod.priority


def _violating(pods: Sequence[PlacedPod], budgets: Sequence[Budget]) -> list[PlacedPod]:
    """Return the pods whose eviction a budget does not allow.

    :param pods: evicted in this order, the most important first.
    """
    allowed = [budget.allowed for budget in budgets]
    result = []
    for pod in pods:
        violated = False
        for index, budget in enumerate(budgets):
            if budget.covers(pod):
                allowed[index] -= 1
                violated = violated or allowed[index] < 0
        if violated:
            result.append(pod)
    return result


def _tied(
    victims: Sequence[PlacedPod], spared: Sequence[PlacedPod], lower: Sequence[PlacedPod], budgets: Sequence[Budget]
) -> bool:
    """Return True if the scheduler's order among equally important pods may have decided."""
    ranks = {pod.importance for pod in spared}
    if any(pod.importance in ranks for pod in victims):
        return True
    if not budgets:
        return False
    covered = Counter(pod.importance for pod in lower if any(budget.covers(pod) for budget in budgets))
    return any(number > 1 for number in covered.values())


def is_search_sampled(nodes: int) -> bool:
    """Return True if the scheduler examines only some of so many candidate nodes, starting at a random one.

    Source: ``defaultpreemption/default_preemption.go``, calculateNumCandidates: 10 %, at least 100.
    """
    return nodes > _MINIMUM_CANDIDATES
