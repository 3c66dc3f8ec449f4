"""Why pods have no node: one check for each predicate of the scheduler, against the nodes as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gpuctl.capacity.scheduler_model import NodeInfo
from gpuctl.capacity.scheduling import RULES, untolerated_taint
from gpuctl.capacity.shortage import is_maintenance_taint
from gpuctl.language.display_text import first_few
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import TRAININGS, annotations_of
from gpuctl.reading.status import sentence
from gpuctl.reading.why import node_selection, node_shortage, resource_claims, scheduler_message
from gpuctl.reading.why.evidence import Evidence, mounted_claims
from gpuctl.reading.why.finding import Finding, Proof, first, several
from gpuctl.reading.why.pending_pods import Case, cases, is_not_ready
from gpuctl.reading.why.proofs import source, sources

Numbers = dict[str, Any]
_LISTED = 4


def unscheduled(evidence: Evidence) -> Finding | None:
    """Pods wait for a node: of several kinds of them, what has to be solved first."""
    return first(_case(case) for case in cases(evidence))


def _case(case: Case) -> Finding | None:
    if case.reason == "SchedulingGated":
        return _gated(case)
    chosen = _binding(case) or resource_claims.missing_claim(case)
    if chosen is not None:
        return chosen
    if case.reason == "SchedulerError":
        return _claims(case)
    if case.reason != "Unschedulable":
        return None
    table = CHECKS if case.demand is not None else WITHOUT_NODES
    return next((found for check in table if (found := check(case)) is not None), None)


def _gated(case: Case) -> Finding:
    gates = [item["name"] for item in case.pod["spec"].get("schedulingGates") or []]
    message = f"{case.whose}held by the scheduling gate{'s' if len(gates) > 1 else ''} {first_few(gates)}"
    fix = f"whatever set {first_few(gates)} has to remove it; the scheduler does not look at the pod before that"
    return case.finding("scheduling-gated", message, {"gates": gates}, fix)


def _nominated(case: Case) -> Finding | None:
    """The scheduler has evicted others for it, and they take their time."""
    node = (case.pod.get("status") or {}).get("nominatedNodeName")
    leaving = [
        pod for node_info in case.node_infos if node_info.node.name == node for pod in node_info.pods if pod.deleting
    ]
    if not leaving:
        # Since 1.35 a node is nominated also while volumes and devices are prepared for the pod.
        return None
    jobs = list(dict.fromkeys(f"{pod.owner} in {pod.namespace}" for pod in leaving))
    message = (
        f"{case.whose}room is being made on {node}: the scheduler waits for evicted pods to end, of {first_few(jobs)}"
    )
    told = tuple(
        Proof("status", f"pod/{pod.name} in {pod.namespace}", f"of {pod.owner}, is being deleted")
        for pod in leaving[:_LISTED]
    )
    numbers = {"node": node, "leavingPods": len(leaving), "leavingJobs": jobs}
    found = case.finding("preempting", message, numbers, "wait until they have ended")
    return replace(found, sources=(*found.sources, *told))


def _binding(case: Case) -> Finding | None:
    """A node has been chosen for it, and a claim of a WaitForFirstConsumer class waits for its volume there."""
    for name in mounted_claims(case.pod["spec"]):
        claim = case.evidence.claims.get(name)
        node = annotations_of(claim).get(_SELECTED_NODE) if claim is not None else None
        if claim is None or node is None or (claim.get("status") or {}).get("phase") != "Pending":
            continue
        annotations, namespace = annotations_of(claim), case.evidence.job.identity.namespace
        provisioner = next((annotations[key] for key in _PROVISIONER if key in annotations), None)
        last: dict[str, Any] = next(
            (event for event in reversed(_claim_events(case, name)) if event.get("reason") in _PROVISIONING), {}
        )
        failed = last.get("reason") == "ProvisioningFailed"
        by = f" that {provisioner} has to provision" if provisioner else ""
        why = f": {sentence(last.get('message'))}" if failed else ""
        message = (
            f"{case.whose}the scheduler has chosen {node}, and the PersistentVolumeClaim {name} waits for the volume"
            f"{by}{why}"
        )
        look = f"`kubectl describe pvc {name} -n {namespace}`"
        fix = (
            f"correct what the provisioner refuses, in the claim or in its StorageClass; {look} shows it"
            if failed
            else f"wait a moment; if nothing happens, {provisioner or 'the provisioner'} does not run: {look}"
        )
        numbers = {"claim": name, "phase": "Pending", "selectedNode": node, "provisioner": provisioner}
        found = case.finding("claim-unbound", message, numbers, fix)
        spec = Proof("status", f"persistentvolumeclaim/{name}", f"Pending; annotation {_SELECTED_NODE}: {node}")
        return replace(found, sources=sources(*found.sources, spec, source(last) if last else None))
    return None


_SELECTED_NODE = "volume.kubernetes.io/selected-node"
# The second name is older than 1.23 (pkg/controller/volume/persistentvolume/util).
_PROVISIONER = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_PROVISIONING = ("ExternalProvisioning", "ProvisioningFailed", "ProvisioningSucceeded", "Provisioning")


def _claims(case: Case) -> Finding | None:
    """Its claims: missing, being deleted, or without a volume."""
    names = [name for name in dict.fromkeys(mounted_claims(case.pod["spec"])) if name in case.evidence.claims]
    absent = [name for name in names if case.evidence.claims[name] is None]
    if absent:
        listed, s = " and ".join(absent), "" if len(absent) == 1 else "s"
        message = (
            f"{case.whose}there {'is' if len(absent) == 1 else 'are'} no PersistentVolumeClaim{s} {listed} in "
            f"{case.evidence.job.identity.namespace}"
        )
        fix = f"create the claim{s} {listed}, or name {'others' if s else 'another'} in `storage.workdirs[].pvc.claim`"
        return case.finding("claim-missing", message, {"claim": absent[0], "claims": absent}, fix)
    for name in names:
        claim = case.evidence.claims[name]
        assert claim is not None
        phase = (claim.get("status") or {}).get("phase")
        if phase == "Bound":
            continue
        if phase == "Lost":
            message = f"{case.whose}the volume of the PersistentVolumeClaim {name} is gone"
            return case.finding(
                "claim-unbound",
                message,
                {"claim": name, "phase": phase},
                f"restore its volume, or delete and create {name} again",
            )
        newest = (_claim_events(case, name) or [{}])[-1]
        if "unbound immediate" not in case.message and newest.get("reason") != "ProvisioningFailed":
            # It waits for its first consumer: this pod, which has no node for another reason.
            continue
        why = sentence(newest.get("message")) if newest.get("reason") != "WaitForFirstConsumer" else ""
        message = f"{case.whose}the PersistentVolumeClaim {name} has no volume{f': {why}' if why else ''}"
        fix = f"`kubectl describe pvc {name} -n {case.evidence.job.identity.namespace}` shows what it waits for"
        found = case.finding("claim-unbound", message, {"claim": name, "phase": phase}, fix)
        told = tuple(source(event) for event in _claim_events(case, name)[-1:])
        return replace(found, sources=(*found.sources, *told))
    return None


def _claim_events(case: Case, name: str) -> list[dict[str, Any]]:
    about = [event for event in case.evidence.events or [] if (event.get("involvedObject") or {}).get("name") == name]
    return [event for event in about if event["involvedObject"].get("kind") == "PersistentVolumeClaim"]


def _no_nodes(case: Case) -> Finding | None:
    if case.node_infos:
        return None
    return case.finding("node-selector", f"{case.whose}the cluster has no nodes", {"nodes": 0}, "add nodes")


def _node_states(case: Case) -> Finding | None:
    """All nodes that it selects are out of use for it: not ready, cordoned, or tainted."""
    if case.open or not case.able:
        return None
    states: dict[str, list[NodeInfo]] = {}
    for node_info in case.able:
        states.setdefault(_state(case, node_info), []).append(node_info)

    # What is worth mending is what would give room; of that, what most nodes have.
    def worth(state: str) -> tuple[int, int]:
        return sum(_has_room(case, node_info) for node_info in states[state]), len(states[state])

    cause = max(states, key=worth)
    nodes = [node_info.node.name for node_info in states[cause]]
    others = [
        f"{several(len(node_infos), 'node')} {_SAID[state]}" for state, node_infos in states.items() if state != cause
    ]
    one = len(nodes) == 1
    total = len(case.able)
    every = "the only node" if total == 1 else f"all {total} nodes"
    which = f"of the {total} nodes {len(nodes)}" if others else every
    taint = untolerated_taint(case.incoming, states[cause][0].node) or {}
    are = f"{'is' if one else 'are'} {_SAID[cause]}"
    if cause == "taint":
        are = f"{'has' if one else 'have'} a taint that it does not tolerate, {node_shortage.title(taint)}"
    numbers: Numbers = {"nodes": total, "nodeNames": nodes}
    numbers["out"] = {state: len(node_infos) for state, node_infos in states.items()}
    key = taint.get("key", "KEY")
    if cause == "taint":
        numbers["taint"] = node_shortage.title(taint)
        alike = [node_info.node.name for node_info in states[cause] if taint in node_info.node.taints]
        remove = f"`kubectl taint node {' '.join(alike[:_LISTED])} {node_shortage.title(taint)}-`"
        tolerations = f"podPatch: {{tolerations: [{{key: {key}, operator: Exists}}]}}"
        fix = f"if the nodes are meant for jobs like this, tolerate it (`{tolerations}`); otherwise {remove} removes it"
        if is_maintenance_taint(taint):
            fix = f"wait until the work on the nodes has ended, or use other nodes; {remove} then removes the taint"
    elif cause == "cordoned":
        fix = f"`kubectl uncordon {' '.join(nodes[:_LISTED])}`"
    else:
        fix = f"`kubectl describe node {nodes[0]}` shows what its kubelet lacks"
    kind = f" with {case.gpu_type}" if case.gpu_type else ""
    if not kind and total < len(case.selected):
        kind = f" that {'is' if total == 1 else 'are'} large enough{_largest_wish(case)}"
    rest = "".join(f"; {other}" for other in others)
    message = f"{case.whose}{which} of {case.where}{kind} {are} ({first_few(nodes)}){rest}"
    found = case.finding(cause, message, numbers, fix)
    told = tuple(_of_node(case, node_info) for node_info in states[cause][:_LISTED])
    return replace(found, sources=(*found.sources, *told))


def _largest_wish(case: Case) -> str:
    """`` (2 GPUs)``: the GPUs of a pod; "" when it asks for none."""
    gpus = [name for name in case.incoming.pod.requests if name in case.evidence.settings.gpu_resources]
    return f" ({', '.join(case.amount(name, case.incoming.pod.requests[name]) for name in gpus)})" if gpus else ""


_SAID = {"nodes-not-ready": "not ready", "cordoned": "cordoned", "taint": "tainted"}


def _state(case: Case, node_info: NodeInfo) -> str:
    if is_not_ready(node_info):
        return "nodes-not-ready"
    return "cordoned" if node_info.node.unschedulable else "taint"


def _of_node(case: Case, node_info: NodeInfo) -> Proof:
    taints = ", ".join(node_shortage.title(taint) for taint in node_info.node.taints)
    said = [
        *(["unschedulable: true"] if node_info.node.unschedulable else []),
        *([f"taints {taints}"] if taints else []),
    ]
    return Proof("spec", f"node/{node_info.node.name}", "; ".join(said))


def _has_room(case: Case, node_info: NodeInfo) -> bool:
    rules = [rule for rule in RULES if rule.name in ("pods", "resources")]
    return all(rule.holds(case.incoming, node_info, case.counted) for rule in rules)


def _neighbours(case: Case) -> Finding | None:
    """Nodes have room, but other pods, or their ports, keep it away."""
    if not case.roomy or case.fitting:
        return None
    counts: Counter[str] = Counter()
    for node_info in case.roomy:
        counts[next(rule.name for rule in RULES if not rule.holds(case.incoming, node_info, case.counted))] += 1
    rule = counts.most_common(1)[0][0]
    cause, why, fix = _NEIGHBOURS[rule]
    many = f"{several(len(case.roomy), 'node')} of {case.where} {'has' if len(case.roomy) == 1 else 'have'} room"
    numbers = {"roomyNodes": len(case.roomy), "out": dict(counts)}
    full = len(case.open) - len(case.roomy)
    rest = f" ({several(full, 'node')} full)" if full else ""
    message = f"{case.whose}{many}{rest}, but {why}"
    if rule == "host-ports":
        ports = ", ".join(str(port.number) for port in case.incoming.pod.ports)
        message += f": {ports}"
        numbers["hostPorts"] = [port.number for port in case.incoming.pod.ports]
        if case.demand is not None and case.demand.kind in TRAININGS:
            fix = f"set another `job.master_port` if its nodes meet at that port; otherwise {fix}"
    return case.finding(cause, message, numbers, fix)


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


def _contradiction(case: Case) -> Finding | None:
    """By the numbers there is room. The scheduler may know more than we do, or not have looked again yet."""
    said = scheduler_message.by_words(case)
    if said is not None and said.cause in scheduler_message.BEYOND_NODES:
        return said
    if not case.fitting:
        return None
    node = case.fitting[0].node.name
    message = f"{case.whose}the scheduler found no node, though {node} seems to have room now; it tries again by itself"
    return case.finding(
        "unknown",
        message,
        {"fittingNodes": len(case.fitting)},
        "wait; the evidence has the scheduler's own words",
    )


CHECKS: tuple[Callable[[Case], Finding | None], ...] = (
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
"""In the order in which the scheduler narrows nodes down: the first that finds something tells what to change."""

WITHOUT_NODES: tuple[Callable[[Case], Finding | None], ...] = (_claims, scheduler_message.by_words)
"""For who may not read nodes."""


def ruled_out(evidence: Evidence) -> Iterator[str]:
    """What was looked at for the first kind of waiting pods, and is in order."""
    for case in cases(evidence):
        if case.demand is None or case.reason != "Unschedulable":
            return
        if case.in_pool and case.pool is not None:
            yield f"pool: {case.where} has {several(len(case.in_pool), 'node')}"
        if case.selected and case.gpu_type is not None:
            yield f"GPU type: {several(len(case.selected), 'node')} with {case.gpu_type}"
        elif case.selected and case.pool in (None, DEFAULT_POOL):
            yield f"selectors: {several(len(case.selected), 'node')} match"
        if case.open:
            closed = len(case.able) - len(case.open)
            rest = f", {several(closed, 'node')} closed" if closed else ""
            yield f"cordons and taints: {several(len(case.open), 'node')} open to it{rest}"
        claims = mounted_claims(case.pod["spec"])
        if claims and all(case.evidence.claims.get(name) for name in claims):
            yield f"claims: {first_few(claims)} there"
        return
