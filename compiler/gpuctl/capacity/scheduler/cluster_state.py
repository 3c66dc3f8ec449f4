"""A state of the cluster while pods are placed: the nodes with their pods, the placed and the evicted pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from gpuctl.capacity.scheduler.preemption import Eviction
from gpuctl.capacity.scheduler.scheduler_model import HOST_NAME, IncomingPod, NodeInfo, PlacedPod
from gpuctl.capacity.scheduler.scheduling import (
    NO_NEIGHBOURS,
    may_run,
)
from gpuctl.objects.selectors import selector_matches


class PodGroup(NamedTuple):
    """Identical pods of one workload. ``number`` distinguishes the groups of one call."""

    number: Hashable
    incoming: IncomingPod

    @property
    def is_independent(self) -> bool:
        """True if its pods have no rules about other pods."""
        return not self.incoming.has_neighbours

    def depends_on(self, pod: PlacedPod) -> bool:
        """Return True if another pod affects the group on more than that pod's own node."""
        incoming = self.incoming
        apart = (term for term in incoming.pod.anti_affinity if term.topology != HOST_NAME)
        if any(term.matches(pod) for term in chain(incoming.affinity, apart)):
            return True
        return any(selector_matches(rule.selector, pod.labels) for rule in incoming.spread)

    @property
    def is_order_independent(self) -> bool:
        """True if the number of pods that fit does not depend on the order in which nodes are tried.

        With one rule that matches the group's own pods, a placed pod takes room in its own domain only. The order
        decides if two or more such rules apply, or if the first pod pins the rest to its domain.
        """
        own = self.incoming.pod
        return len(self._domains) <= 1 and not any(term.matches(own) for term in self.incoming.affinity)

    @property
    def _domains(self) -> list[str]:
        own = self.incoming.pod
        apart = [term.topology for term in own.anti_affinity if term.topology != HOST_NAME and term.matches(own)]
        return apart + [rule.topology for rule in self.incoming.spread if selector_matches(rule.selector, own.labels)]


@dataclass(frozen=True, eq=False)
class ClusterState:
    """A possible state of the cluster: the nodes that differ from ``base``, and the events that led there.

    ``classes``: equal for identical nodes of ``base``. ``placed``: number of pods by group. ``leaving``: victims by
    node that may or may not have terminated yet. ``certain``: the victims of all evictions are certain.
    """

    base: Sequence[NodeInfo]
    classes: Sequence[Hashable]
    changed: Mapping[int, NodeInfo] = field(default_factory=dict)
    placed: Mapping[Hashable, int] = field(default_factory=dict)
    evicted: tuple[PlacedPod, ...] = ()
    leaving: Mapping[int, tuple[PlacedPod, ...]] = field(default_factory=dict)
    certain: bool = True

    def node_info(self, index: int) -> NodeInfo:
        """Return a node in this state."""
        return self.changed.get(index, self.base[index])

    @property
    def node_infos(self) -> Iterator[NodeInfo]:
        """All nodes in this state."""
        return (self.changed.get(index, node_info) for index, node_info in enumerate(self.base))

    def view(self, gone: frozenset[int]) -> list[NodeInfo]:
        """Return all nodes with the victims that are still terminating.

        :param gone: nodes whose victims have left.
        """
        return [
            node_info
            if index in gone or index not in self.leaving
            else NodeInfo(node_info.node, node_info.pods + self.leaving[index])
            for index, node_info in enumerate(self.node_infos)
        ]

    def place(self, index: int, group: PodGroup, number: int = 1) -> ClusterState:
        """Return the state with pods of a group placed on a node."""
        node_info = self.node_info(index)
        node_info = NodeInfo(node_info.node, node_info.pods + (group.incoming.pod,) * number)
        placed = {**self.placed, group.number: self.placed.get(group.number, 0) + number}
        return replace(self, changed={**self.changed, index: node_info}, placed=placed)

    def put(self, index: int, pod: PlacedPod) -> ClusterState:
        """Return the state with a pod placed on a node that belongs to no group."""
        return replace(self, changed={**self.changed, index: self.node_info(index).with_pod(pod)})

    def evict(self, index: int, eviction: Eviction, group: PodGroup) -> ClusterState:
        """Return the state with a node's victims terminating and a pod of the group nominated to the node.

        The pod counts as running there at once, because its nomination reserves the room.
        """
        known = set(chain(self.evicted, *self.leaving.values()))
        new = tuple(pod for pod in eviction.victims if pod not in known)
        left = replace(
            self,
            changed={**self.changed, index: self.node_info(index).without(eviction.victims)},
            evicted=self.evicted + new,
            leaving={**self.leaving, index: self.leaving.get(index, ()) + new},
            certain=self.certain and eviction.certain,
        )
        return left.place(index, group)

    def key(self, index: int) -> Hashable:
        """Return a value that is equal for nodes that are identical in this state."""
        node_info = self.changed.get(index)
        if node_info is None:
            return self.classes[index]
        leaving = tuple(sorted(map(id, self.leaving.get(index, ()))))
        return self.classes[index], frozenset(Counter(map(id, node_info.pods)).items()), leaving

    @property
    def signature(self) -> Hashable:
        """A value that is equal for states that differ only in the names of identical nodes."""
        keys = frozenset(Counter(self.key(index) for index in self.changed).items())
        return keys, frozenset(map(id, self.evicted)), frozenset(self.placed.items()), self.certain


