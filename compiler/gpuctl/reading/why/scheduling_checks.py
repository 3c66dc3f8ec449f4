"""Rules for pods without a node: one check for each predicate of the scheduler, against the current nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gpuctl.capacity.fit.smallest_change import is_maintenance_taint
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo
from gpuctl.capacity.scheduler.scheduling import ROOM, failing_rule, nodes_that_pass, untolerated_taint
from gpuctl.capacity.snapshot.snapshot_entries import SCHEDULER
from gpuctl.hints import kubectl_line
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.api_resources import TRAININGS
from gpuctl.objects.pod_specs import mounted_claims
from gpuctl.objects.selectors import taint_text
from gpuctl.reading.why import node_selection, node_shortage, resource_claims, scheduler_message, volume_claims
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, most_urgent
from gpuctl.reading.why.pending_pods import PendingPods, is_not_ready, pending_pods, scheduler_of

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
    message = Sentence(f"{replace(alike[0], number=number).prefix}{said.pop()}")
    return replace(first, message=message, numbers={**first.numbers, "waitingPods": number})


def _case(pending: PendingPods) -> Finding | None:
    if pending.reason == "SchedulingGated":
        return _gated(pending)
    chosen = volume_claims.chosen_node(pending) or resource_claims.missing_claim(pending)
    if chosen is not None:
        return chosen
    if pending.reason == "SchedulerError":
        return volume_claims.claims(pending)
    if pending.reason != "Unschedulable":
        return None
    table = CHECKS if pending.demand is not None else WITHOUT_NODES
    return next((found for check in table if (found := check(pending)) is not None), None)


def _gated(pending: PendingPods) -> Finding:
    gates = [item["name"] for item in pending.pod["spec"].get("schedulingGates") or []]
    message = say(
        "{prefix}held by the scheduling {number:gate/gates} {gates:few}",
        prefix=pending.prefix,
        number=len(gates),
        gates=gates,
    )
    fix = say(
        "the controller that set {gates:few} has to remove it; until then the scheduler ignores the pod", gates=gates
    )
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
    jobs = list(dict.fromkeys(say("{job} in {namespace}", job=pod.owner, namespace=pod.namespace) for pod in leaving))
    message = say(
        "{prefix}room is being made on {node}: the scheduler waits for evicted pods to end, of {jobs:few}",
        prefix=pending.prefix,
        node=node,
        jobs=jobs,
    )
    told = tuple(
        Proof(
            "status",
            say("{job} in {namespace}", job=f"pod/{pod.name}", namespace=pod.namespace),
            say("of {job}, is being deleted", job=pod.owner),
        )
        for pod in leaving[:_LISTED]
    )
    numbers = {"node": node, "leavingPods": len(leaving), "leavingJobs": jobs}
    found = pending.finding("preempting", message, numbers, say("wait until they have ended"))
    return replace(found, sources=(*found.sources, *told))


def _no_nodes(pending: PendingPods) -> Finding | None:
    if pending.node_infos:
        return None
    message = say("{prefix}the cluster has no nodes", prefix=pending.prefix)
    return pending.finding("node-selector", message, {"nodes": 0}, say("add nodes"))


def _node_states(pending: PendingPods) -> Finding | None:
    """No large node is usable: all are not ready, cordoned or tainted."""
    if pending.usable_nodes or not pending.large_nodes:
        return None
    states: dict[str, list[NodeInfo]] = {}
    for node_info in pending.large_nodes:
        states.setdefault(_state(pending, node_info), []).append(node_info)

    # Report the state whose removal frees most room, then the state of most nodes.
    def worth(state: str) -> tuple[int, int]:
        roomy = nodes_that_pass(ROOM, pending.incoming, states[state], pending.neighbour_counts)
        return len(roomy), len(states[state])

    cause = max(states, key=worth)
    nodes = [node_info.node.name for node_info in states[cause]]
    others = [say(_STATES[state], nodes=len(node_infos)) for state, node_infos in states.items() if state != cause]
    total = len(pending.large_nodes)
    taint = untolerated_taint(pending.incoming, states[cause][0].node) or {}
    numbers: Numbers = {"nodes": total, "nodeNames": nodes}
    numbers["out"] = {state: len(node_infos) for state, node_infos in states.items()}
    key = taint.get("key", "KEY")
    if cause == "taint":
        numbers["taint"] = taint_text(taint)
        alike = [node_info.node.name for node_info in states[cause] if taint in node_info.node.taints]
        remove = kubectl_line("taint node", *alike[:_LISTED], f"{taint_text(taint)}-")
        tolerations = f"podPatch: {{tolerations: [{{key: {key}, operator: Exists}}]}}"
        fix = say(
            "if the nodes are meant for jobs like this, tolerate it (`{tolerations}`); otherwise {command} removes it",
            tolerations=tolerations,
            command=remove,
        )
        if is_maintenance_taint(taint):
            fix = say(
                "wait until the work on the nodes has ended, or use other nodes; {command} then removes the taint",
                command=remove,
            )
    elif cause == "cordoned":
        fix = Sentence(kubectl_line("uncordon", *nodes[:_LISTED]))
    else:
        fix = say("{command} shows what its kubelet lacks", command=kubectl_line("describe node", nodes[0]))
    kind: str = say(" with {type}", type=pending.gpu_type) if pending.gpu_type else ""
    if not kind and total < len(pending.selected_nodes):
        kind = say(" that {total:is/are} large enough{wish}", total=total, wish=_largest_wish(pending))
    which = {"number": len(nodes), "total": total, "where": pending.where, "kind": kind}
    who = say("all {total} nodes of {where}{kind}", **which)
    if others:
        who = say("of the {total} nodes {number} of {where}{kind}", **which)
    elif total == 1:
        who = say("the only node of {where}{kind}", **which)
    message = say(
        "{prefix}{who} {state} ({nodes:few}){rest}",
        prefix=pending.prefix,
        who=who,
        state=say(_ARE[cause], number=len(nodes), taint=taint_text(taint) if taint else ""),
        nodes=nodes,
        rest=say("; {others:;}", others=others) if others else "",
    )
    found = pending.finding(cause, message, numbers, fix)
    told = tuple(_of_node(pending, node_info) for node_info in states[cause][:_LISTED])
    return replace(found, sources=(*found.sources, *told))


def _largest_wish(pending: PendingPods) -> str:
    """Return the GPUs that a pod requests, as `` (2 GPUs)``; "" without GPUs."""
    gpus = [name for name in pending.incoming.pod.requests if name in pending.evidence.settings.gpu_resources]
    return f" ({', '.join(pending.amount(name, pending.incoming.pod.requests[name]) for name in gpus)})" if gpus else ""


_ARE = {
    "nodes-not-ready": Template("{number:is/are} not ready"),
    "cordoned": Template("{number:is/are} cordoned"),
    "taint": Template("{number:has/have} a taint that it does not tolerate, {taint}"),
}
_STATES = {
    "nodes-not-ready": Template("{nodes:node} not ready"),
    "cordoned": Template("{nodes:node} cordoned"),
    "taint": Template("{nodes:node} tainted"),
}


def _state(pending: PendingPods, node_info: NodeInfo) -> str:
    if is_not_ready(node_info):
        return "nodes-not-ready"
    return "cordoned" if node_info.node.unschedulable else "taint"


def _of_node(pending: PendingPods, node_info: NodeInfo) -> Proof:
    taints = ", ".join(taint_text(taint) for taint in node_info.node.taints)
    said = [
        *(["unschedulable: true"] if node_info.node.unschedulable else []),
        *([f"taints {taints}"] if taints else []),
    ]
    return Proof("spec", f"node/{node_info.node.name}", "; ".join(said))


def _neighbours(pending: PendingPods) -> Finding | None:
    """Nodes have room, but other pods, host ports or volume limits exclude them."""
    if not pending.nodes_with_room or pending.fitting_nodes:
        return None
    failing = (
        failing_rule(pending.incoming, node_info, pending.neighbour_counts) for node_info in pending.nodes_with_room
    )
    counts = Counter(rule.name for rule in failing if rule is not None)
    rule = counts.most_common(1)[0][0]
    cause, why, remedy = _NEIGHBOURS[rule]
    number = len(pending.nodes_with_room)
    numbers = {"roomyNodes": number, "out": dict(counts)}
    full = len(pending.usable_nodes) - number
    ports = [str(port.number) for port in pending.incoming.pod.ports] if rule == "host-ports" else []
    message = say(
        "{prefix}{nodes:node} of {where} {nodes:has/have} room{rest}, but {why}{ports}",
        prefix=pending.prefix,
        nodes=number,
        where=pending.where,
        rest=say(" ({nodes:node} full)", nodes=full) if full else "",
        why=say(why),
        ports=say(": {text}", text=ports) if ports else "",
    )
    fix = say(remedy)
    if rule == "host-ports":
        numbers["hostPorts"] = [port.number for port in pending.incoming.pod.ports]
        if pending.demand is not None and pending.demand.kind in TRAININGS:
            fix = say("set another `job.master_port` if its nodes meet at that port; otherwise {fix}", fix=fix)
    return pending.finding(cause, message, numbers, fix)


_ANTI = Template("use fewer pods, more nodes, or a preferred anti-affinity instead of a required one")
_NEIGHBOURS = {
    "host-ports": (
        "host-port",
        Template("the host ports that it uses are taken"),
        Template("use other host ports, or none: with `hostNetwork: true` every port of the pod is one of its node"),
    ),
    "attach-limits": (
        "volume-node",
        Template("as many volumes are attached there as their CSI driver allows"),
        Template("wait until pods with volumes end there, or use fewer volumes"),
    ),
    "topology-spread": (
        "topology-spread",
        Template("its topology spread constraint excludes them"),
        Template("raise maxSkew, use `whenUnsatisfiable: ScheduleAnyway`, or free room on the nodes that have fewest"),
    ),
    "pod-affinity": (
        "affinity",
        Template("none is near a pod that its affinity asks for"),
        Template("start the pods that its podAffinity names first, or make the affinity a preferred one"),
    ),
    "pod-anti-affinity": ("affinity", Template("pods that its anti-affinity excludes are there"), _ANTI),
    "existing-anti-affinity": ("affinity", Template("the anti-affinity of pods there excludes it"), _ANTI),
}


def _contradiction(pending: PendingPods) -> Finding | None:
    """The numbers show room: the scheduler knows more than the model, or has not retried yet."""
    said = scheduler_message.cause_in_message(pending)
    if said is not None and scheduler_message.is_beyond_nodes(pending, said):
        return said
    if not pending.fitting_nodes:
        return None
    node = pending.fitting_nodes[0].node.name
    message = say(
        "{prefix}the scheduler found no node, though {node} seems to have room now; it tries again by itself",
        prefix=pending.prefix,
        node=node,
    )
    if scheduler_of(pending.pod) != SCHEDULER:
        message = say(
            "{prefix}the scheduler {name} found no node, though {node} seems to have room now: {text}",
            prefix=pending.prefix,
            name=scheduler_of(pending.pod),
            node=node,
            text=pending.message,
        )
    return pending.finding(
        "unknown",
        message,
        {"fittingNodes": len(pending.fitting_nodes)},
        say("wait; the evidence contains the scheduler's message"),
    )


CHECKS: tuple[Callable[[PendingPods], Finding | None], ...] = (
    _nominated,
    volume_claims.claims,
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

WITHOUT_NODES: tuple[Callable[[PendingPods], Finding | None], ...] = (
    volume_claims.claims,
    scheduler_message.cause_in_message,
)
"""Checks for users who may not read nodes."""


def ruled_out(evidence: Evidence) -> Iterator[str]:
    """Yield the checks that the first group of pending pods passed."""
    for pending in pending_pods(evidence):
        if pending.demand is None or pending.reason != "Unschedulable":
            return
        if pending.pool_nodes and pending.pool is not None:
            yield say("pool: {where} has {nodes:node}", where=pending.where, nodes=len(pending.pool_nodes))
        if pending.selected_nodes and pending.gpu_type is not None:
            yield say("GPU type: {nodes:node} with {type}", nodes=len(pending.selected_nodes), type=pending.gpu_type)
        elif pending.selected_nodes and pending.pool in (None, DEFAULT_POOL):
            yield say("selectors: {nodes:node} match", nodes=len(pending.selected_nodes))
        if pending.usable_nodes:
            closed = len(pending.large_nodes) - len(pending.usable_nodes)
            rest = say(", {nodes:node} closed", nodes=closed) if closed else ""
            yield say("cordons and taints: {nodes:node} open to it{rest}", nodes=len(pending.usable_nodes), rest=rest)
        claims = list(dict.fromkeys(mounted_claims(pending.pod["spec"])))
        if claims and all(pending.evidence.claims.get(name) for name in claims):
            yield say("claims: {claims:few} there", claims=claims)
        return
