"""What a snapshot keeps of each object: what the scheduler and admission count, and no secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuctl.backend.api_resources import Object, labels_of
from gpuctl.capacity.pod_requests import pod_requests, scored_requests
from gpuctl.capacity.quota_sum import format_amount

ENDED = ("Succeeded", "Failed")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
"""The field of affinity that only ranks nodes."""
STAYING = ("DaemonSet", "Node")
"""Controllers whose pods stay on their nodes."""
_POD_LEVEL = {"cpu", "memory"}
_TERM = ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")
SCHEDULER = "default-scheduler"
"""The scheduler whose rules are known."""


def counted_node(node: Object) -> Object:
    spec = node.get("spec") or {}
    taints = [_pick(taint, "key", "value", "effect") for taint in spec.get("taints") or []]
    rest = _without_empty({"taints": taints, "unschedulable": spec.get("unschedulable")})
    return {**_labelled(node), "allocatable": (node.get("status") or {}).get("allocatable") or {}, **rest}


def is_seen(pod: Object) -> bool:
    """Whether the scheduler counts a pod: it is on a node, or waits for the scheduler to find one."""
    spec, status = pod["spec"], pod.get("status") or {}
    if status.get("phase") in ENDED:
        return False
    is_ours = (spec.get("schedulerName") or SCHEDULER) == SCHEDULER
    leaves = bool(pod["metadata"].get("deletionTimestamp"))
    return bool(spec.get("nodeName")) or (is_ours and not leaves and not spec.get("schedulingGates"))


def counted_pod(pod: Object) -> Object:
    spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
    requests = {name: format_amount(name, amount) for name, amount in sorted(pod_requests(spec, status).items())}
    node, owner = spec.get("nodeName"), _owner(metadata)
    rest = {
        "node": node,
        "nominatedNode": None if node else status.get("nominatedNodeName"),
        "hostPorts": host_ports(spec),
        "antiAffinity": anti_affinity(spec),
        "startTime": status.get("startTime"),
        # Running goes without saying.
        "phase": None if status.get("phase") == "Running" else status.get("phase"),
        "deleting": bool(metadata.get("deletionTimestamp")),
        "priorityClass": spec.get("priorityClassName"),
        "hasDeadline": spec.get("activeDeadlineSeconds") is not None,
        "claims": _claims(pod),
        "owner": owner,
        "wants": _wants(spec) if _wants_room(node, owner) else None,
        "scored": _scored(spec, status),
        "preferences": preferences(spec),
        # Of a pod that waits it is among what it wants.
        "near": _terms(spec, "podAffinity") if node else None,
    }
    own = {**_named(pod, namespaced=True), "labels": labels_of(pod), "priority": spec.get("priority") or 0}
    return {**own, "requests": requests, **_without_empty(rest)}


def _wants_room(node: str | None, owner: Object | None) -> bool:
    """Whether a pod wants room, or will if it is evicted: then its controller makes it again."""
    return node is None or (owner is not None and owner["kind"] not in STAYING)


def _claims(pod: Object) -> list[str]:
    """The claims that a pod uses. Source: ``component-helpers/storage/ephemeral/ephemeral.go``, VolumeClaimName."""
    result = []
    for volume in pod["spec"].get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            result.append(volume["persistentVolumeClaim"]["claimName"])
        elif volume.get("ephemeral"):
            result.append(f"{pod['metadata']['name']}-{volume['name']}")
    return result


def host_ports(spec: Object) -> list[Object]:
    """The ports of its node that a pod binds. Source: ``pkg/scheduler/util/utils.go``, GetHostPorts."""
    sidecars = [item for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"]
    return [
        {
            "ip": port.get("hostIP") or "0.0.0.0",  # noqa: S104 - compared, not bound
            "protocol": port.get("protocol") or "TCP",
            "port": port["hostPort"] if port.get("hostPort") else port["containerPort"],
        }
        for container in [*sidecars, *spec["containers"]]
        for port in container.get("ports") or []
        if port.get("hostPort") or spec.get("hostNetwork")
    ]


def _wants(spec: Object) -> Object:
    """Where a pod may go that waits, or would."""
    affinity = spec.get("affinity") or {}
    nodes = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    near = (affinity.get("podAffinity") or {}).get(_REQUIRED) or []
    preferred = (affinity.get("nodeAffinity") or {}).get(PREFERRED)
    return _without_empty(
        {
            "nodeSelector": spec.get("nodeSelector"),
            "tolerations": spec.get("tolerations"),
            "nodeTerms": nodes.get("nodeSelectorTerms"),
            "affinity": [_term(term) for term in near],
            "spread": spec.get("topologySpreadConstraints"),
            "preferredNodes": preferred,
        }
    )


def anti_affinity(spec: Object) -> list[Object]:
    """The required terms of a pod's anti-affinity."""
    return _terms(spec, "podAntiAffinity")


def preferences(spec: Object) -> list[Object]:
    """The preferred terms of a pod's affinity, and those of its anti-affinity with weights below 0."""
    affinity = spec.get("affinity") or {}
    return [
        {"weight": sign * item["weight"], **_term(item["podAffinityTerm"])}
        for side, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for item in (affinity.get(side) or {}).get(PREFERRED) or []
    ]


