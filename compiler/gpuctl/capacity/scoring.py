"""How kube-scheduler ranks the nodes that a pod may go to: the default plugins, with their weights.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins`` (named at each score). ImageLocality is left out: which
images nodes have is not part of a snapshot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from gpuctl.capacity.scheduling import Pair, in_term, is_counted, is_spread
from gpuctl.capacity.seats import HOST_NAME, Incoming, PlacedPod, SchedulableNode, Seat, Spread
from gpuctl.capacity.selectors import tolerates

MOST = 100
"""The best score of a plugin for a node (``framework/interface.go``, MaxNodeScore)."""
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
"""Of the others it is 1. Source: ``apis/config/v1/default_plugins.go``."""
_SOFT = "PreferNoSchedule"
_LEAST_LOOKED_FOR, _LEAST_PERCENTAGE = 100, 5


def least_allocated(cpu: tuple[int, int], memory: tuple[int, int]) -> int:
    """What is left of cpu and memory, on average; each as what would be requested, and what there is.

    Source: ``noderesources/least_allocated.go``, leastResourceScorer.
    """
    total = weight = 0
    for requested, capacity in (cpu, memory):
        if capacity:
            weight += 1
            if requested <= capacity:
                total += (capacity - requested) * MOST // capacity
    return total // weight if weight else 0


def balanced_allocation(before: tuple[int, int], after: tuple[int, int], capacity: tuple[int, int]) -> int:
    """Whether cpu and memory are used more evenly with the pod than without.

    Source: ``noderesources/balanced_allocation.go``, balancedResourceScorer.
    """
    with_pod, without = _balance(after, capacity), _balance(before, capacity)
    # Go's division rounds towards zero; the sum is never negative.
    return MOST // 2 + (MOST // 2 + with_pod - without) // 2


def _balance(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    if not (capacity[0] and capacity[1]):
        return MOST
    cpu, memory = min(1.0, requested[0] / capacity[0]), min(1.0, requested[1] / capacity[1])
    return int((1 - abs((cpu - memory) / 2)) * float(MOST))


def resource_score(pod: PlacedPod, seat: Seat) -> int:
    """NodeResourcesFit and NodeResourcesBalancedAllocation of a node for a pod."""
    has, used = seat.node.allocatable, seat.used
    capacity = has.get("cpu", 0), has.get("memory", 0)
    counted = [sum(other.scored[side] for other in seat.pods) + pod.scored[side] for side in (0, 1)]
    score = least_allocated((counted[0], capacity[0]), (counted[1], capacity[1]))
    own = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
    if any(own):
        before = used.get("cpu", 0), used.get("memory", 0)
        score += balanced_allocation(before, (before[0] + own[0], before[1] + own[1]), capacity)
    return score


def taint_counts(incoming: Incoming, node: SchedulableNode) -> int:
    """The taints that a pod should avoid. Source: ``tainttoleration/taint_toleration.go``, Score."""
    own = [item for item in incoming.tolerations if not item.get("effect") or item["effect"] == _SOFT]
    soft = (taint for taint in node.taints if taint.get("effect") == _SOFT)
    return sum(not any(tolerates(item, taint) for item in own) for taint in soft)


def node_preference(incoming: Incoming, node: SchedulableNode) -> int:
    """The weights of preferences that a node meets. Source: ``nodeaffinity/node_affinity.go``, Score."""
    return sum(weight for weight, term in incoming.preferred_nodes if in_term(term, node))


def normalised(scores: Sequence[int], *, reverse: bool) -> list[int]:
    """Source: ``helper/normalize_score.go``, DefaultNormalizeScore."""
    highest = max(scores, default=0)
    if not highest:
        return [MOST if reverse else score for score in scores]
    shares = (MOST * score // highest for score in scores)
    return [MOST - share for share in shares] if reverse else list(shares)


def spread_scores(incoming: Incoming, nodes: Sequence[Seat], everywhere: Sequence[Seat]) -> list[int]:
    """How evenly pods would be spread, by node.

    Source: ``podtopologyspread/scoring.go``, PreScore, Score and NormalizeScore.
    """
    rules = incoming.soft_spread
    ignored = [
        not incoming.spreads_by_default and any(rule.topology not in seat.node.labels for rule in rules)
        for seat in nodes
    ]
    counts = [_domains(incoming, rule, nodes, ignored, everywhere) for rule in rules]
    present = len(nodes) - sum(ignored)
    weights = [
        math.log((present if rule.topology == HOST_NAME else len(found)) + 2)
        for rule, found in zip(rules, counts, strict=True)
    ]
    raw = []
    for seat in nodes:
        score = 0.0
        for rule, found, weight in zip(rules, counts, weights, strict=True):
            if rule.topology not in seat.node.labels:
                continue
            if rule.topology == HOST_NAME:
                number = sum(is_spread(rule, incoming, pod) for pod in seat.pods)
            else:
                number = found.get(seat.node.labels[rule.topology], 0)
            score += number * weight + (rule.most - 1)
        # Go rounds half away from zero.
        raw.append(math.floor(score + 0.5))
    return spread_normalised(raw, ignored)


def _domains(
    incoming: Incoming, rule: Spread, nodes: Sequence[Seat], ignored: Sequence[bool], everywhere: Sequence[Seat]
) -> dict[str, int]:
    """The pods of each domain that a node which is ranked is in."""
    if rule.topology == HOST_NAME:
        return {}
    found = {seat.node.labels.get(rule.topology, ""): 0 for seat, out in zip(nodes, ignored, strict=True) if not out}
    for seat in everywhere:
        labels = seat.node.labels
        if not incoming.spreads_by_default and any(other.topology not in labels for other in incoming.soft_spread):
            continue
        domain = labels.get(rule.topology, "")
        if domain in found and is_counted(rule, incoming, seat.node):
            found[domain] += sum(is_spread(rule, incoming, pod) for pod in seat.pods)
    return found


def spread_normalised(raw: Sequence[int], ignored: Sequence[bool]) -> list[int]:
    """Source: ``podtopologyspread/scoring.go``, NormalizeScore."""
    known = [score for score, out in zip(raw, ignored, strict=True) if not out]
    least, highest = min(known, default=0), max(known, default=0)
    result = []
    for score, out in zip(raw, ignored, strict=True):
        if out:
            result.append(0)
        else:
            result.append(MOST * (highest + least - score) // highest if highest else MOST)
    return result


def neighbour_scores(incoming: Incoming, nodes: Sequence[Seat], everywhere: Sequence[Seat]) -> list[int]:
    """How welcome a pod is near others, and they to it. Source: ``interpodaffinity/scoring.go``."""
    return neighbours_normalised(liking(incoming, everywhere), nodes)


def neighbours_normalised(liked: Counter[Pair], nodes: Sequence[Seat]) -> list[int]:
    """Source: ``interpodaffinity/scoring.go``, Score and NormalizeScore."""
    topologies = {topology for topology, _ in liked}
    raw = [
        sum(liked[topology, seat.node.labels[topology]] for topology in topologies if topology in seat.node.labels)
        for seat in nodes
    ]
    least, highest = min(raw, default=0), max(raw, default=0)
    if highest == least:
        return [0] * len(raw)
    return [int(float(MOST) * ((score - least) / (highest - least))) for score in raw]


def liking(incoming: Incoming, seats: Sequence[Seat]) -> Counter[Pair]:
    """The weights of domains. Source: ``interpodaffinity/scoring.go``, processExistingPod."""
    result: Counter[Pair] = Counter()
    for seat in seats:
        labels = seat.node.labels
        for pod in seat.pods:
            for weight, term in incoming.pod.preferences:
                # What it requires itself is no preference.
                if weight and term.topology in labels and term.matches(pod):
                    result[term.topology, labels[term.topology]] += weight
            for weight, term in pod.liked:
                if term.topology in labels and term.matches(incoming.pod):
                    result[term.topology, labels[term.topology]] += weight
    return result


def looked_for(nodes: int) -> int:
    """How many nodes with room the scheduler looks for in a cluster of so many, from one place on.

    Source: ``schedule_one.go``, numFeasibleNodesToFind.
    """
    if nodes < _LEAST_LOOKED_FOR:
        return nodes
    percentage = max(50 - nodes // 125, _LEAST_PERCENTAGE)
    return max(nodes * percentage // 100, _LEAST_LOOKED_FOR)
