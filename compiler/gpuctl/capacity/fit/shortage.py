"""The shortage of a job: the resources it lacks, the workloads that hold them, and the smallest change that helps."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import compress, repeat
from operator import attrgetter, floordiv, is_not
from typing import NamedTuple

from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, NodeInfo, Units, format_units
from gpuctl.capacity.scheduler.scheduling import (
    NO_NEIGHBOURS,
    ROOM,
    count_neighbours,
    failing_rule,
    nodes_that_pass,
    rules_named,
)
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import TRAININGS

PODS = "pods"
"""The number of pods that a node runs: a resource in its ``allocatable``."""


class ResourceHolder(NamedTuple):
    """A workload that holds some of the scarce resource."""

    namespace: str
    owner: str
    priority: int
    pods: int
    amount: int


class ResourceBalance(NamedTuple):
    """Needed and free resources of a job on the nodes open to it. ``scarce``: the resource with room for the fewest
    pods.
    """

    per_pod: Units
    need: Units
    free: Units
    largest: tuple[str, Units] | None
    scarce: str
    held_by: list[ResourceHolder]


def eligible_nodes(incoming: IncomingPod, node_infos: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Return the nodes that pass the node rules for a pod: cordon, taints, node selector, node affinity, volumes."""
    rules = rules_named("cordon", "taints", "node-selector", "node-affinity", "volumes")
    return nodes_that_pass(rules, incoming, node_infos, NO_NEIGHBOURS)


def resource_balance(
    demand: Demand, node_infos: Sequence[NodeInfo], counted: CountedNodes | None = None
) -> ResourceBalance:
    """Return need, free amounts and holders. If pods differ, those that need most room on their node count.

    :param counted: the nodes open to the pods with earlier counts, if known.
    """
    need: Units = {}
    for group, number in demand.groups:
        for name, amount in group.incoming.pod.requests.items():
            need[name] = need.get(name, 0) + amount * number
    if not demand.groups:
        return ResourceBalance({}, need, {}, None, PODS, [])
    incoming = demand.groups[0][0].incoming
    own = incoming.pod.requests
    if counted is None:
        node_infos = eligible_nodes(incoming, node_infos)
        counted = CountedNodes(range(len(node_infos)))
    nodes = counted.follow(node_infos)
    names = [*sorted(own, key=lambda name: "/" not in name), PODS]
    left = {name: counted.left(name) for name in names}
    rooms = {name: _rooms(left[name], own.get(name, 1)) for name in names}
    scarce = min(names, key=rooms.__getitem__)
    free = {name: sum(left[name]) for name in names}
    most = max(left[scarce], default=0)
    best = nodes[left[scarce].index(most)] if nodes else None
    largest = None if best is None else (best.node.name, {name: max(0, best.free(name)) for name in names})
    return ResourceBalance(own, need, free, largest, scarce, counted.held(scarce))


def _left(name: str, node_infos: Sequence[NodeInfo]) -> list[int]:
    """Return the free amount of a resource on each node, at least 0."""
    if name == PODS:
        left = [node_info.node.allocatable.get(name, 0) - len(node_info.pods) for node_info in node_infos]
    else:
        left = [node_info.node.allocatable.get(name, 0) - node_info.used.get(name, 0) for node_info in node_infos]
    return [amount if amount > 0 else 0 for amount in left]


def _rooms(left: Sequence[int], amount: int) -> int:
    """Return how many times an amount fits, summed over the nodes."""
    return sum(left) if amount == 1 else sum(map(floordiv, left, repeat(amount)))


class CountedNodes:
    """Incremental counts of free and held resources on some nodes, given by number; only changes are recounted."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._node_infos: list[NodeInfo] = []
        self._left: dict[str, list[int]] = {}
        self._held: dict[str, HeldAmounts] = {}

    def follow(self, node_infos: Sequence[NodeInfo]) -> list[NodeInfo]:
        """Return the current state of these nodes and update the counts.

        :param node_infos: all nodes.
        """
        before, self._node_infos = self._node_infos, [node_infos[number] for number in self._numbers]
        if self._left:
            changed = list(compress(range(len(before)), map(is_not, before, self._node_infos)))
            now = [self._node_infos[index] for index in changed]
            for name, left in self._left.items():
                for index, amount in zip(changed, _left(name, now), strict=True):
                    left[index] = amount
        return self._node_infos

    def left(self, name: str) -> Sequence[int]:
        """Return the free amount of a resource on each node."""
        if name not in self._left:
            self._left[name] = _left(name, self._node_infos)
        return self._left[name]

    def held(self, name: str) -> list[ResourceHolder]:
        """Return the holders of a resource on these nodes."""
        return self._held.setdefault(name, HeldAmounts(name)).of(self._node_infos)


class HeldAmounts:
    """Incremental sums of a resource by holder; only changed nodes are recounted."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._node_infos: Sequence[NodeInfo | None] = ()
        self._found: dict[tuple[str, str, int], ResourceHolder] = {}
        self._in_order: list[tuple[str, str, int]] = []

    def of(self, node_infos: Sequence[NodeInfo]) -> list[ResourceHolder]:
        """Return the holders on these nodes, the largest first. Each call must pass the same nodes, in one order."""
        before = self._node_infos or [None] * len(node_infos)
        for index in compress(range(len(node_infos)), map(is_not, before, node_infos)):
            self._count(before[index], -1)
            self._count(node_infos[index], 1)
        self._node_infos = node_infos
        # Python's sort is stable, also with ``reverse``.
        holders = map(self._found.__getitem__, self._in_order)
        return sorted(holders, key=attrgetter("amount"), reverse=True)

    def _count(self, node_info: NodeInfo | None, sign: int) -> None:
        found = self._found
        for key, amount in node_info.held(self._resource) if node_info else ():
            before = found.get(key)
            if before is None:
                insort(self._in_order, key)
                found[key] = ResourceHolder(*key, sign, sign * amount)
            elif before.pods + sign:
                found[key] = ResourceHolder(*key, before.pods + sign, before.amount + sign * amount)
            else:
                del found[key], self._in_order[bisect_left(self._in_order, key)]


