"""Rules for pods that their node evicted, rejected or took down."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.workload_state import find_condition, has_ended
from gpuctl.reading.jobs.job_objects import INDEX
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.event_proofs import condition_proof, eviction_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.stopped_jobs import forced_deletion, how_to_run_again

# pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm/admission/errors.go, pkg/kubelet/nodeshutdown.
_REFUSED = frozenset(
    {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "NodePorts", "NodeName"}
    | {"UnsupportedPodLevelResources", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "AppArmor"}
    | {"TopologyAffinityError", "InvalidNodeInfo", "Taints"}
)
_SHUTDOWN = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
_DISRUPTED = {
    "PreemptionByScheduler": Template("the scheduler evicted it for a pod of higher priority"),
    "EvictionByEvictionAPI": Template("it was evicted through the API, as by a drain of its node"),
    "DeletionByTaintManager": Template(
        "its node got a taint that it does not tolerate, as a node that does not answer does"
    ),
    "DeletionByPodGC": Template("its node is gone"),
}


def lost_node(evidence: Evidence) -> Finding | None:
    """The node of a pod is gone or not ready."""
    for pod in evidence.job.pods:
        name = pod["metadata"]["name"]
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or has_ended(pod) or node not in evidence.nodes:
            continue
        live = evidence.nodes[node]
        others = sum((item.get("spec") or {}).get("nodeName") == node for item in evidence.job.pods)
        numbers = {"node": node, "pods": others}
        if live is None:
            message = say("the node {node} of its pod {pod} is gone", node=node, pod=name)
            fix = say("wait: Kubernetes removes the pod within a minute; {again}", again=how_to_run_again(evidence))
            spec = Proof("spec", f"pod/{name}", f"nodeName: {node}")
            return Finding("node-lost", message, numbers, fix, (spec,), name, others)
        ready = find_condition(live, "Ready")
        if ready.get("status") in (None, "True"):
            continue
        why = one_line(ready.get("message"))
        known = {"node": node, "pod": name, "duration": evidence.since(ready.get("lastTransitionTime"))}
        known["why"] = say(": {text}", text=why) if why else ""
        message = say("the node {node} of its pod {pod} is not ready, for {duration}{why}", **known)
        if ready.get("status") == "Unknown":
            message = say("the node {node} of its pod {pod} does not answer, for {duration}{why}", **known)
        fix = say(
            "{look} shows more; {command} does not wait for it, although processes may still run there",
            look=kubectl_line("describe node", node),
            command=forced_deletion(evidence, pod),
        )
        told = known_proofs(condition_proof(live, "Ready"), condition_proof(pod, "Ready"))
        return Finding("node-lost", message, numbers, fix, told, name, others)
    return None


def refused_by_node(evidence: Evidence) -> Finding | None:
    """kubelet rejected a pod that the scheduler had assigned to its node."""
    for pod in reversed(evidence.pods):
        status = pod.get("status") or {}
        if status.get("phase") != "Failed" or status.get("reason") not in _REFUSED or _is_replaced(evidence, pod):
            continue
        name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName") or say("its node")
        text = one_line(status.get("message")).removeprefix("Pod was rejected: ")
        message = say("{node} refused the pod {pod}: {text}", node=node, pod=name, text=text)
        fix = say("ask the administrators of {node}: it can provide less than it reports to the scheduler", node=node)
        told = (Proof("status", f"pod/{name}", f"{status['reason']}: {one_line(status.get('message'))}"),)
        return Finding("node-refused", message, {"node": node, "reason": status["reason"]}, fix, told, name)
    return None


def _is_replaced(evidence: Evidence, pod: Object) -> bool:
    """Return True if a failed pod was replaced, so that its failure is in the past."""
    names = [item["metadata"]["name"] for item in evidence.job.pods]
    younger = evidence.job.pods[names.index(pod["metadata"]["name"]) + 1 :]
    workload = evidence.job.workload
    if workload is not None and workload["kind"] == "Job":
        return any(labels_of(item).get(INDEX) == labels_of(pod).get(INDEX) for item in younger)
    live = sum((item.get("status") or {}).get("phase") != "Failed" for item in evidence.pods)
    return bool(live >= max(1, evidence.wanted))


def evicted_pod(evidence: Evidence) -> Finding | None:
    """A pod was evicted: by its node under resource pressure, by a shutdown or drain, or by the scheduler."""
    for pod in reversed(evidence.job.pods):
        found = _evicted(evidence, pod)
        if found is not None:
            return replace(found, is_past=_is_replaced(evidence, pod))
    gone = evidence.events_with("Evicted", "Preempted", "TaintManagerEviction")[-1:]
    if not gone or evidence.pods or "Cancelling" in (gone[0].get("message") or ""):
        return None
    told = eviction_proof(gone[0], evidence.preemptors)
    name = str((gone[0].get("involvedObject") or {}).get("name"))
    if gone[0].get("reason") == "TaintManagerEviction":
        why: str = say(_DISRUPTED["DeletionByTaintManager"])
        fix = how_to_run_again(evidence)
    else:
        why = told.text.partition(": ")[2]
        fix = say("{again}; with a higher `job.priority` it is evicted last", again=how_to_run_again(evidence))
    message = say("its pod {pod} was evicted: {text}", pod=name, text=why)
    return Finding("evicted", message, {}, fix, (told,))


def _evicted(evidence: Evidence, pod: Object) -> Finding | None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName") or say("its node")
    text = one_line(status.get("message"))
    told = (Proof("status", f"pod/{name}", f"{status.get('reason')}: {text}"),)
    if status.get("reason") == "Evicted":
        why = text or say("it ran short of something")
        message = say("{node} evicted the pod {pod}: {text}", node=node, pod=name, text=why)
        resource, fix = _short_of(evidence, pod, text)
        return Finding("evicted", message, {"node": node, "resource": resource}, fix, told, name)
    if status.get("phase") == "Failed" and status.get("reason") in _SHUTDOWN:
        message = say("{node} was shut down, and with it the pod {pod}: {text}", node=node, pod=name, text=text)
        return Finding("evicted", message, {"node": node}, how_to_run_again(evidence), told, name)
    for item in status.get("conditions") or []:
        if (
            item.get("type") == "DisruptionTarget"
            and item.get("status") == "True"
            and item.get("reason") in _DISRUPTED
            and status.get("phase") != "Running"
        ):
            reason = item["reason"]
            message = say(
                "the pod {pod} on {node} was evicted: {text}", pod=name, node=node, text=say(_DISRUPTED[reason])
            )
            by = [source for event in evidence.events_with("Preempted", "TaintManagerEviction", pod=pod)[-1:]
                  for source in [eviction_proof(event, evidence.preemptors)]]  # fmt: skip
            fix = how_to_run_again(evidence)
            if "Scheduler" in reason:
                fix = say("{again}; a higher `job.priority`, if it matters more", again=fix)
            said = known_proofs(condition_proof(pod, "DisruptionTarget"), *by)
            return Finding("evicted", message, {"node": node, "reason": reason}, fix, said, name)
    return None


# pkg/kubelet/eviction/eviction_manager.go and helpers.go: limits of the pod, then resources of the node.
_VOLUME_LIMIT = re.compile(r'Usage of EmptyDir volume "(?P<volume>[^"]+)" exceeds the limit "(?P<limit>[^"]+)"')
_STORAGE_LIMIT = re.compile(r"ephemeral local storage usage exceeds|exceeded its local ephemeral storage limit")
_LOW = re.compile(r"low on resource: (?P<resource>[a-z-]+)")


def _short_of(evidence: Evidence, pod: Object, text: str) -> tuple[str | None, Sentence]:
    """Return the resource for which a node evicted a pod, and a fix."""
    volume = _VOLUME_LIMIT.search(text)
    if volume is not None:
        name = volume["volume"]
        mounts = (mount for item in pod["spec"].get("containers") or [] for mount in item.get("volumeMounts") or [])
        paths = [mount.get("mountPath") for mount in mounts if mount.get("name") == name]
        if "/dev/shm" in paths:  # noqa: S108
            return "shm", say(
                "raise `resources.shm` above {size}, or use fewer data loader workers", size=volume["limit"]
            )
        return "emptyDir", say(
            "raise the sizeLimit of the volume {name} above {limit}, or write less to it",
            name=name,
            limit=volume["limit"],
        )
    if _STORAGE_LIMIT.search(text):
        return "ephemeral-storage", say(
            "write to a mounted volume (`storage.workdirs`), or raise the container's limit of ephemeral-storage in "
            "`podPatch`"
        )
    low = _LOW.search(text)
    resource = low["resource"] if low else None
    if resource == "memory":
        fix = say("raise `resources.memory` to what it uses: pods that use less than they request are evicted last")
    elif resource == "ephemeral-storage":
        fix = say("write to a mounted volume (`storage.workdirs`), not into the container")
    else:
        fix = say(
            "{again}; the administrators of the node can find out why it ran short", again=how_to_run_again(evidence)
        )
    return resource, fix