def _terms(spec: Object, side: str) -> list[Object]:
    return [_term(term) for term in ((spec.get("affinity") or {}).get(side) or {}).get(_REQUIRED) or []]


def _term(term: Object) -> Object:
    return {key: term[key] for key in _TERM if term.get(key) is not None}


def _scored(spec: Object, status: Object) -> Object | None:
    """What a pod counts as where nodes are ranked; where it is what it requests, that goes without saying."""
    containers = [*spec["containers"], *(spec.get("initContainers") or [])]
    if all(((item.get("resources") or {}).get("requests") or {}).keys() >= _POD_LEVEL for item in containers):
        return None
    found = scored_requests(spec, status)
    return {name: format_amount(name, found[name]) for name in sorted(_POD_LEVEL)}


def _owner(metadata: Object) -> Object | None:
    """The workload behind a pod; a ReplicaSet's is its Deployment, whose name is the ReplicaSet's but for a hash."""
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("controller"):
            kind, name, group = owner["kind"], owner["name"], owner.get("apiVersion", "").rpartition("/")[0]
            suffix = "-" + (metadata.get("labels") or {}).get("pod-template-hash", "")
            if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
                kind, name = "Deployment", name.removesuffix(suffix)
            return {"group": group, "kind": kind, "name": name}
    return None


def counted_priority_class(obj: Object) -> Object:
    return {**_named(obj), "value": obj["value"], **_pick(obj, "preemptionPolicy", "globalDefault")}


def counted_runtime_class(obj: Object) -> Object:
    overhead = (obj.get("overhead") or {}).get("podFixed")
    return {**_named(obj), **_without_empty({"overhead": overhead}), **_scheduling(obj.get("scheduling"))}


def _scheduling(scheduling: Object | None) -> Object:
    return _pick(scheduling, "nodeSelector", "tolerations")


def counted_quota(quota: Object) -> Object:
    metadata = {"namespace": quota["metadata"]["namespace"], "name": quota["metadata"]["name"]}
    parts = {"spec": quota.get("spec") or {}, "status": quota.get("status") or {}}
    return {"kind": "ResourceQuota", "metadata": metadata, **parts}


def counted_limit_range(obj: Object) -> Object:
    return {**_named(obj, namespaced=True), "limits": (obj.get("spec") or {}).get("limits") or []}


def counted_namespace(obj: Object) -> Object:
    return {**_labelled(obj), **_without_empty({"deleting": bool(obj["metadata"].get("deletionTimestamp"))})}


def counted_storage_class(obj: Object) -> Object:
    return {**_named(obj), "provisioner": obj["provisioner"], "bindingMode": obj.get("volumeBindingMode", "Immediate")}


def counted_csi_node(obj: Object) -> Object:
    """Only drivers with a limit."""
    limits = {item["name"]: (item.get("allocatable") or {}).get("count") for item in obj["spec"].get("drivers") or []}
    return {
        **_named(obj),
        "drivers": [{"name": name, "count": count} for name, count in limits.items() if count is not None],
    }


def counted_attachment(obj: Object) -> Object:
    spec = obj["spec"]
    return {
        "node": spec["nodeName"],
        "driver": spec["attacher"],
        "volume": spec["source"].get("persistentVolumeName") or "",
    }


def counted_budget(obj: Object) -> Object:
    status = obj.get("status") or {}
    own = {**_named(obj, namespaced=True), "disruptionsAllowed": status.get("disruptionsAllowed") or 0}
    disrupted: Iterable[str] = status.get("disruptedPods") or {}
    return {**own, **_pick(obj.get("spec"), "selector"), **_without_empty({"disruptedPods": sorted(disrupted)})}


def counted_claim(obj: Object) -> Object:
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    rest = {
        "volume": spec.get("volumeName") if phase in ("Bound", "Lost") else None,
        "storageClass": spec.get("storageClassName"),
        # Bound goes without saying.
        "phase": None if phase == "Bound" else phase,
        "deleting": bool(obj["metadata"].get("deletionTimestamp")),
    }
    return {**_named(obj, namespaced=True), **_without_empty(rest), **_pick(spec, "accessModes")}


def counted_volume(obj: Object) -> Object:
    required = ((obj["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    source = obj["spec"].get("csi") or {}
    rest = {"nodeTerms": required, "driver": source.get("driver"), "handle": source.get("volumeHandle")}
    return {**_labelled(obj), **_without_empty(rest)}


def counted_custom_resource(obj: Object) -> Object:
    versions = [item["name"] for item in obj["spec"]["versions"] if item.get("served")]
    return {**_named(obj), "kind": obj["spec"]["names"]["kind"], "versions": versions}


def _without_empty(value: Mapping[str, Any]) -> Object:
    return {key: item for key, item in value.items() if item not in (None, {}, [], False, "")}


def _pick(value: Mapping[str, Any] | None, *keys: str) -> Object:
    return _without_empty({key: (value or {}).get(key) for key in keys})


def _named(obj: Object, *, namespaced: bool = False) -> Object:
    metadata = obj["metadata"]
    return {**({"namespace": metadata["namespace"]} if namespaced else {}), "name": metadata["name"]}


def _labelled(obj: Object) -> Object:
    return {**_named(obj), "labels": labels_of(obj)}
