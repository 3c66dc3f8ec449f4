"""Groups of jobs that can influence each other's placement. Each group is judged separately, on its own nodes.

Two jobs are connected in each of these cases:

- Both may use a node, perhaps after other pods have left it.
- A rule of one matches pods of the other, or pods that the other may evict.
- Both may evict pods of one PodDisruptionBudget.
- One may use nodes to which pods evicted by the other are recreated.

Quota admission happens before scheduling and connects no jobs here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.recreated_pods import RecreatedPods
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.scheduler_model import AffinityTerm, IncomingPod, NodeInfo, PlacedPod
from gpuctl.capacity.scheduler.scheduling import (
    NO_NEIGHBOURS,
    count_neighbours,
    counts_node,
    may_run,
)
from gpuctl.capacity.scheduler.suitable_nodes import SuitableNodes


class Component(NamedTuple):
    """Connected jobs, the nodes that any of them uses, and the pending pods that may compete with them.

    All by number, in the order of the cluster.
    """

    demands: list[int]
    node_numbers: list[int]
    waiting: list[int]


def components(cluster: ClusterModel, demands: Sequence[Sequence[PodGroup]], nodes: SuitableNodes) -> list[Component]:
    """Return the components of jobs; each job is given by its pod groups."""
    residents = _Residents(cluster)
    joined = _UnionFind(len(cluster.node_infos) + len(demands))
    views: list[set[int]] = []
    for number, groups in enumerate(demands):
        own = len(cluster.node_infos) + number
        view: set[int] = set()
        for group in groups:
            open_nodes = nodes.open_to(group.incoming)
            joined.join_all(own, open_nodes)
            nodes_that_matter = residents.nodes_that_matter(group.incoming)
            joined.join_all(own, nodes_that_matter)
            view.update(open_nodes, nodes_that_matter, _nodes_in_spreads(group.incoming, cluster.node_infos))
        views.append(view)
    _join_neighbours(joined, len(cluster.node_infos), demands)
    _join_budgets(joined, len(cluster.node_infos), demands, nodes, cluster)
    recreation_targets, freed = _recreation_targets(joined, demands, nodes, cluster)
    waiting_reach = _reach_of_waiting_pods(joined, demands, nodes, cluster, freed)
    parts: dict[int, Component] = {}
    for number in range(len(demands)):
        root = joined.root(len(cluster.node_infos) + number)
        part = parts.setdefault(root, Component([], [], []))
        part.demands.append(number)
    for part in parts.values():
        part.node_numbers.extend(sorted(set().union(*(views[number] for number in part.demands))))
    for index, goals in recreation_targets.items():
        found = parts.get(joined.root(index))
        if found is not None:
            found.node_numbers[:] = sorted({*found.node_numbers, *goals})
    for number, reach in waiting_reach.items():
        found = parts.get(joined.root(reach[0]))
        if found is not None:
            found.waiting.append(number)
            found.node_numbers[:] = sorted({*found.node_numbers, *reach})
    return list(parts.values())


class _Residents:
    """The pods that are on nodes or nominated to one, and the nodes of those with anti-affinity, by term."""

    def __init__(self, cluster: ClusterModel) -> None:
        self._all = [(index, pod) for index, node_info in enumerate(cluster.node_infos) for pod in node_info.pods]
        self._all += cluster.nominated
        self._minding: dict[object, tuple[AffinityTerm, set[int]]] = {}
        for index, pod in self._all:
            for term in pod.anti_affinity:
                key = term.topology, str(term.selector), term.namespaces
                self._minding.setdefault(key, (term, set()))[1].add(index)

    def nodes_that_matter(self, incoming: IncomingPod) -> set[int]:
        """Return the nodes with pods that affect where a pod may run, by its rules or by theirs."""
        result = {index for term in incoming.terms for index, pod in self._all if term.matches(pod)}
        for term, indices in self._minding.values():
            if term.matches(incoming.pod):
                result |= indices
        return result


class _UnionFind:
    """A union-find structure over numbers."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def join(self, one: int, other: int) -> None:
        self._parents[self.root(one)] = self.root(other)

    def join_all(self, own: int, others: Iterable[int]) -> None:
        for other in others:
            self.join(own, other)


def _nodes_in_spreads(incoming: IncomingPod, node_infos: Sequence[NodeInfo]) -> Iterator[int]:
    """Yield the nodes that a spread constraint includes, whether or not the pod may run there."""
    if incoming.spread:
        for index, node_info in enumerate(node_infos):
            if any(counts_node(rule, incoming, node_info.node) for rule in incoming.spread):
                yield index


def _join_neighbours(joined: _UnionFind, first: int, demands: Sequence[Sequence[PodGroup]]) -> None:
    """Join jobs if a rule of one matches pods of the other, wherever they are."""
    for number, groups in enumerate(demands):
        terms = [term for group in groups for term in group.incoming.terms]
        if not terms:
            continue
        for other, others in enumerate(demands):
            if other != number and any(term.matches(group.incoming.pod) for group in others for term in terms):
                joined.join(first + number, first + other)


