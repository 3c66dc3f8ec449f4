"""Proofs that a job fits wherever the other jobs of its component are placed, or does not fit even alone."""

from __future__ import annotations

from gpuctl.capacity.fit.component_input import ComponentInput
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.placement import RoomCount


class RoomProofs:
    """Statements that hold for every order of pods and every choice of nodes."""

    def __init__(self, component: ComponentInput) -> None:
        self._component = component
        self._rooms: dict[object, RoomCount] = {}
        self._known: dict[tuple[int, bool], bool] = {}
        groups = [group for demand in component.demands for group, _ in demand.groups]
        bold = [group.incoming.pod.priority for group in groups if group.incoming.preempts]
        residents = [
            pod
            for node_info in component.cluster.node_infos
            for pod in node_info.pods
            if bold and pod.priority < max(bold)
        ]
        self._peaceful = not residents
        # Count each pod once that may be evicted, or may end with an evicted one.
        lost = dict.fromkeys(other for pod in residents for other in component.cluster.recreated.may_end_with(pod))
        comers = [comer for pod in lost if (comer := component.cluster.recreated.of(pod)) is not None]
        comers += component.cluster.waiting
        self._others = [(PodGroup(("comer", number), comer), 1) for number, comer in enumerate(comers)]

    def proves_fit(self, position: int) -> bool:
        """Return True if a job starts wherever the others are placed, in any order.

        Less important jobs take no room that it cannot get back by evicting them. It must not be evicted itself if it
        fails then; pods evicted for more important jobs may be recreated.
        """
        demand = self._component.demands[position]
        if demand.may_fail or not self._peaceful:
            above = (number for number, other in enumerate(self._component.demands) if other.priority > demand.priority)
            if not all(self._has_room(number) for number in above):
                return False
        devices = frozenset().union(*(node_info.node.devices for node_info in self._component.cluster.node_infos))
        preempts = all(
            group.incoming.preempts and devices.isdisjoint(group.incoming.pod.requests) for group, _ in demand.groups
        )
        return self._has_room(position, least=demand.priority if self._peaceful and preempts else None)

    def _has_room(self, position: int, least: int | None = None) -> bool:
        """Return True if a job's pods fit beside those of all other jobs, or of jobs with at least a priority
        (``least``).
        """
        key = position, least is None
        if key not in self._known:
            self._known[key] = self._fits_beside(position, least)
        return self._known[key]

    def _fits_beside(self, position: int, least: int | None) -> bool:
        component = self._component
        demand, admission = component.demands[position], component.admissions[position]
        if demand.refusals or demand.unknown_reasons or admission.refusals or not (admission.settled and demand.pods):
            return False
        others = [
            (group, self._most(group, count))
            for number, (other, groups) in enumerate(zip(component.demands, component.reported_groups, strict=True))
            if number != position and (least is None or other.priority >= least)
            for group, count in groups
        ]
        own = component.reported_groups[position]
        return all(
            self._rooms_of(group).suffices_for(
                number, [*others, *self._others, *(item for item in own if item[0] is not group)]
            )
            for group, number in own
        )

    def _most(self, group: PodGroup, number: int) -> int:
        """Return an upper bound for the number of placed pods of a group."""
        rooms = self._rooms_of(group) if self._peaceful else None
        return number if rooms is None or not rooms.known else min(number, rooms.total)

    def proves_no_room(self, position: int) -> bool:
        """Return True if none of a job's pods fits, not even alone, and no eviction makes room."""
        groups = self._component.reported_groups[position]
        if not self._peaceful or not groups:
            return False
        rooms = [self._rooms_of(group) for group, _ in groups]
        return all(room.known and not room.total for room in rooms)

    def _rooms_of(self, group: PodGroup) -> RoomCount:
        if group.number not in self._rooms:
            self._rooms[group.number] = RoomCount(self._component.start_state(group.incoming.pod.priority), group)
        return self._rooms[group.number]
