"""Pods that are alike to the scheduler, and what no placing of others changes for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuctl.capacity.node_states import Size
from gpuctl.capacity.scheduling import NO_CENSUS, Pair, SchedulingRule, census, rules_of_nodes
from gpuctl.capacity.scoring import Spreading, liking, node_preference, taint_counts
from gpuctl.capacity.seats import Incoming, PlacedPod, Seat

_SELECTING = ("node-selector", "node-affinity", "volumes")
_AMOUNTS = ("pods", "resources")


class Landscape:
    """Nodes without their pods: which of them suit pods, worked out once for all that select the same ones."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = [Seat(seat.node) for seat in seats]
        rules = rules_of_nodes()
        self._by_amounts = [rule for rule in rules if rule.name in _AMOUNTS]
        self._others = [rule for rule in rules if rule.name not in _AMOUNTS]
        # One node of each kind, by what there is on it: amounts do not tell the others from it.
        alike: dict[object, int] = {}
        self._alike = [
            alike.setdefault(frozenset(seat.node.allocatable.items()), number)
            for number, seat in enumerate(self._seats)
        ]
        self._suiting: dict[object, list[int]] = {}
        self._open: dict[object, list[int]] = {}

    def open_to(self, incoming: Incoming) -> list[int]:
        """The numbers of the nodes that suit a pod, and are large enough for it."""
        selection = *selection_of(incoming), str(incoming.tolerations)
        key = *selection, frozenset(incoming.pod.requests.items())
        if selection not in self._suiting:
            self._suiting[selection] = self._kept(incoming, self._others, range(len(self._seats)))
        if key not in self._open:
            large = set(self._kept(incoming, self._by_amounts, set(self._alike)))
            self._open[key] = [index for index in self._suiting[selection] if self._alike[index] in large]
        return self._open[key]

    def selected_by(self, incoming: Incoming) -> list[int]:
        """The numbers of the nodes that a pod selects, whatever keeps it from them."""
        key = selection_of(incoming)
        if key not in self._open:
            rules = [rule for rule in self._others if rule.name in _SELECTING]
            self._open[key] = self._kept(incoming, rules, range(len(self._seats)))
        return self._open[key]

    def _kept(self, incoming: Incoming, rules: Sequence[SchedulingRule], numbers: Iterable[int]) -> list[int]:
        seats = self._seats
        return [index for index in numbers if all(rule.holds(incoming, seats[index], NO_CENSUS) for rule in rules)]


Standing = tuple[Size, int, int, bool]
"""Equal for pods that amounts do not tell apart: of one size and priority, with the same nodes."""