def _join_budgets(
    joined: _UnionFind, first: int, demands: Sequence[Sequence[PodGroup]], nodes: SuitableNodes, cluster: ClusterModel
) -> None:
    """Join jobs that may both evict pods of one PodDisruptionBudget."""
    for budget in cluster.budgets:
        covered: dict[int, int] = {}
        for index, node_info in enumerate(cluster.node_infos):
            for pod in node_info.pods:
                if budget.covers(pod):
                    covered[index] = min(pod.priority, covered.get(index, pod.priority))
        if not covered:
            continue
        touching = [
            number
            for number, groups in enumerate(demands)
            if any(
                index in covered and covered[index] < group.incoming.pod.priority
                for group in groups
                if group.incoming.preempts
                for index in nodes.open_to(group.incoming)
            )
        ]
        for number in touching[1:]:
            joined.join(first + touching[0], first + number)


def _recreation_targets(
    joined: _UnionFind, demands: Sequence[Sequence[PodGroup]], nodes: SuitableNodes, cluster: ClusterModel
) -> tuple[dict[int, set[int]], set[int]]:
    """Return where recreated pods may go, by the node that they are evicted from, and all nodes that pods may leave.

    Recreated pods may evict others in turn. Pods that end with evicted ones free room on other nodes, and may be
    recreated too.
    """
    bold: dict[int, int] = {}
    # Equal lists of nodes are one object, so their id is a valid key.
    reaches: dict[tuple[int, int], list[int]] = {}
    for incoming in (group.incoming for groups in demands for group in groups if group.incoming.preempts):
        goals = nodes.open_to(incoming)
        reaches[incoming.pod.priority, id(goals)] = goals
    for priority, number in sorted(reaches, key=lambda key: key[0]):
        bold.update(dict.fromkeys(reaches[priority, number], priority))
    result: dict[int, set[int]] = {}
    freed: set[int] = set()
    spread: set[tuple[int, int]] = set()
    places = {pod: index for index, node_info in enumerate(cluster.node_infos) for pod in node_info.pods}
    places.update((pod, index) for index, pod in cluster.nominated)
    ended: set[PlacedPod] = set()
    todo = list(bold)
    while todo:
        index = todo.pop()
        lower = (pod for pod in cluster.node_infos[index].pods if pod.priority < bold[index])
        lost = [
            other for pod in lower for other in (pod, *_ending_with(pod, cluster.recreated, ended)) if other in places
        ]
        left = {places[pod] for pod in lost}
        joined.join_all(index, left)
        freed |= left
        for pod in lost:
            again = cluster.recreated.of(pod)
            if again is None:
                continue
            goals = nodes.open_to(again)
            joined.join_all(index, goals)
            result.setdefault(index, set()).update(goals)
            # Equal lists of nodes are one object, so their id is a valid key.
            if not again.preempts or (id(goals), pod.priority) in spread:
                continue
            spread.add((id(goals), pod.priority))
            bolder = [goal for goal in goals if bold.get(goal, pod.priority - 1) < pod.priority]
            bold.update(dict.fromkeys(bolder, pod.priority))
            todo += bolder
    return result, freed


def _ending_with(pod: PlacedPod, recreated: RecreatedPods, ended: set[PlacedPod]) -> list[PlacedPod]:
    """Return the other pods that may end with a pod, without those in ``ended``; update ``ended``."""
    if pod in ended:
        return []
    found = [other for other in recreated.may_end_with(pod) if other is not pod]
    ended.update(found, (pod,))
    return found


def _reach_of_waiting_pods(
    joined: _UnionFind,
    demands: Sequence[Sequence[PodGroup]],
    nodes: SuitableNodes,
    cluster: ClusterModel,
    freed: set[int],
) -> dict[int, list[int]]:
    """Return the nodes where pending pods may be placed, by pod number: nodes with room now, or that pods may leave."""
    result = {}
    for number, rival in enumerate(cluster.waiting):
        reach = [index for index in nodes.open_to(rival) if index in freed]
        counted = count_neighbours(rival, cluster.node_infos) if rival.has_neighbours or not reach else NO_NEIGHBOURS
        now = [
            index
            for index in nodes.open_to(rival)
            if index not in freed and may_run(rival, cluster.node_infos[index], counted)
        ]
        minding = [
            first
            for first, groups in enumerate(demands)
            if any(term.matches(group.incoming.pod) for term in rival.terms for group in groups)
        ]
        for first in minding:
            joined.join_all(len(cluster.node_infos) + first, nodes.open_to(rival))
        reach = sorted({*reach, *now, *(nodes.open_to(rival) if minding else ())})
        for index in reach[1:]:
            joined.join(reach[0], index)
        if reach:
            result[number] = reach
    return result