class Placements(NamedTuple):
    """The states in which placing pods may end. Not ``exhaustive``: other states are possible.

    ``is_uniform``: all possible states, followed or not, place the same number of pods, and either all of them or none
    evict.
    """

    states: list[ClusterState]
    exhaustive: bool
    is_uniform: bool

    @property
    def number(self) -> int | None:
        """The number of placed pods if it is the same in all possible states, else None."""
        placed = {sum(state.placed.values()) for state in self.states}
        return placed.pop() if len(placed) == 1 and (self.exhaustive or self.is_uniform) else None

    def surely_places(self, groups: Iterable[tuple[PodGroup, int]]) -> bool:
        """Return True if all pods are placed without evictions in all possible states."""
        return self.number == sum(number for _, number in groups) and not any(state.evicted for state in self.states)


def initial_state(node_infos: Sequence[NodeInfo], named_hosts: bool) -> ClusterState:
    """Return the state before anything is placed.

    :param named_hosts: pods may select nodes by name, so no two nodes are identical.
    """
    return ClusterState(
        node_infos, [_class(index, node_info, named_hosts) for index, node_info in enumerate(node_infos)]
    )


def _class(index: int, node_info: NodeInfo, named_hosts: bool) -> Hashable:
    """Return a value that is equal for nodes that no pod can tell apart. A node with pods is a class of its own."""
    if named_hosts or node_info.pods:
        return index
    node = node_info.node
    labels = frozenset(item for item in node.labels.items() if item[0] != HOST_NAME)
    room = frozenset(node.allocatable.items()), frozenset(node.attachable.items()), node.attached, node.shared
    return labels, room, str(node.taints), node.unschedulable, HOST_NAME in node.labels


def pods_that_fit(node_info: NodeInfo, group: PodGroup, most: int) -> int:
    """Return how many pods of an independent group fit on a node, at most ``most``."""
    pod = group.incoming.pod
    number = min(most, node_info.free("pods"))
    has, used = node_info.node.allocatable, node_info.used
    for name, amount in node_info.node.charged(pod.requests).items():
        if number <= 0:
            return 0
        number = min(number, (has.get(name, 0) - used.get(name, 0)) // amount)
    # Amounts exclude most nodes and are the cheapest to check.
    if number <= 0 or not may_run(group.incoming, node_info, NO_NEIGHBOURS):
        return 0
    return 1 if pod.ports else number
