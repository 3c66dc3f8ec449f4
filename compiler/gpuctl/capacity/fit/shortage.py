"""The shortage of a job: the resources it lacks, the workloads that hold them, and the smallest change that helps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAININGS
from gpuctl.objects.quantities import sum_by_key

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


def resource_balance(demand: Demand, nodes: Sequence[NodeInfo]) -> ResourceBalance:
    """Return need, free amounts and holders. If pods differ, those that need most room on their node count.

    :param nodes: the nodes open to these pods.
    """
    need = sum_by_key(
        {name: amount * number for name, amount in group.incoming.pod.requests.items()}
        for group, number in demand.groups
    )
    if not demand.groups:
        return ResourceBalance({}, need, {}, None, PODS, [])
    own = demand.groups[0][0].incoming.pod.requests
    names = [*sorted(own, key=lambda name: "/" not in name), PODS]
    left = {name: [max(0, node_info.free(name)) for node_info in nodes] for name in names}
    scarce = min(names, key=lambda name: sum(amount // own.get(name, 1) for amount in left[name]))
    free = {name: sum(amounts) for name, amounts in left.items()}
    largest = None
    if nodes:
        place = left[scarce].index(max(left[scarce]))
        largest = nodes[place].node.name, {name: amounts[place] for name, amounts in left.items()}
    return ResourceBalance(own, need, free, largest, scarce, resource_holders(scarce, nodes))


def resource_holders(resource: str, node_infos: Iterable[NodeInfo]) -> list[ResourceHolder]:
    """Return the holders of a resource on some nodes, the largest first."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for node_info in node_infos:
        for holder, amount in node_info.held(resource):
            found.setdefault(holder, []).append(amount)
    holders = [ResourceHolder(*holder, len(amounts), sum(amounts)) for holder, amounts in sorted(found.items())]
    return sorted(holders, key=lambda holder: -holder.amount)


def pods_differ(demand: Demand, found: ResourceBalance) -> bool:
    """Return True if not all pods of a job ask for the same, as those of roles."""
    return any(group.incoming.pod.requests != found.per_pod for group, _ in demand.groups)


def describe_shortage(demand: Demand, found: ResourceBalance, starts: int) -> str:
    """Return why not all pods of a job have room now."""
    asked: list[str] = [format_units(name, amount) for name, amount in found.per_pod.items()] or [say("no resources")]
    if found.largest is None:
        return say("no node is open to its pods")
    name, room = found.largest
    room_there = format_units(found.scarce, room[found.scarce]).split()[0]
    free = format_units(found.scarce, found.free[found.scarce])
    here = say("{free} free in total, at most {most} on one node ({node})", free=free, most=room_there, node=name)
    each = "" if pods_differ(demand, found) else say(" ({amount} each)", amount=asked)
    return say(
        "{starts} of {pods} pods{each} have room now; {here}", starts=starts, pods=demand.pods, each=each, here=here
    )


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
    ports = [str(port.number) for port in incoming.pod.ports]
    where = say("on {free} of {nodes:node} with room", free=len(free), nodes=len(roomy))
    other = say("; `job.master_port` sets the rendezvous port of a training") if demand.kind in TRAININGS else ""
    return say(
        "{starts} of {pods} pods have room now: each needs the host port {ports}, which is free {where}{other}",
        starts=starts,
        pods=demand.pods,
        ports=ports,
        where=where,
        other=other,
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
        return say("the cluster has no nodes")
    parts = [_excluded(name, incoming, among) for name, among in excluded.items()]
    return say("no node takes one of its pods: {parts}", parts=parts)


def _excluded(rule: str, incoming: IncomingPod, node_infos: Sequence[NodeInfo]) -> str:
    """Return a part such as ``3 excluded by taints``, ``2 excluded by resources (16 nvidia.com/gpu needed, the largest,
    gpu-1, has 8)``.
    """
    said = say("{nodes} excluded by {rule}", nodes=len(node_infos), rule=rule)
    if rule == "node-selector":
        return say(
            "{said} ({labels})", said=said, labels=[f"{key}={value}" for key, value in incoming.node_selector.items()]
        )
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
    return say(
        "{said} ({amount} needed, the largest, {node}, has {most})",
        said=said,
        amount=format_units(short, asked[short]),
        node=best.node.name,
        most=most,
    )