def resource_holders(resource: str, node_infos: Sequence[NodeInfo]) -> list[ResourceHolder]:
    """Return the holders of a resource on some nodes, the largest first."""
    return HeldAmounts(resource).of(node_infos)


def pods_differ(demand: Demand, found: ResourceBalance) -> bool:
    """Return True if not all pods of a job ask for the same, as those of roles."""
    return any(group.incoming.pod.requests != found.per_pod for group, _ in demand.groups)


def describe_shortage(demand: Demand, found: ResourceBalance, starts: int) -> str:
    """Return why not all pods of a job have room now."""
    asked = ", ".join(format_units(name, amount) for name, amount in found.per_pod.items()) or "no resources"
    if found.largest is None:
        return "no node is open to its pods"
    name, room = found.largest
    room_there = format_units(found.scarce, room[found.scarce]).split()[0]
    free = format_units(found.scarce, found.free[found.scarce])
    here = f"{free} free in total, at most {room_there} on one node ({name})"
    each = "" if pods_differ(demand, found) else f" ({asked} each)"
    return f"{starts} of {demand.pods} pods{each} have room now; {here}"


def describe_port_shortage(demand: Demand, starts: int, node_infos: Sequence[NodeInfo]) -> str:
    """Return a sentence if too few nodes have the host ports free; "" if something else is short, or nothing.

    Two pods with one host port need two nodes. The nodes are counted before the job is created.
    """
    if len(demand.groups) != 1 or not demand.groups[0][0].incoming.pod.ports:
        return ""
    incoming = demand.groups[0][0].incoming
    counted = count_neighbours(incoming, node_infos)
    roomy = nodes_that_pass(ROOM, incoming, eligible_nodes(incoming, node_infos), counted)
    free = nodes_that_pass(rules_named("host-ports"), incoming, roomy, counted)
    own = {**incoming.pod.requests, PODS: 1}
    rooms = sum(min(node_info.free(name) // amount for name, amount in own.items() if amount) for node_info in roomy)
    if len(free) >= demand.pods or rooms < demand.pods:
        return ""
    ports = ", ".join(str(port.number) for port in incoming.pod.ports)
    where = f"on {len(free)} of {count_text(len(roomy), 'node')} with room"
    other = "; `job.master_port` sets the rendezvous port of a training" if demand.kind in TRAININGS else ""
    return (
        f"{starts} of {demand.pods} pods have room now: each needs the host port {ports}, which is free {where}{other}"
    )


def describe_exclusions(incoming: IncomingPod, node_infos: Sequence[NodeInfo]) -> str:
    """Return why no node takes a pod: how many nodes each rule excludes."""
    counted = count_neighbours(incoming, node_infos)
    excluded: dict[str, list[NodeInfo]] = {}
    for node_info in node_infos:
        rule = failing_rule(incoming, node_info, counted)
        if rule is not None:
            excluded.setdefault(rule.name, []).append(node_info)
    if not excluded:
        return "the cluster has no nodes"
    parts = (_excluded(name, incoming, among) for name, among in excluded.items())
    return "no node takes one of its pods: " + ", ".join(parts)


def _excluded(rule: str, incoming: IncomingPod, node_infos: Sequence[NodeInfo]) -> str:
    """Return a part such as ``3 excluded by taints``, ``2 excluded by resources (16 nvidia.com/gpu needed, the largest,
    gpu-1, has 8)``.
    """
    said = f"{len(node_infos)} excluded by {rule}"
    if rule == "node-selector":
        return f"{said} ({', '.join(f'{key}={value}' for key, value in incoming.node_selector.items())})"
    if rule != "resources":
        return said
    asked = incoming.pod.requests
    # The resource that the fewest nodes have enough of.
    short = min(
        asked,
        key=lambda name: (sum(node_info.free(name) >= asked[name] for node_info in node_infos), "/" not in name, name),
    )
    best = max(node_infos, key=lambda node_info: node_info.free(short))
    most = format_units(short, max(0, best.free(short))).split()[0]
    return f"{said} ({format_units(short, asked[short])} needed, the largest, {best.node.name}, has {most})"
