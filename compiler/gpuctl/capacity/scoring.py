"""How kube-scheduler ranks the nodes that a pod may go to: the default plugins, with their weights.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/plugins`` (named at each score). ImageLocality is left out: which
images nodes have is not part of a snapshot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import compress

from gpuctl.capacity.scheduling import Pair, in_term, is_counted, is_spread
from gpuctl.capacity.seats import HOST_NAME, Incoming, PlacedPod, SchedulableNode, Seat
from gpuctl.objects.selectors import tolerates

MOST = 100
"""The best score of a plugin for a node (``framework/interface.go``, MaxNodeScore)."""
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
"""Of the others it is 1. Source: ``apis/config/v1/default_plugins.go``."""
_SOFT = "PreferNoSchedule"
_LEAST_LOOKED_FOR, _LEAST_PERCENTAGE = 100, 5


def least_allocated(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    """What is left of cpu and memory, on average. Source: ``noderesources/least_allocated.go``, leastResourceScorer."""
    (cores, space), (all_cores, all_space) = requested, capacity
    total = weight = 0
    if all_cores:
        weight = 1
        if cores <= all_cores:
            total = (all_cores - cores) * MOST // all_cores
    if all_space:
        weight += 1
        if space <= all_space:
            total += (all_space - space) * MOST // all_space
    return total // weight if weight else 0


def balance_gained(before: int, after: int) -> int:
    """The score by how evenly cpu and memory are used without the pod, and with it.

    Source: ``noderesources/balanced_allocation.go``, balancedResourceScorer.
    """
    # Go's division rounds towards zero; the sum is never negative.
    return MOST // 2 + (MOST // 2 + after - before) // 2


def evenness(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    """How evenly cpu and memory are used. Source: ``noderesources/balanced_allocation.go``, balancedResourceScore."""
    if not (capacity[0] and capacity[1]):
        return MOST
    cpu, memory = requested[0] / capacity[0], requested[1] / capacity[1]
    return int((1 - abs(((cpu if cpu < 1 else 1.0) - (memory if memory < 1 else 1.0)) / 2)) * MOST)


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


class Spreading:
    """The pods that the soft rules of a pod count, node by node, while pods come and go.

    Source: ``podtopologyspread/scoring.go``, PreScore, Score and NormalizeScore.
    """

    def __init__(self, incoming: Incoming, seats: Sequence[Seat]) -> None:
        self._incoming = incoming
        self._rules = incoming.soft_spread
        topologies = [rule.topology for rule in self._rules]
        self._ignored = [
            not incoming.spreads_by_default and any(name not in seat.node.labels for name in topologies)
            for seat in seats
        ]
        self._domains = [[seat.node.labels.get(name) for seat in seats] for name in topologies]
        self._by_domain = [
            [domain is None for domain in domains] if name == HOST_NAME else domains
            for name, domains in zip(topologies, self._domains, strict=True)
        ]
        honoured = [(rule.honour_affinity, rule.honour_taints) for rule in self._rules]
        counted = {
            honours: [
                not out and is_counted(rule, incoming, seat.node)
                for seat, out in zip(seats, self._ignored, strict=True)
            ]
            for honours, rule in zip(honoured, self._rules, strict=True)
        }
        self._counted = [counted[honours] for honours in honoured]
        self._here = [Counter[int]() for _ in self._rules]
        self._there = [Counter[str]() for _ in self._rules]
        for index, seat in enumerate(seats):
            if incoming.pod.namespace in seat.namespaces:
                self.count(index, seat.pods, 1)

    def copy(self) -> Spreading:
        """The same, to go on counting by itself."""
        result = copy(self)
        result._here = [Counter(counts) for counts in self._here]
        result._there = [Counter(counts) for counts in self._there]
        return result

    def count(self, index: int, pods: Iterable[PlacedPod], sign: int) -> None:
        """Pods that come to a node (1), or leave it (-1)."""
        own = [pod for pod in pods if pod.namespace == self._incoming.pod.namespace]
        if not own:
            return
        for number, rule in enumerate(self._rules):
            matching = sum(is_spread(rule, self._incoming, pod) for pod in own)
            if not matching:
                continue
            self._here[number][index] += sign * matching
            if self._counted[number][index]:
                self._there[number][self._domains[number][index] or ""] += sign * matching

    def kind(self, index: int) -> object:
        """Equal for nodes that no rule tells apart, but for the pods on one node."""
        return self._ignored[index], tuple(domains[index] for domains in self._by_domain)

    @property
    def marked(self) -> set[int]:
        """The nodes that pods on them tell from others of their kind."""
        by_node = (here for rule, here in zip(self._rules, self._here, strict=True) if rule.topology == HOST_NAME)
        return {index for here in by_node for index, number in here.items() if number}

    def scores(self, places: Sequence[int], among: bytearray | None = None) -> list[int]:
        """How evenly pods would be spread, by node.

        :param among: by place, 0 for nodes that are not looked at; each of the others is of a kind with one of these.
        """
        ignored = [self._ignored[index] for index in places]
        if among is None:
            present = len(places) - sum(ignored)
        else:
            present = len(among) - among.count(0)
            present -= sum(compress(self._ignored, among)) if any(ignored) else 0
        total = [0.0] * len(places)
        for rule, domains, here, there in zip(self._rules, self._domains, self._here, self._there, strict=True):
            own = [domains[index] for index in places]
            if rule.topology == HOST_NAME:
                size, counts = present, [here[index] if here else 0 for index in places]
            else:
                # Nodes without the label, which the scheduler's own rules do not ignore, are a domain, too.
                size = len({domain for domain, out in zip(own, ignored, strict=True) if not out})
                counts = [there[domain or ""] for domain in own]
            weight, skew = math.log(size + 2), rule.most - 1
            total = [
                score if domain is None else score + (count * weight + skew)
                for score, domain, count in zip(total, own, counts, strict=True)
            ]
        # Go rounds half away from zero.
        raw = [0 if out else math.floor(score + 0.5) for score, out in zip(total, ignored, strict=True)]
        return spread_normalised(raw, ignored)


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
