"""What every run of a simulated scheduler begins with: the nodes, and the pods in its queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.pod_shapes import Landscape, Shape, shape_key
from gpuctl.capacity.preemption import Budget, Eviction
from gpuctl.capacity.scoring import looked_for
from gpuctl.capacity.seats import Incoming, PlacedPod, Seat, Units


@dataclass(eq=False)
class QueuedPod:
    """A pod in the scheduler's queue; ``job`` is the number of its job, None for a pod that waits already."""

    pod: PlacedPod
    shape: Shape
    job: int | None


class Candidate(NamedTuple):
    """What making room on a node costs."""

    eviction: Eviction
    cost: tuple[int, int, int, int, tuple[int, ...]]


class Arena:
    """What all runs begin with: nodes, pods and what they ask for. ``nodes`` is how many the whole cluster has.

    ``coming`` are the pods of jobs, by the numbers of the job and of the group, ``waiting`` those that wait already.
    """

    def __init__(self, seats: Sequence[Seat], budgets: Sequence[Budget], nodes: int) -> None:
        self.seats = list(seats)
        self.budgets = budgets
        self.looked_for = looked_for(nodes)
        self.promised: dict[int, list[PlacedPod]] = {}
        self.coming: dict[tuple[int, int], list[QueuedPod]] = {}
        self.waiting: list[QueuedPod] = []
        self.capacity = [
            (seat.node.allocatable.get("cpu", 0), seat.node.allocatable.get("memory", 0)) for seat in self.seats
        ]
        self.free = [free_of(seat) for seat in self.seats]
        self.scored = [scored_of(seat) for seat in self.seats]
        self.rows: dict[int, list[int]] = {}
        # Per shape and node, and per node and amounts: what was worked out in any run.
        self.candidates: dict[int, dict[int, tuple[Seat, Candidate | None]]] = {}
        self.scores: dict[object, int] = {}
        self._hopeless: dict[int, frozenset[int]] = {}
        self.zones = _by_zones(self.seats)
        self.landscape = Landscape(self.seats)

    def hopeless(self, shape: Shape) -> frozenset[int]:
        """The nodes where evicting does not help as long as nobody else has left them, whoever comes to them."""
        if id(shape) not in self._hopeless:
            nodes = (index for index in shape.nodes if not shape.may_evict(self.seats[index], anybody=False))
            self._hopeless[id(shape)] = frozenset(nodes)
        return self._hopeless[id(shape)]

    def queue(self, jobs: Sequence[Sequence[tuple[PodGroup, int]]], waiting: Sequence[Incoming]) -> None:
        """Add the pods of jobs, and those that wait already."""
        kinds = [*(group.incoming for groups in jobs for group, _ in groups), *waiting]
        shapes: dict[object, Shape] = {}
        others = [incoming.pod for incoming in kinds if any(True for _ in incoming.pod.terms)]
        wishing = [seat for seat in self.seats if any(True for pod in seat.pods for _ in pod.terms)]

        def shape_of(incoming: Incoming) -> Shape:
            # Where pods have wishes about others, labels tell pods apart.
            key = (shape_key(incoming), id(incoming) if others or wishing else None)
            if key not in shapes:
                shapes[key] = Shape(incoming, self.seats, self.landscape, wishing, others)
            return shapes[key]

        for number, groups in enumerate(jobs):
            for kind, (group, count) in enumerate(groups):
                shape = shape_of(group.incoming)
                pods = [QueuedPod(replace(group.incoming.pod), shape, number) for _ in range(count)]
                self.coming[number, kind] = pods
        # They have been tried before: if they could evict anybody, they would have been promised a node.
        for incoming in waiting:
            self.waiting.append(QueuedPod(incoming.pod, shape_of(replace(incoming, preempts=False)), None))


def free_of(seat: Seat) -> Units:
    """What is left of each resource; "pods" is one, too."""
    return {name: seat.free(name) for name in {*seat.node.allocatable, "pods"}}


def scored_of(seat: Seat) -> tuple[int, int]:
    """The cpu and memory of a node's pods where nodes are ranked."""
    return sum(pod.scored[0] for pod in seat.pods), sum(pod.scored[1] for pod in seat.pods)


def _by_zones(seats: Sequence[Seat]) -> list[int]:
    """Nodes in the order in which they are looked at. Source: ``backend/cache/node_tree.go``, list."""
    zones: dict[tuple[str, str], list[int]] = {}
    for index, seat in enumerate(seats):
        labels = seat.node.labels
        zone = labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")
        zones.setdefault(zone, []).append(index)
    longest = max(map(len, zones.values()), default=0)
    return [own[place] for place in range(longest) for own in zones.values() if place < len(own)]
