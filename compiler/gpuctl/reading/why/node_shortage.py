"""Rules for pods without room on any node: which resource is short, who holds it, and what would help."""

from __future__ import annotations

from collections.abc import Callable

from gpuctl.capacity.devices.device_requests import class_of, is_device_class
from gpuctl.capacity.fit.shortage import PODS, eligible_nodes, resource_balance, resource_holders
from gpuctl.capacity.fit.smallest_change import SmallestChange, smallest_change
from gpuctl.capacity.fit.verdicts import with_unit_names
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.cluster_state import initial_state
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo
from gpuctl.capacity.scheduler.scheduling import ROOM, nodes_that_pass
from gpuctl.hints import command_line, kubectl_line
from gpuctl.language.mig_profiles import KNOWN_PROFILES, resource_of
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.elastic_jobs import node_bounds
from gpuctl.objects.role_jobs import role_of
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.why.finding import Finding, Proof, in_namespace
from gpuctl.reading.why.pending_pods import PendingPods, capacity_of, other_vendor
from gpuctl.reading.why.scheduler_message import shortage_of

_HOLDERS = 3
_HASH = "pod-template-hash"


def shortage(pending: PendingPods) -> Finding | None:
    """No usable node has enough free resources.

    Resources are checked one after another, GPUs first, each on the nodes that have enough of the previous ones. The
    first resource that no remaining node has enough of is reported.
    """
    return (
        _narrowed(pending, pending.usable_nodes, NodeInfo.free)
        if pending.usable_nodes and not pending.nodes_with_room
        else None
    )


def too_large(pending: PendingPods) -> Finding | None:
    """No selected node is large enough for a pod, even when empty."""
    return (
        _narrowed(pending, pending.selected_nodes, capacity_of)
        if pending.selected_nodes and not pending.large_nodes
        else None
    )


def _narrowed(pending: PendingPods, left: list[NodeInfo], amount: Callable[[NodeInfo, str], int]) -> Finding | None:
    own = {**pending.incoming.pod.requests, PODS: 1}
    gpus = pending.evidence.settings.gpu_resources
    order = sorted(own, key=lambda name: (name not in gpus, "/" not in name, name not in ("cpu", "memory"), name))
    passed: list[str] = []
    for resource in order:
        enough = [node_info for node_info in left if amount(node_info, resource) >= own[resource]]
        if not enough:
            return _short(pending, resource, own[resource], left, passed)
        if len(enough) < len(left):
            passed.append(resource)
        left = enough
    return None


def _short(pending: PendingPods, resource: str, need: int, left: list[NodeInfo], passed: list[str]) -> Finding:
    assert pending.demand is not None
    assert pending.cluster is not None
    best = max(
        left, key=lambda node_info: (node_info.free(resource), capacity_of(node_info, resource), node_info.node.name)
    )
    free = max(0, best.free(resource))
    most = max(capacity_of(node_info, resource) for node_info in left)
    total = sum(max(0, node_info.free(resource)) for node_info in pending.usable_nodes or left)
    # What other jobs hold is no reason if no node is large enough.
    held = resource_holders(resource, left) if need <= most else []
    change = None if pending.evidence.skips_suggestions else _change(pending.cluster, pending.demand)
    numbers = {
        "waitingPods": pending.number,
        "resource": resource,
        "needPerPod": with_unit_names({resource: need}),
        "free": with_unit_names({resource: total}),
        "largestNode": {"name": best.node.name, **with_unit_names({resource: free})},
        "largestCapacity": with_unit_names({resource: most}),
        "openNodes": len(pending.usable_nodes),
        "heldBy": [
            {
                "namespace": item.namespace,
                "job": item.owner,
                "pods": item.pods,
                **with_unit_names({resource: item.amount}),
            }
            for item in held
        ],
        "smallestChange": None if change is None else change.text,
    }
    gpus = pending.evidence.settings.scarce_gpu_resources
    cause = "too-many-pods" if resource == PODS else shortage_of(_counted_as(pending, resource), gpus)
    message = _sentence(pending, resource, need, free, most, left, passed)
    holding = tuple(
        Proof(
            "status",
            in_namespace(item.owner, item.namespace),
            say("holds {amount} ({pods:pod})", amount=pending.units(resource, item.amount), pods=item.pods),
        )
        for item in held[:_HOLDERS]
    )
    largest = Proof(
        "status",
        f"node/{best.node.name}",
        say(
            "{free} free of {total}",
            free=pending.units(resource, free),
            total=pending.units(resource, capacity_of(best, resource)).split()[0],
        ),
    )
    fix = _fix(pending, resource, need, most, change, left)
    return Finding(cause, message, numbers, fix, (*pending.sources, largest, *holding), pending.name, pending.number)


