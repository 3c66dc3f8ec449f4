"""Pods that find no room: which resource is short, who has it, and what would change that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuctl.capacity.cluster_model import ClusterModel
from gpuctl.capacity.demand import Demand
from gpuctl.capacity.placement import initial_state
from gpuctl.capacity.scheduler_model import NodeInfo
from gpuctl.capacity.scheduling import RULES
from gpuctl.capacity.shortage import PODS, format_units, resource_balance, resource_holders, smallest_change
from gpuctl.capacity.verdicts import with_unit_names
from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.hidden_names import in_namespace
from gpuctl.reading.status import pod_status
from gpuctl.reading.why.finding import Finding, Proof, several
from gpuctl.reading.why.pending_pods import Case, has, other_vendor
from gpuctl.reading.why.scheduler_message import shortage_of

_HOLDERS = 3
_HASH = "pod-template-hash"


def title(taint: dict[str, Any]) -> str:
    """``key=value:NoSchedule``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def shortage(case: Case) -> Finding | None:
    """Of the nodes open to it none has enough.

    Resources are looked at one after another, GPUs first, each on the nodes that have enough of those before it: the
    first that none of them has is the one to mend.
    """
    return _narrowed(case, case.open, NodeInfo.free) if case.open and not case.roomy else None


def too_large(case: Case) -> Finding | None:
    """No selected node is large enough for a pod, even when it is empty."""
    return _narrowed(case, case.selected, has) if case.selected and not case.able else None


def _narrowed(case: Case, left: list[NodeInfo], amount: Callable[[NodeInfo, str], int]) -> Finding | None:
    own = {**case.incoming.pod.requests, PODS: 1}
    gpus = {gpu.resource: gpu for gpu in case.evidence.settings.gpus.values()}
    order = sorted(own, key=lambda name: (name not in gpus, "/" not in name, name not in ("cpu", "memory"), name))
    passed: list[str] = []
    for resource in order:
        enough = [node_info for node_info in left if amount(node_info, resource) >= own[resource]]
        if not enough:
            return _short(case, resource, own[resource], left, passed)
        if len(enough) < len(left):
            passed.append(resource)
        left = enough
    return None


def _short(case: Case, resource: str, need: int, left: list[NodeInfo], passed: list[str]) -> Finding:
    assert case.demand is not None
    assert case.cluster is not None
    best = max(left, key=lambda node_info: (node_info.free(resource), has(node_info, resource), node_info.node.name))
    free = max(0, best.free(resource))
    most = max(has(node_info, resource) for node_info in left)
    total = sum(max(0, node_info.free(resource)) for node_info in case.open or left)
    held = resource_holders(resource, left)
    change = None if case.evidence.brief else _change(case.cluster, case.demand)
    numbers = {
        "waitingPods": case.number,
        "resource": resource,
        "needPerPod": with_unit_names({resource: need}),
        "free": with_unit_names({resource: total}),
        "largestNode": {"name": best.node.name, **with_unit_names({resource: free})},
        "largestCapacity": with_unit_names({resource: most}),
        "openNodes": len(case.open),
        "heldBy": [
            {
                "namespace": item.namespace,
                "job": item.owner,
                "pods": item.pods,
                **with_unit_names({resource: item.amount}),
            }
            for item in held
        ],
        "smallestChange": change,
    }
    cause = (
        "too-many-pods"
        if resource == PODS
        else shortage_of(resource, {g.resource: g for g in case.evidence.settings.gpus.values()})
    )
    message = _sentence(case, resource, need, free, most, left, passed)
    holding = tuple(
        Proof(
            "status",
            in_namespace(item.owner, item.namespace),
            f"holds {format_units(resource, item.amount)} ({several(item.pods, 'pod')})",
        )
        for item in held[:_HOLDERS]
    )
    largest = Proof(
        "status",
        f"node/{best.node.name}",
        f"{format_units(resource, free)} free of {format_units(resource, has(best, resource)).split()[0]}",
    )
    fix = _fix(case, resource, need, most, change, left)
    return Finding(cause, message, numbers, fix, (*case.sources, largest, *holding), case.name, case.number)


def _change(cluster: ClusterModel, demand: Demand) -> str | None:
    found = resource_balance(demand, cluster.node_infos)
    state = initial_state(cluster.node_infos, cluster.names_hosts)
    return smallest_change(state, demand, found, (), names_hosts=cluster.names_hosts)


