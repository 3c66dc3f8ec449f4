"""Causes from the scheduler's message, for users who may not read nodes, and for what node snapshots do not contain."""

from __future__ import annotations

import re
from collections.abc import Container

from gpuctl.capacity.fit.verdicts import with_unit_names
from gpuctl.capacity.scheduler.scheduler_model import units
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.pod_specs import mounted_claims
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.pending_pods import PendingPods
from gpuctl.reading.why.stopped_jobs import command

BEYOND_NODES = frozenset({"claim-missing", "claim-unbound", "volume-node"})
"""Causes that nodes and their pods do not show."""
_HAMI = r"NodeUnfitPod|node unregistered"
"""HAMi's words for nodes without room: it counts the memory and cores of cards itself."""

# Source: ErrReason... in k8s.io/kubernetes 1.36, pkg/scheduler/framework/plugins. Before 1.33 the message named the
# taint. HAMi's words: common.NodeUnfitPod in pkg/device/common, and pkg/scheduler/scheduler.go.
_WORDS: tuple[tuple[str, str, Template, Template], ...] = (
    (
        r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
        "claim-missing",
        Template("there is no PersistentVolumeClaim {name}"),
        Template("create the claim {name}, or name another in `storage.workdirs[].pvc.claim`"),
    ),
    (
        r"pod has unbound immediate PersistentVolumeClaims|node\(s\) didn't find available persistent volumes to bind",
        "claim-unbound",
        Template("the PersistentVolumeClaim {which} has no volume"),
        Template("{command} shows what it waits for"),
    ),
    (
        (
            r"node\(s\) had volume node affinity conflict|node\(s\) didn't match PersistentVolume's node affinity"
            r"|node\(s\) had no available volume zone|node\(s\) exceed max volume count|.*ReadWriteOncePod.*"
            r"|node\(s\) unavailable due to one or more pvc\(s\) bound to non-existent pv\(s\)"
            r"|node\(s\) did not have enough free storage|node\(s\) had no available disk"
        ),
        "volume-node",
        Template(
            "the volume of the PersistentVolumeClaim {which} cannot be used on the nodes that it may use ({text})"
        ),
        Template("use a volume that more nodes can reach, or a pool whose nodes can reach it"),
    ),
    (
        r"Too many pods",
        "too-many-pods",
        Template("{nodes:node} run as many pods as they can"),
        Template("end other pods, or add nodes"),
    ),
    (
        r"node\(s\) had untolerated taint(?:\(s\)| \{(?P<name>.*)\})",
        "taint",
        Template("{nodes:node} have taints that it does not tolerate"),
        Template(
            "ask the administrators, who may read nodes, which they are, and whether they are meant for jobs like this"
        ),
    ),
    (
        r"node\(s\) were unschedulable",
        "cordoned",
        Template("{nodes:node} are cordoned"),
        Template("ask the administrators to uncordon them"),
    ),
    (
        (
            r"node\(s\) didn't match pod anti-affinity rules|node\(s\) didn't match pod affinity rules"
            r"|node\(s\) didn't satisfy existing pods anti-affinity rules"
        ),
        "affinity",
        Template("its pod affinity, or that of other pods, excludes {nodes:node} ({text})"),
        Template("change its pod affinity, or make it a preferred one"),
    ),
    (
        r"node\(s\) didn't match pod topology spread constraints(?: \(missing required label\))?",
        "topology-spread",
        Template("its topology spread constraint excludes {nodes:node}"),
        Template("raise maxSkew, or use `whenUnsatisfiable: ScheduleAnyway`"),
    ),
    (
        r"node\(s\) didn't have free ports for the requested pod ports",
        "host-port",
        Template("on {nodes:node} the host ports that it uses are taken"),
        Template("use other host ports, or none"),
    ),
    (
        _HAMI,
        "gpu-shortage",
        Template("HAMi has no card with room for it on {nodes:node} ({text})"),
        Template(
            "ask for a smaller `gpu-share`, or wait for other jobs; the pod's events FilteringFailed name what is short"
        ),
    ),
    (
        r"node\(s\) didn't match Pod's node affinity/selector",
        "node-selector",
        Template("no node has the labels that it selects ({selector})"),
        Template(
            "use another `resources.pool` or `resources.gpu-type`; the administrators may read which labels nodes have"
        ),
    ),
)
_SHORTAGES = {"cpu": "cpu-shortage", "memory": "memory-shortage"}


