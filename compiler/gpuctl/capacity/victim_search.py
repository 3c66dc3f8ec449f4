"""Where a pod that has no room makes some: the node on which evicting others costs least.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/preemption/preemption.go``, DryRunPreemption, SelectCandidate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial

from gpuctl.capacity.arena import Arena, Candidate, QueuedPod
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.node_states import LeftAmounts
from gpuctl.capacity.pod_shapes import Shape, Standing
from gpuctl.capacity.preemption import Eviction, candidates_looked_for, eviction, sparing
from gpuctl.capacity.scheduling import obstacle
from gpuctl.capacity.seats import PlacedPod, Seat
from gpuctl.capacity.simulated_nodes import SimulatedNodes


class _Known:
    """What making room for pods alike costs: by place, and the places in order, as of when so much had happened."""

    def __init__(self, hopeful: frozenset[int]) -> None:
        self.hopeful = hopeful
        self.found: dict[int, Candidate] = {}
        self.places: list[int] = []
        self.since = 0


class VictimSearch:
    """The search in one run."""

    def __init__(self, arena: Arena, nodes: SimulatedNodes, draws: Draws) -> None:
        self._arena = arena
        self._nodes = nodes
        self._draws = draws
        self._known: dict[Standing, _Known] = {}

    def best(self, shape: Shape, entry: QueuedPod, promised: int | None) -> tuple[int, Eviction] | None:
        """The node, and whom it loses; None where evicting does not help anywhere.

        :param promised: the node that is promised to the pod already.
        """
        places = shape.nodes if shape.simple else self._resolvable(shape)
        if not places:
            return None
        start, most = self._draws.below(len(places)), candidates_looked_for(len(places))
        if shape.simple:
            turn = self._in_turn(shape, entry, promised, places[start])
        else:
            turn = ((place, self._candidate(shape, place, entry)) for place in (*places[start:], *places[:start]))
        found: list[tuple[int, Candidate]] = []
        spares = False
        for place, one in turn:
            if one is not None:
                found.append((place, one))
                spares = spares or not one.eviction.violations
                if len(found) >= most and spares:
                    break
        if not found:
            return None
        least = min(item.cost for _, item in found)
        place, chosen = self._draws.one_of([item for item in found if item[1].cost == least])
        return place, chosen.eviction

    def _resolvable(self, shape: Shape) -> list[int]:
        """The nodes of which no rule says that evicting would not help."""
        census, nodes = self._nodes.census(shape), self._nodes
        rules = ((place, obstacle(shape.incoming, nodes.seat(place), census)) for place in shape.nodes)
        return [place for place, rule in rules if rule is None or rule.resolvable]

    def _in_turn(
        self, shape: Shape, entry: QueuedPod, promised: int | None, start: int
    ) -> Iterator[tuple[int, Candidate | None]]:
        """The nodes where evicting helps a pod of which amounts tell, from a place on."""
        known = self._up_to_date(shape)
        first = bisect_left(known.places, start)
        places = (*known.places[first:], *known.places[:first])
        if promised is None:
            return ((place, known.found[place]) for place in places)
        # There nobody has to leave room for itself.
        ahead = sorted({*places, promised}, key=lambda place: (place < start, place))
        return (
            (place, self._candidate(shape, place, entry) if place == promised else known.found[place])
            for place in ahead
        )

    def _up_to_date(self, shape: Shape) -> _Known:
        """What is known for pods of which amounts tell, as of now: only where something happened it is looked anew."""
        nodes = self._nodes
        known = self._known.get(shape.standing)
        if known is None:
            known = self._known[shape.standing] = _Known(self._arena.hopeful(shape))
            changed = known.hopeful | (nodes.left & shape.open_to)
        elif known.since < nodes.changes:
            changed = shape.open_to.intersection(nodes.changed_since(known.since))
            changed &= known.hopeful | nodes.left
        else:
            return known
        found = known.found
        for place in changed:
            one = self._candidate(shape, place, None)
            if one is not None:
                found[place] = one
            else:
                found.pop(place, None)
        known.places = sorted(found)
        known.since = nodes.changes
        return known

    def _candidate(self, shape: Shape, place: int, entry: QueuedPod | None) -> Candidate | None:
        nodes = self._nodes
        if not nodes.is_as_shared(shape, place):
            return self._fresh(shape, place, entry)
        known = self._arena.candidates(shape)
        more = nodes.kept_for(shape, place, entry) if place in nodes.promised else ()
        # All are kept by the arena, so that their ids stay theirs; pods alike have one dict of requests.
        kept = tuple(sorted(id(pod.requests) for pod in more)) if more else ()
        key = id(nodes.residents[place]), id(nodes.states[place]), kept
        if key not in known:
            if shape.simple:
                known[key] = _candidate_of(self._by_amounts(shape, nodes.residents[place], nodes.states[place], more))
            else:
                known[key] = self._fresh(shape, place, entry)
        return known[key]

    def _fresh(self, shape: Shape, place: int, entry: QueuedPod | None) -> Candidate | None:
        return _candidate_of(self._eviction(shape, place, entry))

    def _by_amounts(
        self, shape: Shape, residents: Seat, state: LeftAmounts, more: Sequence[PlacedPod]
    ) -> Eviction | None:
        """The eviction from a node of which amounts tell, and where all may be evicted that were there before."""
        lower = residents.below(shape.priority)
        if lower is None:
            return None
        pods = residents.ranked_below(shape.priority)
        left = {name: state.free.get(name, 0) + lower.get(name, 0) - amount for name, amount in shape.size.wanted}
        left["pods"] = state.free["pods"] + len(pods) - 1 - len(more)
        for pod in more:
            for name, _ in shape.size.wanted:
                left[name] -= pod.requests.get(name, 0)
        if any(amount < 0 for amount in left.values()):
            return None

        def spare(pod: PlacedPod) -> bool:
            takes = {name: pod.requests.get(name, 0) for name in left}
            takes["pods"] = 1
            if any(amount > left[name] for name, amount in takes.items()):
                return False
            for name, amount in takes.items():
                left[name] -= amount
            return True

        return sparing(pods, spare, self._arena.budgets)

    def _eviction(self, shape: Shape, place: int, entry: QueuedPod | None) -> Eviction | None:
        nodes, seat, budgets = self._nodes, self._nodes.seat(place), self._arena.budgets
        if not shape.may_evict(seat):
            return None
        more = nodes.kept_for(shape, place, entry)
        if shape.simple:
            return eviction(shape.incoming, seat, partial(shape.has_amounts, more=more), budgets)
        census = nodes.census(shape)

        def fits(changed: Seat) -> bool:
            full = Seat(changed.node, changed.pods + more) if more else changed
            return all(
                obstacle(shape.incoming, one, nodes.recounted(shape, census, seat, one)) is None
                for one in ((full, changed) if more else (changed,))
            )

        return eviction(shape.incoming, seat, fits, budgets)


def _candidate_of(found: Eviction | None) -> Candidate | None:
    return None if found is None else Candidate(found, found.cost)
