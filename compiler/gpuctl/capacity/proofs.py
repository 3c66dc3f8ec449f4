"""What holds for jobs whatever the scheduler chooses, by what there is room for in all."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.capacity.placement import PodGroup, Rooms
from gpuctl.capacity.scene import Scene


class Proofs:
    """What holds whatever is chosen, by what there is room for in all."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._groups = scene.shown
        self._rooms: dict[object, Rooms] = {}
        self._rooms_by_group: dict[int, Rooms] = {}
        self._priorities = [demand.priority for demand in scene.demands]
        # Where pods mind others, labels tell pods apart.
        self._wishing = any(seat.repelling for seat in scene.cluster.seats) or any(
            pod.anti_affinity for _, pod in scene.cluster.nominated
        )
        self._fits: dict[int, bool] = {}
        self._beside_all: dict[int, bool] = {}
        self._calm: dict[int, bool] = {}
        self._comers: dict[int, list[tuple[PodGroup, int]]] = {}
        pods = sum(number for groups in self._groups for _, number in groups)
        self.size = pods * len(scene.cluster.seats)
        boldest = max(
            (group.incoming.pod.priority for groups in self._groups for group, _ in groups if group.incoming.preempts),
            default=None,
        )
        self.peaceful = boldest is None or not any(
            pod.priority < boldest for seat in scene.cluster.seats for pod in seat.pods
        )

    def fits(self, position: int) -> bool:
        """Whether a job's pods have room wherever the others go, in whichever order they come."""
        if position not in self._fits:
            self._fits[position] = self._has_room(position)
        return self._fits[position]

    def _is_calm(self, priority: int) -> bool:
        """Whether no job of a priority, or above it, has to evict anybody."""
        if priority not in self._calm:
            equal = [number for number, other in enumerate(self._priorities) if other == priority]
            self._calm[priority] = all(self._has_room(number, calm=True) for number in equal if self._groups[number])
        return self._calm[priority]

    def _fits_beside_all(self, position: int) -> bool:
        """Whether a job's pods have room wherever all others go, so that they evict none of these."""
        if position not in self._beside_all:
            self._beside_all[position] = self._has_room(position, beside_all=True)
        return self._beside_all[position]

    def _has_room(self, position: int, *, calm: bool = False, beside_all: bool = False) -> bool:
        scene, groups = self._scene, self._groups[position]
        demand = scene.demands[position]
        admission = scene.admissions[position]
        if demand.refusals or demand.doubts or admission.refusals or not (admission.settled and demand.pods):
            return False
        polite = beside_all or any(not group.incoming.preempts for group, _ in groups)
        others = [
            number
            for number, priority in enumerate(self._priorities)
            if number != position and (polite or not self.peaceful or priority >= self._priorities[position])
        ]
        higher = [number for number in others if self._priorities[number] > self._priorities[position]]
        if not self.peaceful and not all(self.fits(number) for number in higher if self._groups[number]):
            # What is evicted for these leaves later, and then they are tried again, and may evict this one.
            return False
        if demand.frail and not all(self._fits_beside_all(number) for number in higher if self._groups[number]):
            # It may come first, and fail when one of its pods has to make room.
            return False
        rivals = [(group, self._most(group, count)) for number in others for group, count in self._groups[number]]
        rivals += [(PodGroup(("waiting", number), pod), 1) for number, pod in enumerate(scene.cluster.waiting)]
        if polite or not (calm or self._is_calm(self._priorities[position])):
            rivals += self._returning(others)
        return all(
            self._rooms_of(group).suffice(number, [*rivals, *(item for item in groups if item[0] is not group)])
            for group, number in groups
        )

    def _returning(self, others: Sequence[int]) -> list[tuple[PodGroup, int]]:
        """The pods that others may evict and that come again, wherever they find room then."""
        boldest = max((self._priorities[number] for number in others if self._groups[number]), default=None)
        if self.peaceful or boldest is None:
            return []
        if boldest not in self._comers:
            returning = self._scene.cluster.returning
            pods = [pod for seat in self._scene.cluster.seats for pod in seat.pods if pod.priority < boldest]
            # Each of them once, in this order.
            lost = dict.fromkeys(other for pod in pods for other in returning.may_end_with(pod))
            comers = (returning.of(pod) for pod in lost)
            self._comers[boldest] = [
                (PodGroup(("returning", number), comer), 1) for number, comer in enumerate(comers) if comer is not None
            ]
        return self._comers[boldest]

    def _most(self, group: PodGroup, number: int) -> int:
        """How many pods of a group may be placed at most."""
        if not self.peaceful:
            return number
        rooms = self._rooms_of(group)
        return min(number, rooms.total) if rooms.known else number

    def lacks_room(self, position: int) -> bool:
        """Whether none of a job's pods has room, not even alone, and nobody makes any."""
        groups = self._groups[position]
        if not self.peaceful or not groups:
            return False
        rooms = [self._rooms_of(group) for group, _ in groups]
        return all(room.known and not room.total for room in rooms)

    def _rooms_of(self, group: PodGroup) -> Rooms:
        if id(group) not in self._rooms_by_group:
            # Groups are kept with their jobs, so that their ids stay theirs.
            self._rooms_by_group[id(group)] = self._rooms_of_alike(group)
        return self._rooms_by_group[id(group)]

    def _rooms_of_alike(self, group: PodGroup) -> Rooms:
        incoming, own = group.incoming, group.incoming.pod
        start, open_to = self._scene.start(own.priority), self._scene.open_to(incoming)
        # States and lists of nodes are kept by the scene, so that their ids stay theirs.
        key = (
            *(id(start), id(open_to), group.is_independent),
            *(frozenset(own.requests.items()), own.ports, own.volumes),
            (own.namespace, frozenset(own.labels.items())) if self._wishing else None,
        )
        if key not in self._rooms:
            self._rooms[key] = Rooms(start, group, open_to)
        return self._rooms[key]
