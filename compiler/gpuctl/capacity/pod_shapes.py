"""Pods that are alike to the scheduler, and what no placing of others changes for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuctl.capacity.scheduling import NO_CENSUS, Pair, census, rules_of_nodes
from gpuctl.capacity.scoring import Spreading, liking, node_preference, taint_counts
from gpuctl.capacity.seats import Incoming, PlacedPod, Seat


class Shape:
    """Pods alike. ``nodes`` are the numbers of those that suit them when all others have left.

    ``alone``: each node is judged by itself. ``simple``: by its cpu, memory and other amounts. ``minds``: other pods
    decide which of the nodes with room are better. ``is_ranked``: something besides amounts does.
    ``wishing`` are the nodes with pods that mind others, ``others`` such pods among those that come.
    """

    def __init__(
        self, incoming: Incoming, seats: Sequence[Seat], wishing: Sequence[Seat], others: Iterable[PlacedPod]
    ) -> None:
        self.incoming = incoming
        pod = incoming.pod
        self.priority = pod.priority
        rules = rules_of_nodes()
        self.nodes = [
            index
            for index, seat in enumerate(seats)
            if all(rule.holds(incoming, Seat(seat.node), NO_CENSUS) for rule in rules)
        ]
        others = list(others)
        minding = seats if incoming.has_neighbours else wishing
        self.counted = census(incoming, minding)
        repelled = bool(self.counted.repelled) or any(
            term.matches(pod) for other in others for term in other.anti_affinity
        )
        self.alone = not incoming.has_neighbours and not repelled
        self.simple = self.alone and not pod.ports and not pod.volumes
        self.liked: Counter[Pair] = liking(incoming, seats if pod.preferences else wishing)
        self.likes = bool(
            self.liked or pod.preferences or any(term.matches(pod) for other in others for _, term in other.liked)
        )
        self.minds = self.likes or bool(incoming.soft_spread)
        self.spreading = Spreading(incoming, seats) if incoming.soft_spread else None
        self.taints = {index: taint_counts(incoming, seats[index].node) for index in self.nodes}
        self.preferred = {index: node_preference(incoming, seats[index].node) for index in self.nodes}
        self.is_ranked = self.minds or len(set(self.taints.values())) > 1 or len(set(self.preferred.values())) > 1
        # What is scarce first: most nodes without room are told by it.
        self.wanted = sorted(pod.requests.items(), key=lambda item: "/" not in item[0])
        self.cpu, self.memory = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)

    def has_amounts(self, seat: Seat) -> bool:
        """Whether a node has all amounts left. Source: ``noderesources/fit.go``, fitsRequest."""
        has, used = seat.node.allocatable, seat.used
        if len(seat.pods) >= has.get("pods", 0):
            return False
        return all(amount <= has.get(name, 0) - used.get(name, 0) for name, amount in self.wanted)


def shape_key(incoming: Incoming) -> object:
    """Equal for pods that no rule tells apart."""
    pod = incoming.pod
    return (
        frozenset(pod.requests.items()),
        pod.scored,
        pod.priority,
        incoming.preempts,
        frozenset(incoming.node_selector.items()),
        str(incoming.node_terms),
        str(incoming.tolerations),
        str(incoming.preferred_nodes),
        pod.ports,
        pod.volumes,
        (pod.namespace, frozenset(pod.labels.items()), str(incoming.terms)) if incoming.terms else None,
    )
