"""Simulated scheduling of pods that are created one after another: filters, resource scores, preemption.

Source: Kubernetes 1.36, ``pkg/scheduler/schedule_one.go``, ``framework/preemption/preemption.go``. Where the scheduler
chooses randomly among equal nodes, the first or the last one is taken. Victims leave at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.preemption import Eviction, find_eviction
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo, PlacedPod
from gpuctl.capacity.scheduler.scheduling import count_neighbours, failing_rule, may_run, updated_counts
from gpuctl.capacity.scheduler.scoring import NodeRanks, resource_score
from gpuctl.capacity.scheduler.suitable_nodes import SuitableNodes, scheduling_key

_ROUNDS = 12
"""Maximum number of retries of pending pods after evictions."""


@dataclass(eq=False)
class QueuedPod:
    """A pod in the scheduler's queue: a pod of job number ``job``, or a pod of the snapshot (``origin``)."""

    pod: PlacedPod
    kind: _PodKind
    job: int | None = None
    origin: PlacedPod | None = None


class _PodKind:
    """Identical pods, and cached results for the nodes.

    ``alone``: each node can be judged by itself. ``rooms`` has the score of each node with room. ``rooms_at`` and
    ``counted`` are the number of node changes that ``rooms`` and ``census`` include; -1 if not computed.
    """

    def __init__(
        self,
        incoming: IncomingPod,
        nodes: Sequence[int],
        node_infos: Sequence[NodeInfo],
        others: Iterable[PlacedPod],
        now: int,
    ) -> None:
        """
        :param others: pods with anti-affinity that are in the cluster or may be created.
        :param now: the number of node changes so far.
        """
        self.incoming = incoming
        self.nodes = nodes
        self.open_to = frozenset(nodes)
        pod = incoming.pod
        repelled = any(term.matches(pod) for other in others for term in other.anti_affinity)
        self.alone = not (incoming.has_neighbours or repelled)
        self.census = count_neighbours(incoming, () if self.alone else node_infos)
        self.counted = now
        self.ranks = NodeRanks(incoming, [node_infos[place].node for place in nodes], nodes)
        self.rooms: dict[int, int] = {}
        self.rooms_at = -1
        self.failed_at = -1