def _change(cluster: ClusterModel, demand: Demand) -> SmallestChange | None:
    nodes = eligible_nodes(demand.groups[0][0].incoming, cluster.node_infos)
    found = resource_balance(demand, nodes)
    state = initial_state(cluster.node_infos, cluster.names_hosts)
    return smallest_change(state, demand, found, (), names_hosts=cluster.names_hosts)


def _sentence(
    pending: PendingPods, resource: str, need: int, free: int, most: int, left: list[NodeInfo], passed: list[str]
) -> Sentence:
    nodes = len(left)
    if resource == PODS:
        known = {"prefix": pending.prefix, "nodes": nodes, "most": most}
        if nodes == 1:
            return say("{prefix}the only node that it may use runs as many pods as kubelet allows ({most})", **known)
        return say("{prefix}all {nodes} nodes that it may use run as many pods as kubelet allows ({most})", **known)
    asked = {
        "prefix": pending.prefix,
        "pods": pending.number,
        "amount": pending.amount(resource, need),
        "where": pending.where,
    }
    wants = say("{prefix}{pods:needs/each needs} {amount} on one node", **asked)
    if pending.pool is not None:
        wants = say("{prefix}{pods:needs/each needs} {amount} on one node of {where}", **asked)
    enough = [pending.amount(name, pending.incoming.pod.requests.get(name, 1)) for name in passed]
    if not most and passed:
        return say(
            "{wants}; none of the nodes with {enough:and} has any {resource}",
            wants=wants,
            enough=enough,
            resource=resource,
        )
    if not most:
        other = other_vendor(pending, left) if resource in pending.evidence.settings.gpu_resources else None
        more = (
            say("; {nodes:few} {number:has/have} {resource}", nodes=other[2], number=len(other[2]), resource=other[1])
            if other
            else ""
        )
        return say("{wants}; no node there has any {resource}{more}", wants=wants, resource=resource, more=more)
    if need > most:
        size = pending.units(resource, most).split()[0]
        return say("{wants}; the largest has {size} in all, so it never fits", wants=wants, size=size)
    found = {"wants": wants, "enough": enough, "room": pending.units(resource, free).split()[0]}
    if passed:
        return say("{wants}; the best node with {enough:and} free has only {room}", **found)
    if nodes == 1:
        return say("{wants}; the only node has {room} free", **found)
    return say("{wants}; the best node has {room} free", **found)


def _fix(
    pending: PendingPods, resource: str, need: int, most: int, change: SmallestChange | None, left: list[NodeInfo]
) -> Sentence:
    if resource == PODS:
        return say("delete other pods there, or add nodes")
    is_gpu = resource in pending.evidence.settings.gpu_resources
    if 0 < most < need and is_gpu and (spread := _over_nodes(pending, resource, need, most, left)) is not None:
        return spread
    if change is not None:
        return Sentence(kubectl_line("uncordon", change.uncordoned)) if change.uncordoned else change.text
    if not most and is_gpu and (other := other_vendor(pending, left)) is not None:
        return say(
            "`resources.gpu-vendor: {vendor}` asks for {resource}; or use another `resources.pool`",
            vendor=other[0],
            resource=other[1],
        )
    pools = command_line("get pools")
    if not most and is_device_class(resource):
        return say(
            "use another `resources.pool`, or let a driver offer devices of {resource} there: {pools}",
            resource=resource,
            pools=pools,
        )
    if not most:
        return say(
            "use another `resources.pool`, or let a device plugin offer {resource} there: {pools}",
            resource=resource,
            pools=pools,
        )
    if most < need:
        return say("ask for at most {amount} per pod", amount=pending.units(resource, most))
    return say(
        "wait for other jobs, add nodes, or use another `resources.pool`: {pools} shows what is free", pools=pools
    )


