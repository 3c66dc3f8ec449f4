"""What a cluster has and what is taken of it, in one JSON document: enough to tell what would fit, and no secrets.

Of pods only what the scheduler counts is kept: no commands, variables or annotations. Quantities are written as
Kubernetes does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from gpuctl.backend.api_resources import RESOURCES, Object, Resource, labels_of
from gpuctl.capacity.pod_requests import pod_requests
from gpuctl.capacity.quota_sum import format_amount
from gpuctl.capacity.shape import ADDED, check
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.connection import Connection

KIND = "ClusterSnapshot"
VERSION = 2

_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_RUNTIMES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
_STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
_CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
_ENDED = ("Succeeded", "Failed")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ANYWAY = "ScheduleAnyway"
_TERM = ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")
SCHEDULER = "default-scheduler"
"""The scheduler whose rules are known."""


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment. The lists hold plain dicts, see :data:`gpuctl.capacity.shape.SHAPE`.

    ``unreadable`` are the lists that the user may not read, ``missing`` those that an older gpuctl did not write; they
    are empty.
    """

    taken_at: str
    nodes: list[Object]
    pods: list[Object]
    namespaces: list[Object] = field(default_factory=list)
    priority_classes: list[Object] = field(default_factory=list)
    runtime_classes: list[Object] = field(default_factory=list)
    quotas: list[Object] = field(default_factory=list)
    limit_ranges: list[Object] = field(default_factory=list)
    budgets: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    storage_classes: list[Object] = field(default_factory=list)
    csi_nodes: list[Object] = field(default_factory=list)
    attachments: list[Object] = field(default_factory=list)
    custom_resources: list[Object] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @cached_property
    def claims_by_name(self) -> Mapping[tuple[str, str], Object]:
        """The claims by namespace and name."""
        return {(item["namespace"], item["name"]): item for item in self.claims}

    @cached_property
    def volumes_by_name(self) -> Mapping[str, Object]:
        """The volumes by name."""
        return {item["name"]: item for item in self.volumes}


class DamagedSnapshot(ClusterError):
    """A file is no snapshot, or not a whole one."""


