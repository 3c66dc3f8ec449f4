"""The smallest change of a cluster, a quota or a job with which all pods of the job fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.admission.quota_charges import Shortfall
from gpuctl.capacity.fit.shortage import PODS, ResourceBalance, eligible_nodes
from gpuctl.capacity.fit.unready_nodes import is_transient_taint
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.cluster_state import ClusterState, PodGroup, initial_state
from gpuctl.capacity.scheduler.placement import place_pods
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo, Units, format_units
from gpuctl.capacity.scheduler.scheduling import untolerated_taint
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.selectors import taint_text

_UPKEEP = re.compile(
    r"node\.kubernetes\.io/|node\.cloudprovider\.kubernetes\.io/|ByClusterAutoscaler|OfClusterAutoscaler|karpenter\.sh/"
    r"|maint(?:enance|ain)|drain|repair|cordon|broken|unhealthy|quarantine|faulty|upgrad",
    re.IGNORECASE,
)
_STEPS = {"cpu": 100, "memory": 64 << 20, "ephemeral-storage": 64 << 20}
_TRIED = 32
# The node controller's taint beside ``spec.unschedulable`` (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
_CORDON = "node.kubernetes.io/unschedulable"
Groups = Sequence[tuple[PodGroup, int]]


class SmallestChange(NamedTuple):
    """A change as a sentence. ``uncordoned``: the node to uncordon; "" if the change is another one."""

    text: Sentence
    uncordoned: str = ""


def smallest_change(
    state: ClusterState, demand: Demand, found: ResourceBalance, refused: Sequence[Shortfall], *, names_hosts: bool
) -> SmallestChange | None:
    """Return the first change, smallest kinds first, with which all pods fit without evictions; None if none helps."""
    if refused:
        raised = [
            say(
                "{resource} of quota {quota} to {amount}",
                resource=item.resource,
                quota=item.quota,
                amount=format_amount(item.resource, item.total),
            )
            for item in refused
        ]
        change = SmallestChange(say("raise {raised}", raised=raised))
        return change if _fits(list(state.node_infos), demand.groups, names_hosts) else None
    for change, node_infos, groups in _changes(state, demand, found, names_hosts):
        if _fits(node_infos, groups, names_hosts):
            return change
    return None


def _fits(node_infos: Sequence[NodeInfo], groups: Groups, names_hosts: bool) -> bool:
    return place_pods(initial_state(node_infos, names_hosts), groups, ()).surely_places(groups)


def _changes(
    state: ClusterState, demand: Demand, found: ResourceBalance, names_hosts: bool
) -> Iterator[tuple[SmallestChange, Sequence[NodeInfo], Groups]]:
    node_infos, groups = list(state.node_infos), demand.groups
    cordoned = [index for index, node_info in enumerate(node_infos) if node_info.node.unschedulable]
    for index in cordoned[:_TRIED]:
        node_info = node_infos[index]
        taints = [taint for taint in node_info.node.taints if taint["key"] != _CORDON]
        opened = replace(node_info, node=replace(node_info.node, unschedulable=False, taints=taints))
        node = node_info.node.name
        change = SmallestChange(say("uncordon node {node}", node=node), uncordoned=node)
        yield change, [*node_infos[:index], opened, *node_infos[index + 1 :]], groups
    for taint in _taints(groups, node_infos)[:_TRIED]:
        change = SmallestChange(say("tolerate the taint {taint}", taint=taint_text(taint)))
        yield change, node_infos, [(_tolerant(group, taint), n) for group, n in groups]
    if len(groups) != 1:
        return
    (group, number), *_ = groups
    yield from _freed(node_infos, group, number, names_hosts)
    yield from _leaner(node_infos, group, number, found.scarce, names_hosts)
    fewer = _most(number - 1, lambda count: _fits(node_infos, [(group, count)], names_hosts))
    if fewer:
        change = SmallestChange(say("run {pods:pod} instead of {number}", pods=fewer, number=number))
        yield change, node_infos, [(group, fewer)]


def _taints(groups: Groups, node_infos: Sequence[NodeInfo]) -> list[dict[str, str]]:
    result: list[dict[str, str]] = []
    for node_info in node_infos:
        for group, _ in groups:
            taint = untolerated_taint(group.incoming, node_info.node)
            if (
                taint is not None
                and taint not in result
                and not (is_maintenance_taint(taint) or is_transient_taint(taint))
            ):
                result.append(taint)
    return result


def is_maintenance_taint(taint: dict[str, str]) -> bool:
    """Return True if a taint marks a node as unhealthy or under maintenance: tolerating it would not help."""
    return bool(_UPKEEP.search(f"{taint.get('key')}={taint.get('value') or ''}"))


def _tolerant(group: PodGroup, taint: dict[str, str]) -> PodGroup:
    toleration = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
    incoming = replace(group.incoming, tolerations=[*group.incoming.tolerations, toleration])
    return group._replace(incoming=incoming)


def _freed(
    node_infos: Sequence[NodeInfo], group: PodGroup, number: int, names_hosts: bool
) -> Iterator[tuple[SmallestChange, Sequence[NodeInfo], Groups]]:
    """Yield freeing what the unplaced pods lack, on the nodes that lack least."""
    peaceful = group._replace(incoming=replace(group.incoming, preempts=False))
    outcome = place_pods(initial_state(node_infos, names_hosts), [(peaceful, number)], ())
    end = outcome.states[0]
    left = number - sum(end.placed.values())
    now, given = list(end.node_infos), [dict[str, int]() for _ in node_infos]
    own = {**group.incoming.pod.requests, PODS: 1}
    nodes = eligible_nodes(group.incoming, now)
    for _ in range(min(left, _TRIED)):
        lacks = []
        for index, node_info in enumerate(now):
            lack = {
                name: amount - node_info.free(name) for name, amount in own.items() if amount > node_info.free(name)
            }
            held = {name: sum(amount for _, amount in node_infos[index].held(name)) for name in lack}
            held[PODS] = len(node_infos[index].pods)
            if node_info in nodes and all(
                amount + given[index].get(name, 0) <= held[name] for name, amount in lack.items()
            ):
                share = sum(Fraction(amount, own[name]) for name, amount in lack.items())
                lacks.append((len(lack), share, index, lack))
        if not lacks:
            return
        _, _, index, lack = min(lacks, key=lambda item: item[:3])
        for name, amount in lack.items():
            given[index][name] = given[index].get(name, 0) + amount
        before = now[index]
        now[index] = _with_more(before, lack).with_pod(group.incoming.pod)
        nodes = [now[index] if node_info is before else node_info for node_info in nodes]
    # Hidden nodes have the same name and are merged.
    by_node: dict[str, Counter[str]] = {}
    for node_info, lack in zip(node_infos, given, strict=True):
        if lack:
            by_node.setdefault(f"{node_info.node.name}", Counter()).update(lack)
    parts = [
        say(
            "{amounts:and} on {node}",
            amounts=[format_units(name, amount) for name, amount in lack.items()],
            node=node,
        )
        for node, lack in by_node.items()
    ]
    if parts and left <= _TRIED:
        freed = [_with_more(node_info, lack) for node_info, lack in zip(node_infos, given, strict=True)]
        yield SmallestChange(say("free {parts}", parts=parts)), freed, [(group, number)]


def _with_more(node_info: NodeInfo, more: Units) -> NodeInfo:
    allocatable = dict(node_info.node.allocatable)
    for name, amount in more.items():
        allocatable[name] += amount
    return replace(node_info, node=replace(node_info.node, allocatable=allocatable))


def _leaner(
    node_infos: Sequence[NodeInfo], group: PodGroup, number: int, scarce: str, names_hosts: bool
) -> Iterator[tuple[SmallestChange, Sequence[NodeInfo], Groups]]:
    """Yield a smaller request of the scarce resource for each pod."""
    asked = group.incoming.pod.requests.get(scarce, 0)
    step = min(_STEPS.get(scarce, 1), max(asked, 1))

    def leaner(steps: int) -> Groups:
        pod = replace(group.incoming.pod, requests={**group.incoming.pod.requests, scarce: steps * step})
        return [(group._replace(incoming=replace(group.incoming, pod=pod)), number)]

    most = _most((asked - 1) // step, lambda steps: _fits(node_infos, leaner(steps), names_hosts))
    if most:
        change = say(
            "ask for {amount} per pod instead of {asked}",
            amount=format_units(scarce, most * step),
            asked=format_units(scarce, asked).split()[0],
        )
        yield SmallestChange(change), node_infos, leaner(most)


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to a limit that fits, or 0; if a number fits, all smaller ones must."""
    least, most = 0, max(limit, 0)
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least
