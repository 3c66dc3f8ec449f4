"""What nodes do to pods: put them out, refuse them, or vanish under them."""

from __future__ import annotations

from gpuctl.cluster.resources import Object
from gpuctl.reading.status import sentence
from gpuctl.reading.why.events import condition_source, source, sources
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Source
from gpuctl.reading.why.idle import command

# pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm/admission/errors.go, pkg/kubelet/nodeshutdown.
_REFUSED = frozenset(
    {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "NodePorts", "NodeName"}
    | {"UnsupportedPodLevelResources", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "AppArmor"}
    | {"TopologyAffinityError", "InvalidNodeInfo", "Taints"}
)
_SHUTDOWN = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
_DISRUPTED = {
    "PreemptionByScheduler": "the scheduler put it out for a more important pod",
    "EvictionByEvictionAPI": "it was evicted by request, as a drain of its node does",
    "DeletionByTaintManager": "its node got a taint that it does not tolerate, as a node does that does not answer",
    "DeletionByPodGC": "its node is gone",
}


def lost(evidence: Evidence) -> Finding | None:
    """The node under a pod is gone, or is not ready."""
    for pod in evidence.job.pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or status.get("phase") in ("Succeeded", "Failed") or node not in evidence.nodes:
            continue
        live = evidence.nodes[node]
        others = sum((item.get("spec") or {}).get("nodeName") == node for item in evidence.job.pods)
        numbers = {"node": node, "pods": others}
        if live is None:
            message = f"the node {node} under its pod {name} is gone"
            fix = "wait: Kubernetes removes the pod within a minute, and its controller makes another"
            spec = Source("spec", f"pod/{name}", f"nodeName: {node}")
            return Finding("node-lost", message, numbers, fix, (spec,), name, others)
        ready = _ready(live)
        if ready.get("status") in (None, "True"):
            continue
        how = "does not answer" if ready.get("status") == "Unknown" else "is not ready"
        why = sentence(ready.get("message"))
        since = evidence.since(ready.get("lastTransitionTime"))
        message = f"the node {node} under its pod {name} {how}, since {since}" + (f": {why}" if why else "")
        given_up = command("delete job", evidence, "--force")
        fix = f"`kubectl describe node {node}` says more; `{given_up}` gives up what may still run there"
        told = sources(condition_source(live, "Ready"), condition_source(pod, "Ready"))
        return Finding("node-lost", message, numbers, fix, told, name, others)
    return None


def _ready(node: Object) -> Object:
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((dict(item) for item in conditions if item.get("type") == "Ready"), {})


def refused(evidence: Evidence) -> Finding | None:
    """kubelet did not take a pod that the scheduler had sent to it."""
    for pod in reversed(evidence.pods):
        status = pod.get("status") or {}
        if status.get("phase") != "Failed" or status.get("reason") not in _REFUSED:
            continue
        name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName") or "its node"
        text = sentence(status.get("message")).removeprefix("Pod was rejected: ")
        message = f"{node} refused the pod {name}: {text}"
        fix = f"a matter for the administrators of {node}: what it can give is not what the scheduler thinks it has"
        told = (Source("status", f"pod/{name}", f"{status['reason']}: {sentence(status.get('message'))}"),)
        return Finding("node-refused", message, {"node": node, "reason": status["reason"]}, fix, told, name)
    return None


def evicted(evidence: Evidence) -> Finding | None:
    """A node that ran short, a shutdown, a drain or the scheduler put a pod out."""
    for pod in reversed(evidence.job.pods):
        found = _evicted(evidence, pod)
        if found is not None:
            return found
    gone = evidence.told("Evicted", "Preempted")
    if gone and not evidence.pods:
        message = f"its pod was put out: {sentence(gone[-1].get('message'))}"
        fix = "its controller makes another; a higher `job.priority` keeps it from happening again"
        return Finding("evicted", message, {}, fix, (source(gone[-1]),))
    return None


def _evicted(evidence: Evidence, pod: Object) -> Finding | None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName") or "its node"
    text = sentence(status.get("message"))
    told = (Source("status", f"pod/{name}", f"{status.get('reason')}: {text}"),)
    if status.get("reason") == "Evicted":
        short = next(
            (word for word in ("memory", "ephemeral-storage", "nodefs", "imagefs", "pids") if word in text), None
        )
        message = f"{node} evicted the pod {name}: {text or 'it ran short of something'}"
        fix = {
            "memory": "raise `resources.memory` to what it uses: who stays below what he asks for is evicted last",
            "ephemeral-storage": "write to a mounted volume (`storage.workdirs`), not into the container",
        }.get(short or "", "its controller makes another; the node's disk or processes are for its administrators")
        return Finding("evicted", message, {"node": node, "resource": short}, fix, told, name)
    if status.get("phase") == "Failed" and status.get("reason") in _SHUTDOWN:
        message = f"{node} was shut down under the pod {name}: {text}"
        return Finding("evicted", message, {"node": node}, command("rerun", evidence), told, name)
    for item in status.get("conditions") or []:
        if (
            item.get("type") == "DisruptionTarget"
            and item.get("reason") in _DISRUPTED
            and status.get("phase") != "Running"
        ):
            why = _DISRUPTED[item["reason"]]
            message = f"the pod {name} on {node} had to go: {why}"
            fix = (
                "a higher `job.priority`, if it matters more"
                if "Scheduler" in item["reason"]
                else "its controller makes another"
            )
            said = sources(condition_source(pod, "DisruptionTarget"))
            return Finding("evicted", message, {"node": node, "reason": item["reason"]}, fix, said, name)
    return None