def take(connection: Connection, now: datetime | None = None, *, left_out: frozenset[str] = frozenset()) -> Snapshot:
    """Read a cluster.

    :param left_out: fields of the snapshot that are not needed.
    :raises ApiError: nodes or pods may not be listed; what else may not is left out.
    """
    unreadable: list[str] = []
    parts: list[tuple[str, Resource, Callable[[Object], Object]]] = [
        ("nodes", RESOURCES["Node"], _node),
        ("pods", RESOURCES["Pod"], _pod),
        ("namespaces", RESOURCES["Namespace"], _namespace),
        ("priority_classes", RESOURCES["PriorityClass"], _priority_class),
        ("runtime_classes", _RUNTIMES, _runtime_class),
        ("quotas", RESOURCES["ResourceQuota"], _quota),
        ("limit_ranges", RESOURCES["LimitRange"], _limit_range),
        ("budgets", _BUDGETS, _budget),
        ("claims", RESOURCES["PersistentVolumeClaim"], _claim),
        ("volumes", RESOURCES["PersistentVolume"], _volume),
        ("storage_classes", _STORAGE_CLASSES, _storage_class),
        ("csi_nodes", _CSI_NODES, _csi_node),
        ("attachments", _ATTACHMENTS, _attachment),
        ("custom_resources", RESOURCES["CustomResourceDefinition"], _custom_resource),
    ]

    parts = [part for part in parts if part[0] not in left_out]

    def read(part: tuple[str, Resource, Callable[[Object], Object]]) -> list[Object]:
        name, resource, keep = part
        # Source: scheduler.go, NewInformerFactory: finished pods are not seen at all.
        fields = ",".join(f"status.phase!={phase}" for phase in _ENDED) if name == "pods" else ""
        try:
            items = connection.list_objects(resource, fields=fields)[0]
        except ApiError as error:
            if name in ("nodes", "pods") or not (error.lacks_permission or error.is_missing):
                raise
            unreadable.append(_camel(name))
            return []
        return [keep(item) for item in items if name != "pods" or _is_seen(item)]

    lists: dict[str, Any] = dict(zip((part[0] for part in parts), connection.each(read, parts), strict=True))
    moment = (now or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Snapshot(moment, **lists, unreadable=sorted(unreadable))


def render(snapshot: Snapshot) -> str:
    """The snapshot as JSON, with a line for each item so that two can be compared."""
    value = {_camel(name): item for name, item in asdict(snapshot).items() if name != "missing"}
    parts = [f'"kind": "{KIND}"', f'"version": {VERSION}']
    for name, item in value.items():
        if isinstance(item, list):
            lines = (json.dumps(entry, ensure_ascii=False, sort_keys=True) for entry in item)
            text = "[" + ",".join(f"\n  {line}" for line in lines) + ("\n ]" if item else "]")
        else:
            text = json.dumps(item)
        parts.append(f'"{name}": {text}')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def load(text: str, name: str = "the snapshot") -> Snapshot:
    """The snapshot that :func:`render` wrote; ``name`` is its file's, for messages.

    :raises DamagedSnapshot: it is something else, or damaged; the message says where.
    """
    hint = "make a new one with `gpuctl snapshot > cluster.json`"
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DamagedSnapshot(f"{name} is not JSON: {error}", hint) from None
    except RecursionError:
        raise DamagedSnapshot(f"{name} is not a snapshot: it is nested too deeply", hint) from None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise DamagedSnapshot(f"{name} is not a snapshot: its `kind` is not {KIND}", hint)
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
        told = json.dumps(version)
        raise DamagedSnapshot(f"{name} has version {told}; this gpuctl reads versions 1 to {VERSION}", hint)
    missing = [key for since, keys in ADDED.items() if version < since for key in keys if key not in value]
    value.update({key: [] for key in missing})
    try:
        check(value)
    except ValueError as error:
        raise DamagedSnapshot(f"{name} is damaged: {error}", hint) from None
    known = {_camel(item): item for item in Snapshot.__dataclass_fields__}
    found = {known[key]: item for key, item in value.items() if key in known}
    return Snapshot(**{**found, "missing": missing})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _without_empty(value: Mapping[str, Any]) -> Object:
    return {key: item for key, item in value.items() if item not in (None, {}, [], False, "")}


def _pick(value: Mapping[str, Any] | None, *keys: str) -> Object:
    return _without_empty({key: (value or {}).get(key) for key in keys})


def _named(obj: Object, *, namespaced: bool = False) -> Object:
    metadata = obj["metadata"]
    return {**({"namespace": metadata["namespace"]} if namespaced else {}), "name": metadata["name"]}


def _labelled(obj: Object) -> Object:
    return {**_named(obj), "labels": labels_of(obj)}


def _node(node: Object) -> Object:
    spec = node.get("spec") or {}
    taints = [_pick(taint, "key", "value", "effect") for taint in spec.get("taints") or []]
    rest = _without_empty({"taints": taints, "unschedulable": spec.get("unschedulable")})
    return {**_labelled(node), "allocatable": (node.get("status") or {}).get("allocatable") or {}, **rest}


def _is_seen(pod: Object) -> bool:
    """Whether the scheduler counts a pod: it is on a node, or waits for the scheduler to find one."""
    spec, status = pod["spec"], pod.get("status") or {}
    if status.get("phase") in _ENDED:
        return False
    is_ours = (spec.get("schedulerName") or SCHEDULER) == SCHEDULER
    leaves = bool(pod["metadata"].get("deletionTimestamp"))
    return bool(spec.get("nodeName")) or (is_ours and not leaves and not spec.get("schedulingGates"))


def _pod(pod: Object) -> Object:
    spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
    requests = {name: format_amount(name, amount) for name, amount in sorted(pod_requests(spec, status).items())}
    node = spec.get("nodeName")
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
        "owner": _owner(metadata),
        "wants": None if node else _wants(spec),
    }
    own = {**_named(pod, namespaced=True), "labels": labels_of(pod), "priority": spec.get("priority") or 0}
    return {**own, "requests": requests, **_without_empty(rest)}


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
    """Where a pod that waits may go."""
    affinity = spec.get("affinity") or {}
    nodes = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    near = (affinity.get("podAffinity") or {}).get(_REQUIRED) or []
    spreads = [item for item in spec.get("topologySpreadConstraints") or [] if item["whenUnsatisfiable"] != _ANYWAY]
    return _without_empty(
        {
            "nodeSelector": spec.get("nodeSelector"),
            "tolerations": spec.get("tolerations"),
            "nodeTerms": nodes.get("nodeSelectorTerms"),
            "affinity": [{key: term[key] for key in _TERM if term.get(key) is not None} for term in near],
            "spread": spreads,
        }
    )


