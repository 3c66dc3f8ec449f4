"""The scores by which kube-scheduler ranks the nodes that are feasible for a pod.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins`` (named at each score). Left out are scores that hardly ever
decide whether a job starts: of images, of soft spreading, and of preferred neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuctl.capacity.scheduler_model import IncomingPod, NodeInfo, PlacedPod, SchedulableNode
from gpuctl.capacity.scheduling import matches_node_term
from gpuctl.objects.selectors import tolerates

MAX_SCORE = 100
"""The best score of a plugin for a node (``framework/interface.go``, MaxNodeScore)."""
_TAINTS, _AFFINITY = 3, 2
"""The weights of two plugins; of the others it is 1. Source: ``apis/config/v1/default_plugins.go``."""
_SOFT = "PreferNoSchedule"


def resource_score(pod: PlacedPod, node_info: NodeInfo) -> int:
    """Return the score of a node by cpu and memory, at least 1."""
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
    """Ranks of nodes for a pod by taints to avoid and preferred labels, without amounts."""

    def __init__(self, incoming: IncomingPod, nodes: Sequence[SchedulableNode], places: Sequence[int]) -> None:
        taints = [avoided_taints(incoming, node) if node.taints else 0 for node in nodes]
        preferred = [node_preference(incoming, node) for node in nodes] if incoming.preferred_nodes else []
        self._taints = dict(zip(places, taints, strict=True)) if any(taints) else {}
        self._preferred = dict(zip(places, preferred, strict=True)) if any(preferred) else {}

    def best(self, scores: Mapping[int, int], *, last: bool = False) -> int:
        """Return the best of some nodes with their scores by amounts, the first of equals, or the last."""
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
    """What is left of cpu and memory, on average. Source: ``noderesources/least_allocated.go``, leastResourceScorer."""
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
    """The score by how evenly cpu and memory are used without the pod, and with it.

    Source: ``noderesources/balanced_allocation.go``, balancedResourceScorer.
    """
    # Go's division rounds towards zero; the sum is never negative.
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2


def resource_evenness(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    """How evenly cpu and memory are used. Source: ``noderesources/balanced_allocation.go``, balancedResourceScore."""
    if not (capacity[0] and capacity[1]):
        return MAX_SCORE
    cpu, memory = requested[0] / capacity[0], requested[1] / capacity[1]
    return int((1 - abs(((cpu if cpu < 1 else 1.0) - (memory if memory < 1 else 1.0)) / 2)) * MAX_SCORE)


def avoided_taints(incoming: IncomingPod, node: SchedulableNode) -> int:
    """The taints that a pod should avoid. Source: ``tainttoleration/taint_toleration.go``, Score."""
    own = [item for item in incoming.tolerations if not item.get("effect") or item["effect"] == _SOFT]
    soft = (taint for taint in node.taints if taint.get("effect") == _SOFT)
    return sum(not any(tolerates(item, taint) for item in own) for taint in soft)


def node_preference(incoming: IncomingPod, node: SchedulableNode) -> int:
    """The weights of preferences that a node meets. Source: ``nodeaffinity/node_affinity.go``, Score."""
    return sum(weight for weight, term in incoming.preferred_nodes if matches_node_term(term, node))


def normalised_scores(scores: Sequence[int], *, reverse: bool) -> list[int]:
    """Source: ``helper/normalize_score.go``, DefaultNormalizeScore."""
    highest = max(scores, default=0)
    if not highest:
        return [MAX_SCORE if reverse else score for score in scores]
    shares = (MAX_SCORE * score // highest for score in scores)
    return [MAX_SCORE - share for share in shares] if reverse else list(shares)
