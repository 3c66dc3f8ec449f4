"""Rules for pods without a node: one check for each predicate of the scheduler, against the current nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gpuctl.capacity.fit.smallest_change import is_maintenance_taint
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo
from gpuctl.capacity.scheduler.scheduling import RULES, untolerated_taint
from gpuctl.language.display_text import count_text, first_few
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import TRAININGS, annotations_of
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why import node_selection, node_shortage, resource_claims, scheduler_message
from gpuctl.reading.why.event_proofs import event_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence, mounted_claims
from gpuctl.reading.why.finding import Finding, Proof, most_urgent
from gpuctl.reading.why.pending_pods import PendingPods, is_not_ready, pending_pods

Numbers = dict[str, Any]
_LISTED = 4


def unscheduled(evidence: Evidence) -> Finding | None:
    """Pods wait for a node: the cause to fix first among all groups of identical pods."""
    found = [(pending, finding) for pending in pending_pods(evidence) if (finding := _case(pending)) is not None]
    first = most_urgent(finding for _, finding in found)
    if first is None:
        return None
    said = {finding.message.removeprefix(pending.prefix) for pending, finding in found if finding is first}
    # Pods of different roles can wait for the same.
    alike = [
        pending
        for pending, finding in found
        if finding.cause == first.cause and finding.message.removeprefix(pending.prefix) in said
    ]
    number = sum(pending.number for pending in alike)
    if len(alike) < 2 or "waitingPods" not in first.numbers:
        return first
    message = f"{replace(alike[0], number=number).prefix}{said.pop()}"
    return replace(first, message=message, numbers={**first.numbers, "waitingPods": number})


def _case(pending: PendingPods) -> Finding | None:
    if pending.reason == "SchedulingGated":
        return _gated(pending)
    chosen = _binding(pending) or resource_claims.missing_claim(pending)
    if chosen is not None:
        return chosen
    if pending.reason == "SchedulerError":
        return _claims(pending)
    if pending.reason != "Unschedulable":
        return None
    table = CHECKS if pending.demand is not None else WITHOUT_NODES
    return next((found for check in table if (found := check(pending)) is not None), None)


def _gated(pending: PendingPods) -> Finding:
    gates = [item["name"] for item in pending.pod["spec"].get("schedulingGates") or []]
    message = f"{pending.prefix}held by the scheduling gate{'s' if len(gates) > 1 else ''} {first_few(gates)}"
    fix = f"the controller that set {first_few(gates)} has to remove it; until then the scheduler ignores the pod"
    return pending.finding("scheduling-gated", message, {"gates": gates}, fix)


def _nominated(pending: PendingPods) -> Finding | None:
    """The scheduler has evicted other pods for this one, and they have not ended yet."""
    node = (pending.pod.get("status") or {}).get("nominatedNodeName")
    leaving = [
        pod for node_info in pending.node_infos if node_info.node.name == node for pod in node_info.pods if pod.deleting
    ]
    if not leaving:
        # Since 1.35 a node is also nominated while volumes and devices are prepared for the pod.
        return None
    jobs = list(dict.fromkeys(f"{pod.owner} in {pod.namespace}" for pod in leaving))
    message = (
        f"{pending.prefix}room is being made on {node}: the scheduler waits for evicted pods to end, of "
        f"{first_few(jobs)}"
    )
    told = tuple(
        Proof("status", f"pod/{pod.name} in {pod.namespace}", f"of {pod.owner}, is being deleted")
        for pod in leaving[:_LISTED]
    )
    numbers = {"node": node, "leavingPods": len(leaving), "leavingJobs": jobs}
    found = pending.finding("preempting", message, numbers, "wait until they have ended")
    return replace(found, sources=(*found.sources, *told))


def _binding(pending: PendingPods) -> Finding | None:
    """A node was chosen, and a WaitForFirstConsumer claim waits for its volume there."""
    for name in mounted_claims(pending.pod["spec"]):
        claim = pending.evidence.claims.get(name)
        node = annotations_of(claim).get(_SELECTED_NODE) if claim is not None else None
        if claim is None or node is None or (claim.get("status") or {}).get("phase") != "Pending":
            continue
        annotations, namespace = annotations_of(claim), pending.evidence.job.identity.namespace
        provisioner = next((annotations[key] for key in _PROVISIONER if key in annotations), None)
        last: dict[str, Any] = next(
            (event for event in reversed(_claim_events(pending, name)) if event.get("reason") in _PROVISIONING), {}
        )
        failed = last.get("reason") == "ProvisioningFailed"
        by = f" that {provisioner} has to provision" if provisioner else ""
        why = f": {one_line(last.get('message'))}" if failed else ""
        message = (
            f"{pending.prefix}the scheduler has chosen {node}, and the PersistentVolumeClaim {name} waits for the "
            f"volume{by}{why}"
        )
        look = f"`kubectl describe pvc {name} -n {namespace}`"
        fix = (
            f"correct what the provisioner refuses, in the claim or in its StorageClass; {look} shows it"
            if failed
            else f"wait a moment; if nothing happens, {provisioner or 'the provisioner'} does not run: {look}"
        )
        numbers = {"claim": name, "phase": "Pending", "selectedNode": node, "provisioner": provisioner}
        found = pending.finding("claim-unbound", message, numbers, fix)
        spec = Proof("status", f"persistentvolumeclaim/{name}", f"Pending; annotation {_SELECTED_NODE}: {node}")
        return replace(found, sources=known_proofs(*found.sources, spec, event_proof(last) if last else None))
    return None


_SELECTED_NODE = "volume.kubernetes.io/selected-node"
# The second name is older than 1.23 (pkg/controller/volume/persistentvolume/util).
_PROVISIONER = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_PROVISIONING = ("ExternalProvisioning", "ProvisioningFailed", "ProvisioningSucceeded", "Provisioning")


def _claims(pending: PendingPods) -> Finding | None:
    """A claim is missing, or has no volume."""
    names = [name for name in dict.fromkeys(mounted_claims(pending.pod["spec"])) if name in pending.evidence.claims]
    absent = [name for name in names if pending.evidence.claims[name] is None]
    if absent:
        listed, s = " and ".join(absent), "" if len(absent) == 1 else "s"
        message = (
            f"{pending.prefix}there {'is' if len(absent) == 1 else 'are'} no PersistentVolumeClaim{s} {listed} in "
            f"{pending.evidence.job.identity.namespace}"
        )
        fix = f"create the claim{s} {listed}, or name {'others' if s else 'another'} in `storage.workdirs[].pvc.claim`"
        return pending.finding("claim-missing", message, {"claim": absent[0], "claims": absent}, fix)
    for name in names:
        claim = pending.evidence.claims[name]
        assert claim is not None
        phase = (claim.get("status") or {}).get("phase")
        if phase == "Bound":
            continue
        if phase == "Lost":
            message = f"{pending.prefix}the volume of the PersistentVolumeClaim {name} is gone"
            return pending.finding(
                "claim-unbound",
                message,
                {"claim": name, "phase": phase},
                f"restore its volume, or delete and create {name} again",
            )
        newest = (_claim_events(pending, name) or [{}])[-1]
        if "unbound immediate" not in pending.message and newest.get("reason") != "ProvisioningFailed":
            # The claim waits for its first consumer: this pod, which has no node for another reason.
            continue
        why = one_line(newest.get("message")) if newest.get("reason") != "WaitForFirstConsumer" else ""
        message = f"{pending.prefix}the PersistentVolumeClaim {name} has no volume{f': {why}' if why else ''}"
        fix = f"`kubectl describe pvc {name} -n {pending.evidence.job.identity.namespace}` shows what it waits for"
        found = pending.finding("claim-unbound", message, {"claim": name, "phase": phase}, fix)
        told = tuple(event_proof(event) for event in _claim_events(pending, name)[-1:])
        return replace(found, sources=(*found.sources, *told))
    return None


def _claim_events(pending: PendingPods, name: str) -> list[dict[str, Any]]:
    about = [
        event for event in pending.evidence.events or [] if (event.get("involvedObject") or {}).get("name") == name
    ]
    return [event for event in about if event["involvedObject"].get("kind") == "PersistentVolumeClaim"]


def _no_nodes(pending: PendingPods) -> Finding | None:
    if pending.node_infos:
        return None
    return pending.finding("node-selector", f"{pending.prefix}the cluster has no nodes", {"nodes": 0}, "add nodes")


def _node_states(pending: PendingPods) -> Finding | None:
    """No large node is usable: all are not ready, cordoned or tainted."""
    if pending.usable_nodes or not pending.large_nodes:
        return None
    states: dict[str, list[NodeInfo]] = {}
    for node_info in pending.large_nodes:
        states.setdefault(_state(pending, node_info), []).append(node_info)

    # Report the state whose removal frees most room, then the state of most nodes.
    def worth(state: str) -> tuple[int, int]:
        return sum(_has_room(pending, node_info) for node_info in states[state]), len(states[state])

    cause = max(states, key=worth)
    nodes = [node_info.node.name for node_info in states[cause]]
    others = [
        f"{count_text(len(node_infos), 'node')} {_SAID[state]}"
        for state, node_infos in states.items()
        if state != cause
    ]
    one = len(nodes) == 1
    total = len(pending.large_nodes)
    every = "the only node" if total == 1 else f"all {total} nodes"
    which = f"of the {total} nodes {len(nodes)}" if others else every
    taint = untolerated_taint(pending.incoming, states[cause][0].node) or {}
    are = f"{'is' if one else 'are'} {_SAID[cause]}"
    if cause == "taint":
        are = f"{'has' if one else 'have'} a taint that it does not tolerate, {node_shortage.taint_text(taint)}"
    numbers: Numbers = {"nodes": total, "nodeNames": nodes}
    numbers["out"] = {state: len(node_infos) for state, node_infos in states.items()}
    key = taint.get("key", "KEY")
    if cause == "taint":
        numbers["taint"] = node_shortage.taint_text(taint)
        alike = [node_info.node.name for node_info in states[cause] if taint in node_info.node.taints]
        remove = f"`kubectl taint node {' '.join(alike[:_LISTED])} {node_shortage.taint_text(taint)}-`"
        tolerations = f"podPatch: {{tolerations: [{{key: {key}, operator: Exists}}]}}"
        fix = f"if the nodes are meant for jobs like this, tolerate it (`{tolerations}`); otherwise {remove} removes it"
        if is_maintenance_taint(taint):
            fix = f"wait until the work on the nodes has ended, or use other nodes; {remove} then removes the taint"
    elif cause == "cordoned":
        fix = f"`kubectl uncordon {' '.join(nodes[:_LISTED])}`"
    else:
        fix = f"`kubectl describe node {nodes[0]}` shows what its kubelet lacks"
    kind = f" with {pending.gpu_type}" if pending.gpu_type else ""
    if not kind and total < len(pending.selected_nodes):
        kind = f" that {'is' if total == 1 else 'are'} large enough{_largest_wish(pending)}"
    rest = "".join(f"; {other}" for other in others)
    message = f"{pending.prefix}{which} of {pending.where}{kind} {are} ({first_few(nodes)}){rest}"
    found = pending.finding(cause, message, numbers, fix)
    told = tuple(_of_node(pending, node_info) for node_info in states[cause][:_LISTED])
    return replace(found, sources=(*found.sources, *told))


def _largest_wish(pending: PendingPods) -> str:
    """Return the GPUs that a pod requests, as `` (2 GPUs)``; "" without GPUs."""
    gpus = [name for name in pending.incoming.pod.requests if name in pending.evidence.settings.gpu_resources]
    return f" ({', '.join(pending.amount(name, pending.incoming.pod.requests[name]) for name in gpus)})" if gpus else ""


_SAID = {"nodes-not-ready": "not ready", "cordoned": "cordoned", "taint": "tainted"}


def _state(pending: PendingPods, node_info: NodeInfo) -> str:
    if is_not_ready(node_info):
        return "nodes-not-ready"
    return "cordoned" if node_info.node.unschedulable else "taint"


def _of_node(pending: PendingPods, node_info: NodeInfo) -> Proof:
    taints = ", ".join(node_shortage.taint_text(taint) for taint in node_info.node.taints)
    said = [
        *(["unschedulable: true"] if node_info.node.unschedulable else []),
        *([f"taints {taints}"] if taints else []),
    ]
    return Proof("spec", f"node/{node_info.node.name}", "; ".join(said))


def _has_room(pending: PendingPods, node_info: NodeInfo) -> bool:
    rules = [rule for rule in RULES if rule.name in ("pods", "resources")]
    return all(rule.holds(pending.incoming, node_info, pending.neighbour_counts) for rule in rules)


def _neighbours(pending: PendingPods) -> Finding | None:
    """Nodes have room, but other pods, host ports or volume limits exclude them."""
    if not pending.nodes_with_room or pending.fitting_nodes:
        return None
    counts: Counter[str] = Counter()
    for node_info in pending.nodes_with_room:
        counts[
            next(rule.name for rule in RULES if not rule.holds(pending.incoming, node_info, pending.neighbour_counts))
        ] += 1
    rule = counts.most_common(1)[0][0]
    cause, why, fix = _NEIGHBOURS[rule]
    number = len(pending.nodes_with_room)
    many = f"{count_text(number, 'node')} of {pending.where} {'has' if number == 1 else 'have'} room"
    numbers = {"roomyNodes": number, "out": dict(counts)}
    full = len(pending.usable_nodes) - number
    rest = f" ({count_text(full, 'node')} full)" if full else ""
    message = f"{pending.prefix}{many}{rest}, but {why}"
    if rule == "host-ports":
        ports = ", ".join(str(port.number) for port in pending.incoming.pod.ports)
        message += f": {ports}"
        numbers["hostPorts"] = [port.number for port in pending.incoming.pod.ports]
        if pending.demand is not None and pending.demand.kind in TRAININGS:
            fix = f"set another `job.master_port` if its nodes meet at that port; otherwise {fix}"
    return pending.finding(cause, message, numbers, fix)


_ANTI = "use fewer pods, more nodes, or a preferred anti-affinity instead of a required one"
_NEIGHBOURS = {
    "host-ports": (
        "host-port",
        "the host ports that it uses are taken",
        "use other host ports, or none: with `hostNetwork: true` every port of the pod is one of its node",
    ),
    "attach-limits": (
        "volume-node",
        "as many volumes are attached there as their CSI driver allows",
        "wait until pods with volumes end there, or use fewer volumes",
    ),
    "topology-spread": (
        "topology-spread",
        "its topology spread constraint excludes them",
        "raise maxSkew, use `whenUnsatisfiable: ScheduleAnyway`, or free room on the nodes that have fewest",
    ),
    "pod-affinity": (
        "affinity",
        "none is near a pod that its affinity asks for",
        "start the pods that its podAffinity names first, or make the affinity a preferred one",
    ),
    "pod-anti-affinity": ("affinity", "pods that its anti-affinity excludes are there", _ANTI),
    "existing-anti-affinity": ("affinity", "the anti-affinity of pods there excludes it", _ANTI),
}


def _contradiction(pending: PendingPods) -> Finding | None:
    """The numbers show room: the scheduler knows more than the model, or has not retried yet."""
    said = scheduler_message.cause_in_message(pending)
    if said is not None and scheduler_message.is_beyond_nodes(pending, said):
        return said
    if not pending.fitting_nodes:
        return None
    node = pending.fitting_nodes[0].node.name
    message = (
        f"{pending.prefix}the scheduler found no node, though {node} seems to have room now; it tries again by itself"
    )
    return pending.finding(
        "unknown",
        message,
        {"fittingNodes": len(pending.fitting_nodes)},
        "wait; the evidence contains the scheduler's message",
    )


CHECKS: tuple[Callable[[PendingPods], Finding | None], ...] = (
    _nominated,
    _claims,
    _no_nodes,
    node_selection.pool,
    node_selection.selector,
    resource_claims.unknown_room,
    node_shortage.too_large,
    _node_states,
    node_shortage.rollout,
    node_shortage.shortage,
    _neighbours,
    _contradiction,
)
"""Checks in the order in which the scheduler filters nodes: the first finding names what to change."""

WITHOUT_NODES: tuple[Callable[[PendingPods], Finding | None], ...] = (_claims, scheduler_message.cause_in_message)
"""Checks for users who may not read nodes."""


def ruled_out(evidence: Evidence) -> Iterator[str]:
    """Yield the checks that the first group of pending pods passed."""
    for pending in pending_pods(evidence):
        if pending.demand is None or pending.reason != "Unschedulable":
            return
        if pending.pool_nodes and pending.pool is not None:
            yield f"pool: {pending.where} has {count_text(len(pending.pool_nodes), 'node')}"
        if pending.selected_nodes and pending.gpu_type is not None:
            yield f"GPU type: {count_text(len(pending.selected_nodes), 'node')} with {pending.gpu_type}"
        elif pending.selected_nodes and pending.pool in (None, DEFAULT_POOL):
            yield f"selectors: {count_text(len(pending.selected_nodes), 'node')} match"
        if pending.usable_nodes:
            closed = len(pending.large_nodes) - len(pending.usable_nodes)
            rest = f", {count_text(closed, 'node')} closed" if closed else ""
            yield f"cordons and taints: {count_text(len(pending.usable_nodes), 'node')} open to it{rest}"
        claims = list(dict.fromkeys(mounted_claims(pending.pod["spec"])))
        if claims and all(pending.evidence.claims.get(name) for name in claims):
            yield f"claims: {first_few(claims)} there"
        return
