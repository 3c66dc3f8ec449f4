"""The scores by which kube-scheduler ranks feasible nodes.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins`` (the file is named at each score). Not modelled, because
they rarely decide whether a job starts: image locality, soft topology spreading, preferred pod affinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo, PlacedPod, SchedulableNode
from gpuctl.capacity.scheduler.scheduling import matches_node_term
from gpuctl.objects.selectors import tolerates

MAX_SCORE = 100
"""Highest score that a plugin gives a node (``framework/interface.go``, MaxNodeScore)."""
_TAINTS, _AFFINITY = 3, 2
"""Weights of the TaintToleration and NodeAffinity plugins; the other modelled plugins weigh 1. Source:
``apis/config/v1/default_plugins.go``.
"""
_SOFT = "PreferNoSchedule"


def resource_score(pod: PlacedPod, node_info: NodeInfo) -> int:
    """Return the resource score of a node for a pod (cpu and memory), at least 1."""
    has, used = node_info.node.allocatable, node_info.used
    capacity = has.get("cpu", 0), has.get("memory", 0)
    scored = node_info.scored[0] + pod.scored[0], node_info.scored[1] + pod.scored[1]
    score = 1 + least_allocated(scored, capacity)
    before = used.get("cpu", 0), used.get("memory", 0)
    own = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
    if any(own):
        after = before[0] + own[0], before[1] + own[1]
        score += balance_score(resource_evenness(before, capacity), resource_evenness(after, capacity))
    return score


class NodeRanks:
    """Scores of nodes for a pod by PreferNoSchedule taints and preferred labels, without the resource score."""

    def __init__(self, incoming: IncomingPod, nodes: Sequence[SchedulableNode], places: Sequence[int]) -> None:
        taints = [avoided_taints(incoming, node) if node.taints else 0 for node in nodes]
        preferred = [node_preference(incoming, node) for node in nodes] if incoming.preferred_nodes else []
        self._taints = dict(zip(places, taints, strict=True)) if any(taints) else {}
        self._preferred = dict(zip(places, preferred, strict=True)) if any(preferred) else {}

    def best(self, scores: Mapping[int, int], *, last: bool = False) -> int:
        """Return the best node.

        :param scores: node -> resource score.
        :param last: among equal nodes, return the last one instead of the first.
        """
        places = sorted(scores, reverse=last)
        if not (self._taints or self._preferred):
            return max(places, key=scores.__getitem__)
        total = [scores[place] for place in places]
        for ranks, weight, reverse in ((self._taints, _TAINTS, True), (self._preferred, _AFFINITY, False)):
            if ranks:
                own = normalised_scores([ranks[place] for place in places], reverse=reverse)
                total = [score + weight * more for score, more in zip(total, own, strict=True)]
        return places[total.index(max(total))]


def least_allocated(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    """Return the mean free share of cpu and memory, 0 to 100. Source: ``noderesources/least_allocated.go``,
    leastResourceScorer.
    """
    (cores, space), (all_cores, all_space) = requested, capacity
    total = weight = 0
    if all_cores:
        weight = 1
        if cores <= all_cores:
            total = (all_cores - cores) * MAX_SCORE // all_cores
    if all_space:
        weight += 1
        if space <= all_space:
            total += (all_space - space) * MAX_SCORE // all_space
    return total // weight if weight else 0


def balance_score(before: int, after: int) -> int:
    """Return the score for how a pod changes the balance of cpu and memory use on a node.

    :param before: the evenness without the pod.
    :param after: the evenness with the pod.

    Source: ``noderesources/balanced_allocation.go``, balancedResourceScorer.
    """
    # Go's division truncates; the sum is never negative, so ``//`` is the same.
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2


def resource_evenness(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    """Return how evenly cpu and memory are used, 0 to 100. Source: ``noderesources/balanced_allocation.go``,
    balancedResourceScore.
    """
    if not (capacity[0] and capacity[1]):
        return MAX_SCORE
    cpu, memory = requested[0] / capacity[0], requested[1] / capacity[1]
    return int((1 - abs(((cpu if cpu < 1 else 1.0) - (memory if memory < 1 else 1.0)) / 2)) * MAX_SCORE)


def avoided_taints(incoming: IncomingPod, node: SchedulableNode) -> int:
    """Count the PreferNoSchedule taints that a pod does not tolerate. Source: ``tainttoleration/taint_toleration.go``,
    Score.
    """
    own = [item for item in incoming.tolerations if not item.get("effect") or item["effect"] == _SOFT]
    soft = (taint for taint in node.taints if taint.get("effect") == _SOFT)
    return sum(not any(tolerates(item, taint) for item in own) for taint in soft)


def node_preference(incoming: IncomingPod, node: SchedulableNode) -> int:
    """Sum the weights of the preferred terms that a node matches. Source: ``nodeaffinity/node_affinity.go``, Score."""
    return sum(weight for weight, term in incoming.preferred_nodes if matches_node_term(term, node))


def normalised_scores(scores: Sequence[int], *, reverse: bool) -> list[int]:
    """Source: ``helper/normalize_score.go``, DefaultNormalizeScore."""
    highest = max(scores, default=0)
    if not highest:
        return [MAX_SCORE if reverse else score for score in scores]
    shares = (MAX_SCORE * score // highest for score in scores)
    return [MAX_SCORE - share for share in shares] if reverse else list(shares)
