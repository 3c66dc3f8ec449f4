"""What a simulated run of the scheduler knows of nodes, step by step: the same as when it is worked out anew."""

from __future__ import annotations

import random

import pytest

from gpuctl.capacity.arena import Arena, QueuedPod
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.preemption import Eviction
from gpuctl.capacity.seats import Incoming, PlacedPod, SchedulableNode, Seat
from gpuctl.capacity.simulated_nodes import SimulatedNodes
from gpuctl.capacity.victim_search import VictimSearch

GPU = "nvidia.com/gpu"


def _pod(draw: random.Random, name: str, priority: int) -> PlacedPod:
    requests = {GPU: draw.choice((1, 2, 4)), "cpu": draw.choice((500, 2000)), "memory": draw.choice((1, 8)) << 30}
    scored = requests["cpu"], requests["memory"]
    return PlacedPod("team", name, {}, priority, requests, start=f"2026-01-{draw.randrange(10, 29)}", scored=scored)


def _arena(draw: random.Random) -> Arena:
    """Nodes with pods on them, a pod that is promised one, and jobs of several sizes and priorities."""
    seats = []
    for number in range(6):
        amounts = {"cpu": draw.choice((16_000, 32_000)), "memory": 64 << 30, "pods": 9, GPU: 8}
        node = SchedulableNode(f"node-{number}", amounts, {}, (), False, {}, frozenset())
        seats.append(Seat(node, tuple(_pod(draw, f"old-{number}-{own}", draw.choice((0, 5))) for own in range(3))))
    arena = Arena(seats, (), len(seats), [(0, _pod(draw, "promised", 5))])
    groups = [PodGroup(number, Incoming(_pod(draw, f"job-{number}", draw.choice((5, 10))))) for number in range(6)]
    arena.queue([[(group, 4)] for group in groups], ())
    return arena


class _Steps:
    """A run in which what a scheduler may do is done by chance."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.arena = _arena(self.draw)
        self.nodes = SimulatedNodes(self.arena)
        self.search = VictimSearch(self.arena, self.nodes, Draws(str(seed)))
        self.promised: dict[QueuedPod, int] = {}
        self.left = [entry for entries in self.arena.coming.values() for entry in entries]
        self.draw.shuffle(self.left)

    def step(self) -> None:
        entry, place = self.left[-1], self.draw.randrange(6)
        what = self.draw.choice(("bind", "bind", "promise", "forget", "leave"))
        if what == "bind" and self.nodes.fits(entry.shape, place, entry):
            self.nodes.bind(self.left.pop(), place)
        elif what == "promise":
            self.promised[entry] = place
            self.nodes.promise(self.left.pop(), place)
        elif what == "forget" and self.promised:
            self.nodes.forget(*self.promised.popitem())
        elif what == "leave" and self.nodes.seat(place).pods:
            self.nodes.leave(place, [self.draw.choice(self.nodes.seat(place).pods)])
            self.nodes.departed()

    def scores(self, entry: QueuedPod) -> list[int]:
        """The score of each node, by the pods that are there."""
        shape, nodes = entry.shape, self.nodes
        room = [shape.has_amounts(nodes.seat(place), nodes.kept_for(shape, place, None)) for place in range(6)]
        states = [self.arena.node_states.of(nodes.seat(place)) for place in range(6)]
        return [shape.size.scores[state] if has_room else 0 for state, has_room in zip(states, room, strict=True)]

    def cheapest(self, entry: QueuedPod) -> set[tuple[int, frozenset[str]]]:
        """The nodes where evicting costs least, with whom they lose, by the pods that are there."""
        found = {place: self.search._eviction(entry.shape, place, entry) for place in range(6)}
        evictions: dict[int, Eviction] = {place: one for place, one in found.items() if one is not None}
        least = min((one.cost for one in evictions.values()), default=None)
        return {(place, _names(one)) for place, one in evictions.items() if one.cost == least}


def _names(found: Eviction) -> frozenset[str]:
    return frozenset(pod.name for pod in found.victims)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_known_of_nodes_is_so(seed: int) -> None:
    steps = _Steps(seed)
    while len(steps.left) > 1:
        steps.step()
        # One that nobody has asked about for some time, too.
        entry = steps.draw.choice(steps.left)
        assert list(steps.nodes.row(entry.shape, entry).values) == steps.scores(entry)
        best, cheapest = steps.search.best(entry.shape, entry, None), steps.cheapest(entry)
        if best is None:
            assert not cheapest
        else:
            assert (best[0], _names(best[1])) in cheapest


def test_there_are_nodes_to_choose_from() -> None:
    """What is compared above is not always nothing."""
    rooms, victims = 0, 0
    for seed in range(10):
        steps = _Steps(seed)
        for _ in range(8):
            steps.step()
            rooms += sum(map(bool, steps.scores(steps.left[-1])))
            victims += len(steps.cheapest(steps.left[-1]))
    assert rooms > 40
    assert victims > 20
