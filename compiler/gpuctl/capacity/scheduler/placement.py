"""All placements that the scheduler may choose for a set of pods, with the pods it would evict.

Among feasible nodes the scheduler decides by score and, among equal scores, at random. Therefore the set of all
possible cluster states is computed; identical nodes count as one. When there are more than ``LIMIT`` states at once,
only one is followed and ``exhaustive`` is False.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice

from gpuctl.capacity.scheduler.cluster_state import ClusterState, Placements, PodGroup, pods_that_fit
from gpuctl.capacity.scheduler.preemption import Budget, Eviction, find_eviction, is_search_sampled
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo, Units
from gpuctl.capacity.scheduler.scheduling import (
    NeighbourCounts,
    SchedulingRule,
    count_neighbours,
    failing_rule,
    may_run,
    updated_counts,
)

LIMIT = 128
"""Maximum number of states that are followed at once."""
_MOST_LEAVING = 4
_MANY = 10**9


def place_pods(state: ClusterState, groups: Sequence[tuple[PodGroup, int]], budgets: Sequence[Budget]) -> Placements:
    """Place the pods of each group as the scheduler would, evicting only if nothing else helps.

    Nothing is placed afterwards, so the choice among nodes with room does not matter.
    """
    state = replace(state, placed={}, evicted=(), certain=True)
    simple = len(groups) == 1 and groups[0][0].is_order_independent
    if simple and not state.leaving and groups[0][0].is_independent:
        group, number = groups[0]
        if not count_neighbours(group.incoming, state.node_infos).repelled:
            state, done = _fill(state, group, number)
            if done:
                return Placements([state], True, True)
    if (
        len(groups) > 1
        and not state.leaving
        and all(
            RoomCount(state, group).suffices_for(number, [other for other in groups if other[0] is not group])
            for group, number in groups
        )
    ):
        for group, number in groups:
            state, _ = _fill(state, group, number)
        return Placements([state], True, True)
    outcome = _explore(state, groups, budgets, narrow=simple)
    # A pod that waits for its victims counts on its nominated node only. The next pod may therefore be placed where the
    # rules of the first would forbid it.
    unlike = any(end.evicted for end in outcome.states) and any(
        group.depends_on(other.incoming.pod) for group, _ in groups for other, number in groups if number > 1
    )
    return Placements(outcome.states, outcome.exhaustive and not unlike, simple and not unlike)


def _fill(state: ClusterState, group: PodGroup, number: int) -> tuple[ClusterState, bool]:
    """Place an independent group where it fits; return False if some pods are left."""
    left = number
    taken: dict[int, int] = {}
    for index, node_info in enumerate(state.node_infos):
        if not left:
            break
        room = pods_that_fit(node_info, group, number)
        if room:
            taken[index] = min(room, left)
            left -= taken[index]
    for index, pods in taken.items():
        state = state.place(index, group, pods)
    return state, left == 0


def _explore(
    state: ClusterState, groups: Sequence[tuple[PodGroup, int]], budgets: Sequence[Budget], *, narrow: bool
) -> Placements:
    """Follow every choice, breadth first, or a single path once there are too many.

    :param narrow: try only one of the nodes with room.
    """
    views = {group.number: _View(state, group, groups, budgets) for group, _ in groups}
    frontier = [state]
    ends: dict[Hashable, ClusterState] = {}
    exhaustive = True
    while frontier:
        following: dict[Hashable, ClusterState] = {}
        for current in frontier:
            waiting = [group.number for group, number in groups if current.placed.get(group.number, 0) < number]
            exhaustive = exhaustive and len(current.leaving) <= _MOST_LEAVING
            goes_on = False
            for move in chain.from_iterable(views[number].moves(current, narrow=narrow) for number in waiting):
                goes_on = True
                following[move.signature] = move
                exhaustive = exhaustive and len(following) <= LIMIT
                if not exhaustive:
                    break
            if not goes_on:
                ends[current.signature] = current
        frontier = list(following.values())[: None if exhaustive else 1]
    return Placements(list(ends.values()), exhaustive, False)


class _View:
    """The choices for a group in the states reached from one start; results for unchanged nodes are cached."""

    def __init__(
        self, start: ClusterState, group: PodGroup, groups: Sequence[tuple[PodGroup, int]], budgets: Sequence[Budget]
    ) -> None:
        self._group = group
        self._incoming = group.incoming
        self._budgets = budgets
        self._node_infos = list(start.node_infos)
        self._counted = count_neighbours(group.incoming, self._node_infos)
        repelled = bool(self._counted.repelled) or any(
            term.matches(group.incoming.pod) for other, _ in groups for term in other.incoming.pod.anti_affinity
        )
        # Then each node is judged by itself. Cached nodes are kept alive, so that their ids are not reused.
        self._alone = group.is_independent and not repelled
        self._statuses: dict[int, tuple[NodeInfo, SchedulingRule | None]] = {}
        self._evictions: dict[int, tuple[NodeInfo, Eviction | None]] = {}

    def moves(self, state: ClusterState, *, narrow: bool) -> Iterator[ClusterState]:
        """Yield the states that placing the next pod can lead to; none if it stays pending."""
        for gone in _departures(state):
            node_infos = state.view(gone)
            counted = self._census(node_infos)
            places = (index for index, node_info in enumerate(node_infos) if self._status(node_info, counted) is None)
            different = {state.key(index): index for index in (islice(places, 1) if narrow else places)}
            if different:
                yield from (state.place(index, self._group) for index in different.values())
                continue
            found = self._candidates(node_infos, counted)
            least = min((eviction.cost for eviction in found.values()), default=None)
            best = {state.key(index): index for index, eviction in found.items() if eviction.cost == least}
            yield from (state.evict(index, found[index], self._group) for index in best.values())

    def _census(self, node_infos: Sequence[NodeInfo]) -> NeighbourCounts:
        counted = self._counted
        if not self._alone:
            for before, now in zip(self._node_infos, node_infos, strict=True):
                if before is not now:
                    counted = updated_counts(counted, self._incoming, before, now)
        return counted

    def _status(self, node_info: NodeInfo, counted: NeighbourCounts) -> SchedulingRule | None:
        if not self._alone:
            return failing_rule(self._incoming, node_info, counted)
        if id(node_info) not in self._statuses:
            self._statuses[id(node_info)] = node_info, failing_rule(self._incoming, node_info, counted)
        return self._statuses[id(node_info)][1]

    def _candidates(self, node_infos: Sequence[NodeInfo], counted: NeighbourCounts) -> dict[int, Eviction]:
        """Return the evictions by node that would make room.

        Source: ``preemption/preemption.go``, findCandidates: nodes whose status is Unschedulable.
        """
        if not self._incoming.preempts:
            return {}
        result: dict[int, Eviction] = {}
        potential = 0
        for index, node_info in enumerate(node_infos):
            rule = self._status(node_info, counted)
            if rule is None or not rule.resolvable:
                continue
            potential += 1
            found = self._eviction(node_info, counted)
            if found is not None:
                result[index] = found
        if is_search_sampled(potential):
            return {index: found._replace(certain=False) for index, found in result.items()}
        return result

    def _eviction(self, node_info: NodeInfo, counted: NeighbourCounts) -> Eviction | None:
        def fits(changed: NodeInfo) -> bool:
            now = counted if self._alone else updated_counts(counted, self._incoming, node_info, changed)
            return may_run(self._incoming, changed, now)

        if not self._alone:
            return find_eviction(self._incoming, node_info, fits, self._budgets)
        if id(node_info) not in self._evictions:
            self._evictions[id(node_info)] = node_info, find_eviction(self._incoming, node_info, fits, self._budgets)
        return self._evictions[id(node_info)][1]


def _departures(state: ClusterState) -> Iterator[frozenset[int]]:
    """Yield the sets of nodes whose victims may have left by now. If there are many nodes, yield only all and none."""
    nodes = list(state.leaving)
    sizes = range(len(nodes), -1, -1) if len(nodes) <= _MOST_LEAVING else (len(nodes), 0)
    return (frozenset(gone) for size in sizes for gone in combinations(nodes, size))


class RoomCount:
    """The room for a group's pods on the nodes of a state, and how much of it other pods can take.

    Not ``known``: the room depends on more than one node at a time.
    """

    def __init__(self, state: ClusterState, group: PodGroup) -> None:
        self._pod = group.incoming.pod
        self.total = 0
        self._spares: dict[str, int] = {}
        self.known = group.is_independent and not count_neighbours(group.incoming, state.node_infos).repelled
        if not self.known:
            return
        wanted = {**self._pod.requests, "pods": 1}
        self._alike: dict[str, set[str]] = {}
        for node_info in state.node_infos:
            room = pods_that_fit(node_info, group, _MANY)
            if not room:
                continue
            for names in node_info.node.shared:
                for name in names:
                    self._alike.setdefault(name, {name}).update(names)
            self.total += room
            for name, amount in wanted.items():
                spare = node_info.free(name) // amount - room
                self._spares[name] = min(spare, self._spares.get(name, spare))

    def suffices_for(self, number: int, elsewhere: Sequence[tuple[PodGroup, int]]) -> bool:
        """Return True if a number of pods fit wherever the other groups (``elsewhere``) are placed."""
        left = self.total - number
        if not self.known or left < 0 or not elsewhere:
            return self.known and left >= 0
        others = [other.incoming.pod for other, _ in elsewhere]
        if self._pod.volumes and any(other.volumes for other in others):
            return False
        if any(term.matches(self._pod) for other in others for term in other.anti_affinity):
            return False
        return self._taken_at_most(elsewhere) <= left

    def _taken_of(self, requests: Units) -> Units:
        """Return requests with the most that they take of each resource: devices may count under several names."""
        alike = {name: sum(requests.get(other, 0) for other in names) for name, names in self._alike.items()}
        return {**requests, **alike}

    def _taken_at_most(self, elsewhere: Sequence[tuple[PodGroup, int]]) -> int:
        """Return an upper bound of the places that other pods can take, wherever they are placed.

        A pod takes at most as many places as the largest ratio of its requests to the group's, rounded up. Per
        resource, pods first use up what a node has beyond its places, which are limited by the scarcest resource.
        """
        wanted = {**self._pod.requests, "pods": 1}
        takers = [({**self._taken_of(other.incoming.pod.requests), "pods": 1}, count) for other, count in elsewhere]
        shares = [({name: -(-asked.get(name, 0) // wanted[name]) for name in wanted}, count) for asked, count in takers]
        together = sum(count * max(share.values()) for share, count in shares)
        if self._pod.ports:
            return together
        apart = sum(max(0, sum(count * share[name] for share, count in shares) - self._spares[name]) for name in wanted)
        return min(together, apart)