def _over_nodes(pending: PendingPods, resource: str, need: int, most: int, left: list[NodeInfo]) -> Sentence | None:
    """Return a fix: spread the GPUs evenly over the fewest nodes that can hold them.

    None if the nodes together are too small, and for jobs that cannot have a fixed number of nodes.
    """
    job = pending.evidence.job
    workload, role = job.active, role_of(pending.pod)
    if job.identity.kind != "training" or (workload is not None and (is_array(workload) or node_bounds(workload))):
        return None
    nodes = next(number for number in range(2, need + 1) if need % number == 0 and need // number <= most)
    total = nodes * (pending.number if role is not None else max(1, pending.evidence.wanted, pending.number))
    if sum(capacity_of(node_info, resource) // (need // nodes) for node_info in left) < total:
        return None
    if role is not None:
        return say(
            "spread it over {nodes} times the nodes: `nodes` of role `{role}`, each with `gpu: {gpus}`",
            nodes=nodes,
            role=role,
            gpus=need // nodes,
        )
    return say(
        "spread it over more nodes: `resources.nodes: {total}` with `resources.gpu: {gpus}`",
        total=total,
        gpus=need // nodes,
    )


def rollout(pending: PendingPods) -> Finding | None:
    """New pods of a Deployment wait for resources that its own old pods hold; without these they would fit."""
    workload, revision = pending.evidence.job.workload, labels_of(pending.pod).get(_HASH)
    if (
        workload is None
        or workload["kind"] != "Deployment"
        or revision is None
        or pending.nodes_with_room
        or not pending.usable_nodes
    ):
        return None
    own = {
        pod["metadata"]["name"]
        for pod in pending.evidence.pods
        if labels_of(pod).get(_HASH) != revision and not has_ended(pod)
    }
    namespace = pending.evidence.job.identity.namespace
    for node_info in pending.usable_nodes:
        old = [pod for pod in node_info.pods if pod.namespace == namespace and pod.name in own]
        without = node_info.without(old)
        if not old or not nodes_that_pass(ROOM, pending.incoming, [without], pending.neighbour_counts):
            continue
        short = next(
            name
            for name in sorted(pending.incoming.pod.requests, key=lambda n: "/" not in n)
            if node_info.free(name) < pending.incoming.pod.requests[name]
        )
        need = pending.amount(short, pending.incoming.pod.requests[short])
        rolling = ((workload.get("spec") or {}).get("strategy") or {}).get("rollingUpdate") or {}
        surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
        message = say(
            "{prefix}its new pods wait for {amount} that its own old pods hold, and those stay until the new ones are "
            "ready (maxSurge {surge}, maxUnavailable {unavailable})",
            prefix=pending.prefix,
            amount=need,
            surge=surge,
            unavailable=unavailable,
        )
        numbers = {
            "waitingPods": pending.number,
            "oldPods": len(own),
            "resource": short,
            "maxSurge": surge,
            "maxUnavailable": unavailable,
        }
        told_by = tuple(
            Proof("status", f"pod/{pod.name}", say("an old pod on {node}", node=node_info.node.name))
            for pod in old[:_HOLDERS]
        )
        spec = '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}'
        fix = Sentence(kubectl_line("patch deployment", workload["metadata"]["name"], "-n", namespace, f"-p '{spec}'"))
        return Finding(
            "rollout-deadlock", message, numbers, fix, (*pending.sources, *told_by), pending.name, pending.number
        )
    return None


def _counted_as(pending: PendingPods, resource: str) -> str:
    """Return the extended resource that devices of a class of GPUs stand for; other resources unchanged.

    Slices of all profiles are GPUs alike, so the first profile stands for them.
    """
    settings = pending.evidence.settings
    if is_device_class(resource):
        if class_of(resource) == settings.profile_class:
            return resource_of(KNOWN_PROFILES[0])
        for vendor, device_class in settings.device_classes.items():
            if device_class == class_of(resource) and vendor in settings.gpu_chips:
                return next(iter(settings.gpu_chips[vendor].values())).resource
    return resource