class SchedulerRun:
    """The scheduler and its nodes in a simulation.

    ``node_infos``: the current nodes. ``bound``: the number of pods of each job that have a node. ``evicted``: the
    victims of each job with their nodes, without pods created in the simulation. Pods that the snapshot nominates to a
    node are on it from the start.
    """

    def __init__(self, cluster: ClusterModel, coming: Iterable[PodGroup], *, last: bool = False) -> None:
        """
        :param coming: the pods that may be created.
        :param last: among equal nodes, take the last one.
        """
        self._last = last
        self.node_infos = list(cluster.node_infos)
        self._budgets = cluster.budgets
        self._recreated = cluster.recreated
        self._promised = {pod for _, pod in cluster.nominated}
        for place, pod in cluster.nominated:
            self.node_infos[place] = self.node_infos[place].with_pod(pod)
        self._places = {pod: place for place, node_info in enumerate(self.node_infos) for pod in node_info.pods}
        self._suitable_nodes = SuitableNodes(self.node_infos)
        self._repelling = [pod for node_info in self.node_infos for pod in node_info.repelling]
        self._repelling += [group.incoming.pod for group in coming if group.incoming.pod.anti_affinity]
        self._repelling += [rival.pod for rival in cluster.waiting if rival.pod.anti_affinity]
        self.bound: Counter[int | None] = Counter()
        self.evicted: dict[int | None, list[tuple[PlacedPod, int]]] = {}
        self._kinds: dict[object, _PodKind] = {}
        self._changes: list[tuple[int, NodeInfo, NodeInfo]] = []
        self._departures = 0
        self._entries: dict[PlacedPod, QueuedPod] = {}
        self._gone: list[PlacedPod] = []
        self._not_recreated: set[PlacedPod | None] = set()
        # The Job controller recreates pods only after seconds: new pods of the jobs come first.
        self._later: list[QueuedPod] = []
        # The scheduler has tried these pods: if they could evict others, they would be nominated to a node.
        self._pending = [self._entry(replace(rival, preempts=False), origin=rival.pod) for rival in cluster.waiting]
        self._retry()

    def add_job(self, job: int, groups: Iterable[tuple[PodGroup, int]]) -> None:
        """Create the pods of a job, then retry pending pods."""
        entries = [self._entry(group.incoming, job) for group, number in groups for _ in range(number)]
        before = self._departures
        left = [entry for entry in entries if not self._try(entry)]
        self._pending += left
        if self._departures > before:
            self._retry()

    def recreate_evicted(self) -> None:
        """Recreate the evicted pods of Jobs."""
        while self._later:
            self._pending, self._later = [*self._pending, *self._later], []
            self._retry()

    def has_pods_of(self, job: int) -> bool:
        """Return True if any pod of a job was created."""
        return any(entry.job == job for entry in self._entries.values())

    def nodes_without(self, job: int) -> list[NodeInfo]:
        """Return the nodes without the pods of a job."""
        own = [pod for pod, entry in self._entries.items() if entry.job == job and pod in self._places]
        node_infos = list(self.node_infos)
        for pod in own:
            place = self._places[pod]
            node_infos[place] = node_infos[place].without([pod])
        return node_infos

    def _entry(self, incoming: IncomingPod, job: int | None = None, origin: PlacedPod | None = None) -> QueuedPod:
        # With anti-affinity in the cluster, pods with different labels are not identical.
        labels = (incoming.pod.namespace, frozenset(incoming.pod.labels.items())) if self._repelling else None
        key = scheduling_key(incoming), labels
        if key not in self._kinds:
            nodes = self._suitable_nodes.open_to(incoming)
            self._kinds[key] = _PodKind(incoming, nodes, self.node_infos, self._repelling, len(self._changes))
        pod = replace(incoming.pod)
        entry = self._entries[pod] = QueuedPod(pod, self._kinds[key], job, origin)
        return entry

    def _retry(self) -> None:
        for _ in range(_ROUNDS):
            before = self._departures
            self._try_pending(self._pending)
            if self._departures == before:
                return

    def _try_pending(self, entries: Sequence[QueuedPod]) -> None:
        """Try some of the pending pods, the most important first."""
        chosen = set(entries)
        self._pending = [entry for entry in self._pending if entry not in chosen]
        left = [entry for entry in sorted(entries, key=_rank) if not self._try(entry)]
        self._pending += left

    def _try(self, entry: QueuedPod) -> bool:
        """Return True if a pod is bound, or no longer wanted. Source: ``schedule_one.go``, schedulingAlgorithm."""
        if entry.origin in self._not_recreated:
            return True
        kind = entry.kind
        stage = self._departures if kind.alone else len(self._changes)
        if kind.failed_at == stage:
            return False
        self._update_rooms(kind)
        if kind.rooms:
            self._bind(entry, kind.ranks.best(kind.rooms, last=self._last))
            return True
        found = self._cheapest_eviction(kind) if kind.incoming.preempts else None
        if found is None:
            kind.failed_at = stage
            return False
        place, choice = found
        self._evict(entry, choice)
        # Freed room is reserved (nominated): only more important pods may take it.
        self._try_pending([other for other in self._pending if other.pod.priority > entry.pod.priority])
        self._update_rooms(kind)
        if kind.rooms:
            self._bind(entry, place if place in kind.rooms else kind.ranks.best(kind.rooms, last=self._last))
        return bool(kind.rooms)

    def _update_rooms(self, kind: _PodKind) -> None:
        """Update the nodes with room for a pod. Source: ``schedule_one.go``, findNodesThatPassFilters."""
        if not kind.alone:
            for _, before, now in self._changes[kind.counted :]:
                kind.census = updated_counts(kind.census, kind.incoming, before, now)
            kind.counted = len(self._changes)
        for place in self._nodes_to_check(kind):
            node_info = self.node_infos[place]
            if may_run(kind.incoming, node_info, kind.census):
                kind.rooms[place] = resource_score(kind.incoming.pod, node_info)
            else:
                kind.rooms.pop(place, None)
        kind.rooms_at = len(self._changes)

    def _nodes_to_check(self, kind: _PodKind) -> Iterable[int]:
        """Return the nodes that may have or lack room since the last update."""
        since = kind.rooms_at
        if since < 0 or (since < len(self._changes) and not kind.alone):
            return kind.nodes
        return {place for place, _, _ in self._changes[since:] if place in kind.open_to}

    def _cheapest_eviction(self, kind: _PodKind) -> tuple[int, Eviction] | None:
        """Return the node on which evicting costs least. Source: ``preemption.go``, SelectCandidate."""
        found = ((place, self._eviction(kind, self.node_infos[place])) for place in kind.nodes)
        possible = [(place, eviction) for place, eviction in found if eviction is not None]
        order = -1 if self._last else 1
        return min(possible, key=lambda item: (item[1].cost, order * item[0]), default=None)

    def _eviction(self, kind: _PodKind, node_info: NodeInfo) -> Eviction | None:
        incoming = kind.incoming
        lower = node_info.below(incoming.pod.priority)
        if lower is None:
            return None
        has, used = node_info.node.allocatable, node_info.used
        for name, amount in incoming.pod.requests.items():
            if amount > has.get(name, 0) - used.get(name, 0) + lower.get(name, 0):
                return None
        rule = failing_rule(incoming, node_info, kind.census)
        if rule is None or not rule.resolvable:
            return None

        def fits(changed: NodeInfo) -> bool:
            now = kind.census if kind.alone else updated_counts(kind.census, incoming, node_info, changed)
            return may_run(incoming, changed, now)

        return find_eviction(incoming, node_info, fits, self._budgets)

    def _bind(self, entry: QueuedPod, place: int) -> None:
        self._change(place, self.node_infos[place].with_pod(entry.pod))
        self._places[entry.pod] = place
        self.bound[entry.job] += 1

    def _change(self, place: int, now: NodeInfo) -> None:
        self._changes.append((place, self.node_infos[place], now))
        self.node_infos[place] = now

    def _evict(self, entry: QueuedPod, found: Eviction) -> None:
        """Remove victims and the pods that end with them; queue the pods that controllers recreate."""
        mine = self.evicted.setdefault(entry.job, [])
        self._gone += found.victims
        lost = self._recreated.jobs.lost_with(self._gone)
        self._not_recreated |= lost.not_recreated
        for pod in dict.fromkeys((*found.victims, *lost.ending, *(self._promised & lost.not_recreated))):
            if pod not in self._places:
                continue
            place = self._places.pop(pod)
            self._change(place, self.node_infos[place].without([pod]))
            own = self._entries.get(pod)
            if own is None and pod not in self._promised:
                mine.append((pod, place))
            if own is not None:
                self.bound[own.job] -= 1
                self._later.append(own)
            elif pod not in lost.not_recreated and (again := self._recreated.of(pod)) is not None:
                of_job = self._recreated.jobs.domain_of(pod) is not None
                (self._later if of_job else self._pending).append(self._entry(again, origin=pod))
        self._departures += 1


def _rank(entry: QueuedPod) -> int:
    """Source: ``queuesort/priority_sort.go``, Less."""
    return -entry.pod.priority