def _sentence(
    case: Case, resource: str, need: int, free: int, most: int, left: list[NodeInfo], passed: list[str]
) -> str:
    nodes = len(left)
    each = "each needs" if case.number > 1 else "needs"
    each = f"{case.whose}{each}"
    where = f"on one node of {case.where}" if case.pool is not None else "on one node"
    if resource == PODS:
        many = "the only node that it may use runs" if nodes == 1 else f"all {nodes} nodes that it may use run"
        return f"{case.whose}{many} as many pods as kubelet allows ({most})"
    wants = f"{each} {case.amount(resource, need)} {where}"
    room = format_units(resource, free).split()[0]
    if not most and passed:
        enough = " and ".join(case.amount(name, case.incoming.pod.requests.get(name, 1)) for name in passed)
        return f"{wants}; none of the nodes with {enough} has any {resource}"
    if not most:
        other = other_vendor(case, left) if resource in case.evidence.settings.gpu_resources else None
        more = (
            f"; {first_few(other[2], _HOLDERS)} {'has' if len(other[2]) == 1 else 'have'} {other[1]}" if other else ""
        )
        return f"{wants}; no node there has any {resource}{more}"
    if need > most:
        return f"{wants}; the largest has {format_units(resource, most).split()[0]} in all, so it never fits"
    if passed:
        enough = " and ".join(case.amount(name, case.incoming.pod.requests.get(name, 1)) for name in passed)
        return f"{wants}; of the nodes with {enough} free the best has {room}"
    return f"{wants}; {'the only node' if nodes == 1 else 'best node'} has {room} free"


def _fix(case: Case, resource: str, need: int, most: int, change: str | None, left: list[NodeInfo]) -> str:
    if resource == PODS:
        return "delete other pods there, or add nodes"
    is_gpu = resource in case.evidence.settings.gpu_resources
    if 0 < most < need and is_gpu and case.evidence.job.identity.kind == "training":
        return _over_nodes(case, need, most)
    if change is not None:
        uncordon = "uncordon node "
        return f"`kubectl uncordon {change.removeprefix(uncordon)}`" if change.startswith(uncordon) else change
    if not most and is_gpu and (other := other_vendor(case, left)) is not None:
        return f"`resources.gpu-vendor: {other[0]}` asks for {other[1]}; or use another `resources.pool`"
    if not most:
        return f"use another `resources.pool`, or let a device plugin offer {resource} there: `gpuctl get pools`"
    if most < need:
        return f"ask for at most {format_units(resource, most)} per pod"
    return "wait for other jobs, add nodes, or use another `resources.pool`: `gpuctl get pools` shows what is free"


def _over_nodes(case: Case, need: int, most: int) -> str:
    """As many GPUs as asked for, on the fewest nodes that can have them, with the same number on each."""
    nodes = next(number for number in range(2, need + 1) if need % number == 0 and need // number <= most)
    total = nodes * max(1, case.evidence.wanted, case.number)
    return f"spread it over more nodes: `resources.nodes: {total}` with `resources.gpu: {need // nodes}`"


def rollout(case: Case) -> Finding | None:
    """New pods of a Deployment wait for what its own old pods hold: it would fit if these were gone."""
    workload, revision = case.evidence.job.workload, labels_of(case.pod).get(_HASH)
    if workload is None or workload["kind"] != "Deployment" or revision is None or case.roomy or not case.open:
        return None
    own = {
        pod["metadata"]["name"]
        for pod in case.evidence.pods
        if labels_of(pod).get(_HASH) != revision and pod_status(pod).phase not in ("succeeded", "failed")
    }
    namespace = case.evidence.job.identity.namespace
    rules = [rule for rule in RULES if rule.name in ("pods", "resources")]
    for node_info in case.open:
        old = [pod for pod in node_info.pods if pod.namespace == namespace and pod.name in own]
        without = node_info.without(old)
        if not old or not all(rule.holds(case.incoming, without, case.counted) for rule in rules):
            continue
        short = next(
            name
            for name in sorted(case.incoming.pod.requests, key=lambda n: "/" not in n)
            if node_info.free(name) < case.incoming.pod.requests[name]
        )
        need = case.amount(short, case.incoming.pod.requests[short])
        rolling = ((workload.get("spec") or {}).get("strategy") or {}).get("rollingUpdate") or {}
        surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
        message = (
            f"{case.whose}its new pods wait for {need} that its own old pods hold, and those stay until the new ones "
            f"are ready (maxSurge {surge}, maxUnavailable {unavailable})"
        )
        numbers = {
            "waitingPods": case.number,
            "oldPods": len(own),
            "resource": short,
            "maxSurge": surge,
            "maxUnavailable": unavailable,
        }
        told_by = tuple(
            Proof("status", f"pod/{pod.name}", f"an old pod on {node_info.node.name}") for pod in old[:_HOLDERS]
        )
        spec = '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}'
        fix = f"`kubectl patch deployment {workload['metadata']['name']} -n {namespace} -p '{spec}'`"
        return Finding("rollout-deadlock", message, numbers, fix, (*case.sources, *told_by), case.name, case.number)
    return None
