"""Where a pod that has no room makes some: the node on which evicting others costs least.

Source: Kubernetes 1.36, ``pkg/scheduler/framework/preemption/preemption.go``, DryRunPreemption, SelectCandidate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
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
    """What making room for pods alike costs: by place, and the places in order, as of when so much had happened.

    ``shared`` are the costs found in any run.
    """

    def __init__(self, shared: dict[object, Candidate | None], found: dict[int, Candidate]) -> None:
        self.shared = shared
        self.found = dict(found)
        self.places = sorted(found)
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
            shared = self._arena.candidates(shape)
            turn = (
                (place, self._candidate(shape, place, entry, shared)) for place in (*places[start:], *places[:start])
            )
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
            (place, self._candidate(shape, place, entry, known.shared) if place == promised else known.found[place])
            for place in ahead
        )

    def _up_to_date(self, shape: Shape) -> _Known:
        """What is known for pods of which amounts tell, as of now: only where something happened it is looked anew."""
        nodes, standing = self._nodes, shape.standing
        known = self._known.get(standing)
        if known is None:
            if standing not in self._arena.first_candidates:
                self._arena.first_candidates[standing] = self._found_first(shape)
            known = self._known[standing] = _Known(
                self._arena.candidates(shape), self._arena.first_candidates[standing]
            )
        if known.since < nodes.changes:
            hopeful, left, changed = self._arena.hopeful(shape), nodes.left, nodes.changed_since(known.since)
            worth = (place for place in changed if place in hopeful or (place in left and place in shape.open_to))
            self._look(shape, known, worth)
            known.since = nodes.changes
        return known

    def _found_first(self, shape: Shape) -> dict[int, Candidate]:
        """What every run begins with."""
        known = _Known(self._arena.candidates(shape), {})
        untouched = VictimSearch(self._arena, SimulatedNodes(self._arena), self._draws)
        untouched._look(shape, known, self._arena.hopeful(shape))
        return known.found

    def _look(self, shape: Shape, known: _Known, places: Iterable[int]) -> None:
        """Look anew at some nodes."""
        found, same = known.found, True
        for place in places:
            one = self._candidate(shape, place, None, known.shared)
            same = same and (place in found) == (one is not None)
            if one is not None:
                found[place] = one
            else:
                found.pop(place, None)
        if not same:
            known.places = sorted(found)

    def _candidate(
        self, shape: Shape, place: int, entry: QueuedPod | None, known: dict[object, Candidate | None]
    ) -> Candidate | None:
        """What making room on a node costs.

        :param known: the costs found in any run.
        """
        nodes = self._nodes
        if not nodes.is_as_shared(shape, place):
            return self._fresh(shape, place, entry)
        more = nodes.kept_for(shape, place, entry) if place in nodes.promised else ()
        # All are kept by the arena, so that their ids stay theirs; pods alike have one dict of requests.
        kept = tuple(sorted(id(pod.requests) for pod in more)) if more else ()
        key = id(nodes.residents[place]), id(nodes.states[place]), kept
        if key in known:
            return known[key]
        if shape.simple:
            found = _candidate_of(self._by_amounts(shape, nodes.residents[place], nodes.states[place], more))
        else:
            found = self._fresh(shape, place, entry)
        known[key] = found
        return found

    def _fresh(self, shape: Shape, place: int, entry: QueuedPod | None) -> Candidate | None:
        return _candidate_of(self._eviction(shape, place, entry))

    def _by_amounts(
        self, shape: Shape, residents: Seat, state: LeftAmounts, more: Sequence[PlacedPod]
    ) -> Eviction | None:
        """The eviction from a node of which amounts tell, and where all may be evicted that were there before."""
        lower = residents.below(shape.priority)
        if lower is None:
            return None
        free = state.free
        for name, amount in shape.size.wanted:
            if amount > free.get(name, 0) + lower.get(name, 0):
                return None
        pods = residents.ranked_below(shape.priority)
        left = {name: free.get(name, 0) + lower.get(name, 0) - amount for name, amount in shape.size.wanted}
        left["pods"] = free["pods"] + len(pods) - 1 - len(more)
        for pod in more:
            for name, _ in shape.size.wanted:
                left[name] -= pod.requests.get(name, 0)
        if min(left.values()) < 0:
            return None
        names = [name for name in left if name != "pods"]

        def spare(pod: PlacedPod) -> bool:
            asked = pod.requests
            if left["pods"] < 1:
                return False
            for name in names:
                if asked.get(name, 0) > left[name]:
                    return False
            for name in names:
                left[name] -= asked.get(name, 0)
            left["pods"] -= 1
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
