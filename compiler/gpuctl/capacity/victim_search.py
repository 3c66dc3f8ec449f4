"""Where a pod that has no room makes some: the node on which evicting others costs least.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/preemption/preemption.go``, DryRunPreemption, SelectCandidate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from gpuctl.capacity.arena import Arena, Candidate, QueuedPod
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.node_states import LeftAmounts
from gpuctl.capacity.pod_shapes import Shape
from gpuctl.capacity.preemption import Eviction, candidates_looked_for, eviction, sparing
from gpuctl.capacity.scheduling import obstacle
from gpuctl.capacity.seats import PlacedPod, Seat
from gpuctl.capacity.simulated_nodes import SimulatedNodes


class VictimSearch:
    """The search in one run."""

    def __init__(self, arena: Arena, nodes: SimulatedNodes, draws: Draws) -> None:
        self._arena = arena
        self._nodes = nodes
        self._draws = draws

    def best(self, shape: Shape, entry: QueuedPod) -> tuple[int, Eviction] | None:
        """The node, and whom it loses; None where evicting does not help anywhere."""
        places = shape.nodes if shape.simple else self._resolvable(shape)
        if not places:
            return None
        start, most = self._draws.below(len(places)), candidates_looked_for(len(places))
        hopeful = self._hopeful(shape) if shape.simple else places
        first = bisect_left(hopeful, places[start])
        found: list[tuple[int, Candidate]] = []
        spares = False
        for place in (*hopeful[first:], *hopeful[:first]):
            one = self._candidate(shape, place, entry)
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

    def _hopeful(self, shape: Shape) -> list[int]:
        """The nodes where there may be a candidate."""
        hopeful, left = self._arena.hopeful(shape), self._nodes.left
        return sorted({*hopeful, *(left & shape.open_to)}) if left else hopeful

    def _candidate(self, shape: Shape, place: int, entry: QueuedPod) -> Candidate | None:
        nodes, known = self._nodes, self._arena.candidates
        if not nodes.is_as_shared(shape, place):
            return self._fresh(shape, place, entry)
        more = nodes.kept_for(shape, place, entry)
        # All are kept by the arena, so that their ids stay theirs; pods alike have one dict of requests.
        kept = tuple(sorted(id(pod.requests) for pod in more))
        key = id(shape), id(nodes.residents[place]), id(nodes.states[place]), kept
        if key not in known:
            if shape.simple:
                known[key] = _candidate_of(self._by_amounts(shape, nodes.residents[place], nodes.states[place], more))
            else:
                known[key] = self._fresh(shape, place, entry)
        return known[key]

    def _fresh(self, shape: Shape, place: int, entry: QueuedPod) -> Candidate | None:
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

    def _eviction(self, shape: Shape, place: int, entry: QueuedPod) -> Eviction | None:
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