class Shape:
    """Pods alike. ``nodes`` are the numbers of those that suit them when all others have left.

    ``alone``: each node is judged by itself. ``simple``: by its cpu, memory and other amounts. ``minds``: other pods
    decide which of the nodes with room are better. ``is_ranked``: something besides amounts does.
    ``wishing`` are the nodes with pods that mind others, ``others`` such pods among those that come.
    """

    def __init__(
        self,
        incoming: Incoming,
        size: Size,
        seats: Sequence[Seat],
        landscape: Landscape,
        wishing: Sequence[Seat],
        others: Iterable[PlacedPod],
    ) -> None:
        self.incoming = incoming
        self.size = size
        pod = incoming.pod
        self.priority = pod.priority
        self.nodes = landscape.open_to(incoming)
        self.open_to = frozenset(self.nodes)
        others = list(others)
        minding = seats if incoming.has_neighbours else wishing
        self.counted = census(incoming, minding)
        repelled = bool(self.counted.repelled) or any(
            term.matches(pod) for other in others for term in other.anti_affinity
        )
        self.alone = not incoming.has_neighbours and not repelled
        self.simple = self.alone and not pod.ports and not pod.volumes
        # The list of nodes is the landscape's: equal ones are the same.
        self.standing: Standing = size, self.priority, id(self.nodes), self.simple
        self.liked: Counter[Pair] = liking(incoming, seats if pod.preferences else wishing)
        self.likes = bool(
            self.liked or pod.preferences or any(term.matches(pod) for other in others for _, term in other.liked)
        )
        self.minds = self.likes or bool(incoming.soft_spread)
        self.spreading = Spreading(incoming, seats) if incoming.soft_spread else None
        self.taints = {
            index: taint_counts(incoming, seats[index].node) if seats[index].node.taints else 0 for index in self.nodes
        }
        self.preferred = (
            {index: node_preference(incoming, seats[index].node) for index in self.nodes}
            if incoming.preferred_nodes
            else dict.fromkeys(self.nodes, 0)
        )
        self.is_ranked = self.minds or len(set(self.taints.values())) > 1 or len(set(self.preferred.values())) > 1
        self.kinds = self._kinds(seats, others) if self.is_ranked else []
        self.kinds_in_all = len(set(self.kinds))

    def _kinds(self, seats: Sequence[Seat], others: Iterable[PlacedPod]) -> list[int]:
        """A number for each node: equal where what ranks nodes besides amounts, and pods on one node, is equal."""
        pod = self.incoming.pod
        topologies = {topology for topology, _ in self.liked}
        topologies.update(term.topology for _, term in pod.preferences)
        topologies.update(term.topology for other in others for _, term in other.liked if term.matches(pod))
        numbers: dict[object, int] = {}
        result = [0] * len(seats)
        for place in self.nodes:
            near = tuple(seats[place].node.labels.get(topology) for topology in topologies)
            spread = self.spreading.kind(place) if self.spreading else None
            key = self.taints[place], self.preferred[place], spread, near
            result[place] = numbers.setdefault(key, len(numbers))
        return result

    def minds_pod(self, pod: PlacedPod) -> bool:
        """Whether it matters where a pod is, beside the room that it takes."""
        own = self.incoming
        return any(term.matches(pod) for term in own.terms) or any(term.matches(own.pod) for term in pod.terms)

    def has_amounts(self, seat: Seat, more: Sequence[PlacedPod] = ()) -> bool:
        """Whether a node has all amounts left, beside other pods. Source: ``noderesources/fit.go``, fitsRequest."""
        has, used = seat.node.allocatable, seat.used
        if len(seat.pods) + len(more) >= has.get("pods", 0):
            return False
        for name, amount in self.size.wanted:
            for pod in more:
                amount += pod.requests.get(name, 0)
            if amount > has.get(name, 0) - used.get(name, 0):
                return False
        return True

    def may_evict(self, seat: Seat, *, anybody: bool = True) -> bool:
        """Whether a pod has room when all that it may evict has left, as far as amounts tell.

        :param anybody: only where there is anybody to evict.
        """
        lower = seat.below(self.priority)
        if lower is None:
            if anybody:
                return False
            lower = {}
        has, used = seat.node.allocatable, seat.used
        free = (
            (amount, has.get(name, 0) - used.get(name, 0) + lower.get(name, 0)) for name, amount in self.size.wanted
        )
        return all(amount <= left for amount, left in free)


def selection_of(incoming: Incoming) -> tuple[object, ...]:
    """Equal for pods that select the same nodes."""
    return (
        frozenset(incoming.node_selector.items()),
        str(incoming.node_terms),
        str(incoming.volume_terms),
        incoming.volume_nodes,
    )


def shape_key(incoming: Incoming) -> object:
    """Equal for pods that no rule tells apart."""
    pod = incoming.pod
    return (
        frozenset(pod.requests.items()),
        pod.scored,
        pod.priority,
        incoming.preempts,
        *selection_of(incoming),
        str(incoming.tolerations),
        str(incoming.preferred_nodes),
        pod.ports,
        pod.volumes,
        (pod.namespace, frozenset(pod.labels.items()), str(incoming.terms)) if incoming.terms else None,
    )