def shortage_of(resource: str, gpus: Container[str]) -> str:
    """Return the cause for a shortage of a resource."""
    return "gpu-shortage" if resource in gpus else _SHORTAGES.get(resource, "resource-shortage")


def _unbound(pending: PendingPods) -> list[str]:
    """Return the claims without a volume; all mounted claims if claims may not be read."""
    names = mounted_claims(pending.pod["spec"])
    known = pending.evidence.claims
    phases = {name: ((known.get(name) or {}).get("status") or {}).get("phase") for name in names}
    return [name for name in names if phases[name] not in (None, "Bound")] or names


def is_beyond_nodes(pending: PendingPods, said: Finding) -> bool:
    """Return True if nodes and their pods do not show the cause in the scheduler's message."""
    return said.cause in BEYOND_NODES or any(re.fullmatch(_HAMI, text) for text in pending.reason_counts)


def cause_in_message(pending: PendingPods) -> Finding | None:
    """Return the cause in the scheduler's message; of several the one that leaves the pod closest to being
    scheduled.
    """
    gpus = pending.evidence.settings.scarce_gpu_resources
    lacking = [text.removeprefix("Insufficient ") for text in pending.reason_counts if text.startswith("Insufficient ")]
    for pattern, cause, template, remedy in _WORDS:
        if lacking and cause not in BEYOND_NODES:
            break
        for text, number in pending.reason_counts.items():
            match = re.fullmatch(pattern, text)
            if match is None:
                continue
            selector = pending.pod["spec"].get("nodeSelector") or {}
            claims = _unbound(pending) if cause == "claim-unbound" else mounted_claims(pending.pod["spec"])
            values = {
                "name": match.groupdict().get("name") or "",
                "text": text,
                "nodes": number,
                "selector": ", ".join(f"{key}={value}" for key, value in selector.items())
                or pending.affinity
                or say("by affinity"),
                "command": kubectl_line("describe pvc", *claims, "-n", pending.evidence.job.identity.namespace),
                "which": say("{claims:or}", claims=claims) if claims else say("of one of its volumes"),
            }
            numbers = {"waitingPods": pending.number, "nodes": dict(pending.reason_counts)}
            said = Sentence(f"{pending.prefix}{say(template, **values)}")
            return Finding(cause, said, numbers, say(remedy, **values), pending.sources, pending.name, pending.number)
    if not lacking:
        return None
    resource = min(lacking, key=lambda name: (name not in gpus, name != "cpu", name != "memory", name))
    need = units(pod_requests(pending.pod["spec"])).get(resource, 0)
    count = pending.reason_counts[f"Insufficient {resource}"]
    message = say(
        "{prefix}needs {amount} on one node of {where}; {nodes:node} {nodes:has/have} too little of it",
        prefix=pending.prefix,
        amount=pending.amount(resource, need),
        where=pending.where,
        nodes=count,
    )
    numbers = {
        "waitingPods": pending.number,
        "resource": resource,
        "needPerPod": with_unit_names({resource: need}),
        "nodes": dict(pending.reason_counts),
    }
    fix = say(
        "ask for less of {resource}, or wait for other jobs to end; {command}, run by a user who may read nodes, shows "
        "who holds it",
        resource=resource,
        command=command("why", pending.evidence),
    )
    return Finding(shortage_of(resource, gpus), message, numbers, fix, pending.sources, pending.name, pending.number)