def anti_affinity(spec: Object) -> list[Object]:
    """The required terms of a pod's anti-affinity."""
    rules = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    return [{key: term[key] for key in _TERM if term.get(key) is not None} for term in rules.get(_REQUIRED) or []]


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


def _priority_class(obj: Object) -> Object:
    return {**_named(obj), "value": obj["value"], **_pick(obj, "preemptionPolicy", "globalDefault")}


def _runtime_class(obj: Object) -> Object:
    overhead = (obj.get("overhead") or {}).get("podFixed")
    return {**_named(obj), **_without_empty({"overhead": overhead}), **_scheduling(obj.get("scheduling"))}


def _scheduling(scheduling: Object | None) -> Object:
    return _pick(scheduling, "nodeSelector", "tolerations")


def _quota(quota: Object) -> Object:
    metadata = {"namespace": quota["metadata"]["namespace"], "name": quota["metadata"]["name"]}
    parts = {"spec": quota.get("spec") or {}, "status": quota.get("status") or {}}
    return {"kind": "ResourceQuota", "metadata": metadata, **parts}


def _limit_range(obj: Object) -> Object:
    return {**_named(obj, namespaced=True), "limits": (obj.get("spec") or {}).get("limits") or []}


def _namespace(obj: Object) -> Object:
    return {**_labelled(obj), **_without_empty({"deleting": bool(obj["metadata"].get("deletionTimestamp"))})}


def _storage_class(obj: Object) -> Object:
    return {**_named(obj), "provisioner": obj["provisioner"], "bindingMode": obj.get("volumeBindingMode", "Immediate")}


def _csi_node(obj: Object) -> Object:
    """Only drivers with a limit."""
    limits = {item["name"]: (item.get("allocatable") or {}).get("count") for item in obj["spec"].get("drivers") or []}
    return {
        **_named(obj),
        "drivers": [{"name": name, "count": count} for name, count in limits.items() if count is not None],
    }


def _attachment(obj: Object) -> Object:
    spec = obj["spec"]
    return {
        "node": spec["nodeName"],
        "driver": spec["attacher"],
        "volume": spec["source"].get("persistentVolumeName") or "",
    }


def _budget(obj: Object) -> Object:
    status = obj.get("status") or {}
    own = {**_named(obj, namespaced=True), "disruptionsAllowed": status.get("disruptionsAllowed") or 0}
    disrupted: Iterable[str] = status.get("disruptedPods") or {}
    return {**own, **_pick(obj.get("spec"), "selector"), **_without_empty({"disruptedPods": sorted(disrupted)})}


def _claim(obj: Object) -> Object:
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    rest = {
        "volume": spec.get("volumeName") if phase in ("Bound", "Lost") else None,
        "storageClass": spec.get("storageClassName"),
        # Bound goes without saying.
        "phase": None if phase == "Bound" else phase,
        "deleting": bool(obj["metadata"].get("deletionTimestamp")),
    }
    return {**_named(obj, namespaced=True), **_without_empty(rest), **_pick(spec, "accessModes")}


def _volume(obj: Object) -> Object:
    required = ((obj["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    source = obj["spec"].get("csi") or {}
    rest = {"nodeTerms": required, "driver": source.get("driver"), "handle": source.get("volumeHandle")}
    return {**_labelled(obj), **_without_empty(rest)}


def _custom_resource(obj: Object) -> Object:
    versions = [item["name"] for item in obj["spec"]["versions"] if item.get("served")]
    return {**_named(obj), "kind": obj["spec"]["names"]["kind"], "versions": versions}
