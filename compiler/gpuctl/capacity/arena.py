"""What every run of a simulated scheduler begins with: the nodes, and the pods in its queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuctl.capacity.frailty import ENDLESS, Endurance
from gpuctl.capacity.job_pods import JobPods, Whole
from gpuctl.capacity.node_choice import ScoreRow
from gpuctl.capacity.node_states import LeftAmounts, NodeStates, Size
from gpuctl.capacity.placement import PodGroup
from gpuctl.capacity.pod_shapes import Landscape, Shape, Standing, shape_key
from gpuctl.capacity.preemption import Budget, Eviction
from gpuctl.capacity.returning import NOBODY, Returning
from gpuctl.capacity.scoring import looked_for
from gpuctl.capacity.seats import Incoming, PlacedPod, Seat


@dataclass(eq=False)
class QueuedPod:
    """A pod in the scheduler's queue; ``job`` is the number of its job, None for a pod that waits already.

    ``minders`` are the pods for which it matters where this one is, beside the room that it takes.
    """

    pod: PlacedPod
    shape: Shape
    job: int | None
    minders: Sequence[Shape] = ()


class Candidate(NamedTuple):
    """What making room on a node costs."""

    eviction: Eviction
    cost: tuple[int, int, int, int, tuple[int, ...]]


class Arena:
    """What all runs begin with: nodes, pods and what they ask for. ``nodes`` is how many the whole cluster has.

    ``seats`` are in the order in which the scheduler looks at them, and told by their places in it. ``coming`` are the
    pods of jobs, by the numbers of the job and of the group, ``waiting`` those that wait already.
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        budgets: Sequence[Budget],
        nodes: int,
        nominated: Sequence[tuple[int, PlacedPod]] = (),
        returning: Returning = NOBODY,
    ) -> None:
        self._order = _by_zones(seats)
        self.seats = [seats[index] for index in self._order]
        self.budgets = budgets
        self._returning = returning
        self.looked_for = looked_for(nodes)
        places = {index: place for place, index in enumerate(self._order)}
        self.promised: dict[int, list[PlacedPod]] = {}
        for index, pod in nominated:
            self.promised.setdefault(places[index], []).append(pod)
        self.coming: dict[tuple[int, int], list[QueuedPod]] = {}
        self.waiting: list[QueuedPod] = []
        self.endurance: Sequence[Endurance] = ()
        self._shapes: dict[object, Shape] = {}
        # Those with rules about others.
        self._minders: list[Shape] = []
        self._sizes: dict[object, Size] = {}
        # Pods that mind others: among those that come, and the nodes of those that are there.
        self._others: list[PlacedPod] = []
        self._wishing = [seat for seat in self.seats if any(True for pod in seat.pods for _ in pod.terms)]
        # What was worked out in any run.
        self.node_states = NodeStates()
        self.states = [self.node_states.of(seat) for seat in self.seats]
        self._candidates: dict[Shape | Standing, dict[object, Candidate | None]] = {}
        self.first_candidates: dict[Standing, dict[int, Candidate]] = {}
        self._rows: dict[Standing, ScoreRow] = {}
        self._hopeful: dict[Standing, frozenset[int]] = {}
        self._emptier: dict[tuple[int, frozenset[int]], tuple[Seat, Seat]] = {}
        self._minding: dict[object, tuple[PlacedPod, list[Shape]]] = {}
        self._places: dict[PlacedPod, int] = {}
        self.landscape = Landscape(self.seats)

    def in_order(self, seats: Sequence[Seat]) -> list[Seat]:
        """Nodes by their places in the order in which they were given."""
        result = list(seats)
        for index, seat in zip(self._order, seats, strict=True):
            result[index] = seat
        return result

    def first_row(self, shape: Shape) -> ScoreRow:
        """The score of each node for a pod by its amounts, as every run finds them; 0 where there is no room."""
        if shape.standing not in self._rows:
            values, scores = bytearray(len(self.seats)), shape.size.scores
            for place in shape.nodes:
                values[place] = scores[self.states[place]]
            for place, pods in self.promised.items():
                more = [pod for pod in pods if pod.priority >= shape.priority]
                if not scores[self.beside(self.states[place], more)]:
                    values[place] = 0
            self._rows[shape.standing] = ScoreRow(values, max(values, default=0))
        return self._rows[shape.standing]

    def hopeful(self, shape: Shape) -> frozenset[int]:
        """The nodes where evicting may help when nobody has left them, whoever comes to them."""
        if shape.standing not in self._hopeful:
            seats = self.seats
            found = (place for place in shape.nodes if shape.may_evict(seats[place], anybody=False))
            self._hopeful[shape.standing] = frozenset(found)
        return self._hopeful[shape.standing]

    def candidates(self, shape: Shape) -> dict[object, Candidate | None]:
        """What making room for a pod was found to cost in any run, by what is on a node."""
        return self._candidates.setdefault(shape.standing if shape.simple else shape, {})

    def emptier(self, seat: Seat, pods: Sequence[PlacedPod]) -> Seat:
        """A node without some of its pods: the same one whenever it is asked for."""
        key = id(seat), frozenset(map(id, pods))
        if key not in self._emptier:
            # The node is kept, so that its id stays its own.
            self._emptier[key] = seat, seat.without(pods)
        return self._emptier[key][1]

    def minding(self, pod: PlacedPod) -> list[Shape]:
        """The pods for which it matters where a pod is, beside the room that it takes."""
        key = pod.namespace, frozenset(pod.labels.items()), tuple(map(id, pod.terms)), pod.deleting
        if key not in self._minding:
            shapes = self._shapes.values() if any(True for _ in pod.terms) else self._minders
            self._minding[key] = pod, [shape for shape in shapes if shape.minds_pod(pod)]
        return self._minding[key][1]

    def returned(self, pod: PlacedPod) -> QueuedPod | None:
        """A pod of before that was evicted, as it comes again; None when it does not."""
        incoming = self._returning.of(pod)
        if incoming is None:
            return None
        shape = self._shape_of(incoming)
        return QueuedPod(replace(incoming.pod), shape, None, self.minding(incoming.pod))

    def job_of(self, pod: PlacedPod) -> JobPods | None:
        """The Job of a pod of before."""
        return self._returning.jobs.of(pod)

    def whole_of(self, pod: PlacedPod) -> Whole | None:
        """What a pod of before ends with when its Job fails."""
        return self._returning.jobs.whole_of(pod)

    def placed(self, pods: Iterable[PlacedPod]) -> list[tuple[int, PlacedPod]]:
        """Those of some pods of before that are on these nodes, or promised one, with the places of the nodes."""
        if not self._places:
            self._places = {pod: place for place, seat in enumerate(self.seats) for pod in seat.pods}
            self._places.update((pod, place) for place, promised in self.promised.items() for pod in promised)
        return [(self._places[pod], pod) for pod in pods if pod in self._places]

    def beside(self, state: LeftAmounts, pods: Iterable[PlacedPod]) -> LeftAmounts:
        """What is left of a node beside some pods."""
        for pod in pods:
            state = self.node_states.after(state, self.size_of(pod))
        return state

    def size_of(self, pod: PlacedPod) -> Size:
        """What a pod asks for in amounts."""
        asked = frozenset(pod.requests.items()), pod.scored
        if asked not in self._sizes:
            self._sizes[asked] = Size(pod)
        return self._sizes[asked]

    def _shape_of(self, incoming: Incoming) -> Shape:
        # Where pods have wishes about others, labels tell pods apart.
        key = (shape_key(incoming), id(incoming) if self._others or self._wishing else None)
        if key not in self._shapes:
            shape = Shape(incoming, self.size_of(incoming.pod), self.seats, self.landscape, self._wishing, self._others)
            self._shapes[key] = shape
            if incoming.terms:
                self._minders.append(shape)
            for pod, minders in self._minding.values():
                if shape.minds_pod(pod):
                    minders.append(shape)
        return self._shapes[key]

    def queue(
        self,
        jobs: Sequence[Sequence[tuple[PodGroup, int]]],
        waiting: Sequence[Incoming],
        endurance: Sequence[Endurance] = (),
    ) -> None:
        """Add the pods of jobs, and those that wait already.

        :param endurance: what each of the jobs endures; without it all go on.
        """
        self.endurance = endurance or [ENDLESS] * len(jobs)
        kinds = [*(group.incoming for groups in jobs for group, _ in groups), *waiting]
        self._others = [incoming.pod for incoming in kinds if any(True for _ in incoming.pod.terms)]
        for number, groups in enumerate(jobs):
            for kind, (group, count) in enumerate(groups):
                shape = self._shape_of(group.incoming)
                pods = [QueuedPod(replace(group.incoming.pod), shape, number) for _ in range(count)]
                self.coming[number, kind] = pods
        # They have been tried before: if they could evict anybody, they would have been promised a node.
        for incoming in waiting:
            self.waiting.append(QueuedPod(incoming.pod, self._shape_of(replace(incoming, preempts=False)), None))
        for entries in self.coming.values():
            # They are alike.
            minders = self.minding(entries[0].pod) if entries else []
            for entry in entries:
                entry.minders = minders
        for entry in self.waiting:
            entry.minders = self.minding(entry.pod)


def _by_zones(seats: Sequence[Seat]) -> list[int]:
    """Nodes in the order in which they are looked at. Source: ``backend/cache/node_tree.go``, list."""
    zones: dict[tuple[str, str], list[int]] = {}
    for index, seat in enumerate(seats):
        labels = seat.node.labels
        zone = labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")
        zones.setdefault(zone, []).append(index)
    longest = max(map(len, zones.values()), default=0)
    return [own[place] for place in range(longest) for own in zones.values() if place < len(own)]
