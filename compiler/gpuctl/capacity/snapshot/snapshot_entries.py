"""The entry of each object in a snapshot: what the scheduler and admission use, and no secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from gpuctl.capacity.snapshot.eviction_tolerance import eviction_tolerance, restarts_on_failure
from gpuctl.capacity.snapshot.pod_requests import pod_requests, scored_requests
from gpuctl.objects.api_resources import QUEUE_LABEL, Object, annotations_of, labels_of
from gpuctl.objects.label_managers import POOLS_MANAGER, label_managers
from gpuctl.objects.pod_specs import REQUIRED, containers_of, required_node_terms, sidecars_of
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.timestamps import format_timestamp, parse_timestamp
from gpuctl.objects.workload_state import end_condition, has_ended

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
"""The affinity field that only ranks nodes."""
NODE_BOUND_OWNERS = ("DaemonSet", "Node")
"""Owner kinds whose pods stay on their nodes."""
_POD_LEVEL = {"cpu", "memory"}
_TERM = ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_FILES = "Filesystem"
_MIGRATED = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", "volumeID"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID"),
}
"""Source of a volume -> its in-tree plugin, the CSI driver that replaces it, and the field that identifies the volume.

Source: ``nodevolumelimits/utils.go``, isCSIMigrationOn; ``k8s.io/csi-translation-lib/plugins``.
"""
MIGRATED_DRIVERS = {plugin: driver for plugin, driver, _ in _MIGRATED.values()}
"""In-tree plugin -> the CSI driver that replaces it."""
_DEVICE_CLAIM = ("name", "resourceClaimName", "resourceClaimTemplateName")
# Default grace period in seconds (pkg/apis/core/v1/defaults.go).
_GRACE = 30
SCHEDULER = "default-scheduler"
"""The only scheduler whose rules gpuctl models."""


def node_entry(node: Object) -> Object:
    """Return the entry of a node. ``poolLabels``: labels that only its pool has set."""
    spec = node.get("spec") or {}
    taints = [pick(taint, "key", "value", "effect") for taint in spec.get("taints") or []]
    own = [label for label in labels_of(node) if {*label_managers(node, label)} == {POOLS_MANAGER}]
    rest = without_empty({"taints": taints, "unschedulable": spec.get("unschedulable"), "poolLabels": sorted(own)})
    return {**_labelled(node), "allocatable": (node.get("status") or {}).get("allocatable") or {}, **rest}


def is_seen_by_scheduler(pod: Object) -> bool:
    """Return True if the scheduler counts a pod: it is on a node, or waits for one."""
    spec = pod["spec"]
    if has_ended(pod):
        return False
    is_ours = (spec.get("schedulerName") or SCHEDULER) == SCHEDULER
    leaves = bool(pod["metadata"].get("deletionTimestamp"))
    return bool(spec.get("nodeName")) or (is_ours and not leaves and not spec.get("schedulingGates"))


def pod_entry(pod: Object) -> Object:
    spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
    requests = {name: format_amount(name, amount) for name, amount in sorted(pod_requests(spec, status).items())}
    node, owner = spec.get("nodeName"), _owner(metadata)
    rest = {
        "node": node,
        "nominatedNode": None if node else status.get("nominatedNodeName"),
        "hostPorts": host_ports(spec),
        "antiAffinity": anti_affinity(spec),
        "startTime": status.get("startTime"),
        # Running is the default.
        "phase": None if status.get("phase") == "Running" else status.get("phase"),
        "deleting": bool(metadata.get("deletionTimestamp")),
        "priorityClass": spec.get("priorityClassName"),
        "hasDeadline": spec.get("activeDeadlineSeconds") is not None,
        "endsBy": _end(spec, status.get("startTime"), spec),
        "claims": _claims(pod),
        "deviceClaims": [pick(item, *_DEVICE_CLAIM) for item in spec.get("resourceClaims") or []],
        "owner": owner,
        "wants": _wants(spec) if _wants_room(node, owner) else None,
        "scored": _scored(spec, status),
    }
    own = {**_named(pod, namespaced=True), "labels": labels_of(pod), "priority": spec.get("priority") or 0}
    return {**own, "requests": requests, **without_empty(rest)}


def _wants_room(node: str | None, owner: Object | None) -> bool:
    """Return True if a pod needs room now, or after an eviction because its controller recreates it."""
    return node is None or (owner is not None and owner["kind"] not in NODE_BOUND_OWNERS)


def _end(spec: Object, start: str | None, pod: Object) -> str | None:
    """Return the latest end of a Job or pod: its start, its deadline and the grace period of its pods together."""
    if start is None or spec.get("activeDeadlineSeconds") is None:
        return None
    grace = pod.get("terminationGracePeriodSeconds")
    seconds = int(spec["activeDeadlineSeconds"]) + (_GRACE if grace is None else int(grace))
    try:
        return format_timestamp(parse_timestamp(start) + timedelta(seconds=seconds))
    except (OverflowError, ValueError):
        return None


def job_entry(job: Object) -> Object | None:
    """Return the entry of an unfinished Job, with its EvictionTolerance.

    ``endsBy``: the latest end; ``final``: the Job fails with its first failed pod. Both are left out for a Job in a
    Kueue queue, because Kueue gives its quota to the next job. Source: ``pkg/controller/job/job_controller.go``
    (syncJob: pastActiveDeadline).
    """
    spec, status = job["spec"], job.get("status") or {}
    if spec.get("suspend") or end_condition(job):
        return None
    own = eviction_tolerance(spec, status)
    found: Object = {"spared": own.survivable or None, "enough": own.fatal}
    if QUEUE_LABEL not in labels_of(job):
        end = _end(spec, status.get("startTime"), spec["template"]["spec"])
        found.update(endsBy=end, final=eviction_tolerance(spec, status, evicted=False).fails(1))
    return {**_named(job, namespaced=True), **without_empty(found)}


def job_set_entry(obj: Object) -> Object | None:
    """Return the entry of an unfinished JobSet. ``restarts``: a failed Job restarts it; ``unsure``: its rules leave
    that open.
    """
    if end_condition(obj):
        return None
    again = restarts_on_failure(obj)
    found = {"restarts": again, "unsure": again is None, "queued": QUEUE_LABEL in labels_of(obj)}
    return {**_named(obj, namespaced=True), **without_empty(found)}


def finished_entry(obj: Object) -> Object | None:
    """Return the entry of a Job or JobSet that has ended, or None if it has not.

    ``condition`` is the condition that marks the end, ``since`` its time. ``app`` is the training's name; a GitOps
    controller applies the object under a name with a hash.
    """
    end = end_condition(obj)
    if not end:
        return None
    found = {"kind": obj["kind"], "condition": end["type"], "since": end.get("lastTransitionTime")}
    return {**_named(obj, namespaced=True), **without_empty({**found, "app": labels_of(obj).get("app")})}


def _claims(pod: Object) -> list[str]:
    """Return the names of the claims that a pod uses. Source: ``component-helpers/storage/ephemeral/ephemeral.go``,
    VolumeClaimName.
    """
    result = []
    for volume in pod["spec"].get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            result.append(volume["persistentVolumeClaim"]["claimName"])
        elif volume.get("ephemeral"):
            result.append(f"{pod['metadata']['name']}-{volume['name']}")
    return result


def host_ports(spec: Object) -> list[Object]:
    """Return the host ports that a pod binds. Source: ``pkg/scheduler/util/utils.go``, GetHostPorts."""
    return [
        {
            "ip": port.get("hostIP") or "0.0.0.0",  # noqa: S104 - compared, not bound
            "protocol": port.get("protocol") or "TCP",
            "port": port["hostPort"] if port.get("hostPort") else port["containerPort"],
        }
        for container in [*sidecars_of(spec), *spec["containers"]]
        for port in container.get("ports") or []
        if port.get("hostPort") or spec.get("hostNetwork")
    ]


def _wants(spec: Object) -> Object:
    """Return a pod's node selection and placement rules."""
    preferred = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED)
    return without_empty(
        {
            "nodeSelector": spec.get("nodeSelector"),
            "tolerations": spec.get("tolerations"),
            "nodeTerms": required_node_terms(spec),
            "affinity": _terms(spec, "podAffinity"),
            "spread": spec.get("topologySpreadConstraints"),
            "preferredNodes": preferred,
        }
    )


def anti_affinity(spec: Object) -> list[Object]:
    """Return the required terms of a pod's anti-affinity."""
    return _terms(spec, "podAntiAffinity")


def _terms(spec: Object, side: str) -> list[Object]:
    return [_term(term) for term in ((spec.get("affinity") or {}).get(side) or {}).get(REQUIRED) or []]


def _term(term: Object) -> Object:
    return {key: term[key] for key in _TERM if term.get(key) is not None}


def _scored(spec: Object, status: Object) -> Object | None:
    """Return the cpu and memory used to score nodes, or None if they equal the requests."""
    if all(((item.get("resources") or {}).get("requests") or {}).keys() >= _POD_LEVEL for item in containers_of(spec)):
        return None
    found = scored_requests(spec, status)
    return {name: format_amount(name, found[name]) for name in sorted(_POD_LEVEL)}


def _owner(metadata: Object) -> Object | None:
    """Return the workload of a pod. For a ReplicaSet it is the Deployment, whose name lacks the template hash."""
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("controller"):
            kind, name, group = owner["kind"], owner["name"], owner.get("apiVersion", "").rpartition("/")[0]
            suffix = "-" + (metadata.get("labels") or {}).get("pod-template-hash", "")
            if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
                kind, name = "Deployment", name.removesuffix(suffix)
            return {"group": group, "kind": kind, "name": name}
    return None


def priority_class_entry(obj: Object) -> Object:
    return {**_named(obj), "value": obj["value"], **pick(obj, "preemptionPolicy", "globalDefault")}


def runtime_class_entry(obj: Object) -> Object:
    overhead = (obj.get("overhead") or {}).get("podFixed")
    return {**_named(obj), **without_empty({"overhead": overhead}), **_scheduling(obj.get("scheduling"))}


def _scheduling(scheduling: Object | None) -> Object:
    return pick(scheduling, "nodeSelector", "tolerations")


def quota_entry(quota: Object) -> Object:
    metadata = {"namespace": quota["metadata"]["namespace"], "name": quota["metadata"]["name"]}
    parts = {"spec": quota.get("spec") or {}, "status": quota.get("status") or {}}
    return {"kind": "ResourceQuota", "metadata": metadata, **parts}


def limit_range_entry(obj: Object) -> Object:
    return {**_named(obj, namespaced=True), "limits": (obj.get("spec") or {}).get("limits") or []}


def namespace_entry(obj: Object) -> Object:
    return {**_labelled(obj), **without_empty({"deleting": bool(obj["metadata"].get("deletionTimestamp"))})}


def storage_class_entry(obj: Object) -> Object:
    terms = [
        [{"key": item["key"], "values": item["values"]} for item in term.get("matchLabelExpressions") or []]
        for term in obj.get("allowedTopologies") or []
    ]
    rest = {"topologies": terms, "default": annotations_of(obj).get(_DEFAULT_CLASS) == "true"}
    mode = obj.get("volumeBindingMode", "Immediate")
    return {**_named(obj), "provisioner": obj["provisioner"], "bindingMode": mode, **without_empty(rest)}


def csi_node_entry(obj: Object) -> Object:
    return {**_named(obj), "drivers": [_driver_entry(item) for item in obj["spec"].get("drivers") or []]}


def _driver_entry(driver: Object) -> Object:
    count = (driver.get("allocatable") or {}).get("count")
    own = {"name": driver["name"], "topologyKeys": driver.get("topologyKeys") or []}
    return own if count is None else {**own, "count": count}


def csi_driver_entry(obj: Object) -> Object:
    return {**_named(obj), **pick(obj["spec"], "storageCapacity")}


def storage_capacity_entry(obj: Object) -> Object:
    """Source of the size: ``volumebinding/binder.go``, volumeLimit."""
    size = obj.get("maximumVolumeSize") or obj.get("capacity")
    rest = {"size": size} if size is not None else {}
    topology = {} if obj.get("nodeTopology") is None else {"topology": obj["nodeTopology"]}
    return {"storageClass": obj["storageClassName"], **rest, **topology}


def attachment_entry(obj: Object) -> Object:
    spec = obj["spec"]
    return {
        "node": spec["nodeName"],
        "driver": spec["attacher"],
        "volume": spec["source"].get("persistentVolumeName") or "",
    }


def budget_entry(obj: Object) -> Object:
    status = obj.get("status") or {}
    own = {**_named(obj, namespaced=True), "disruptionsAllowed": status.get("disruptionsAllowed") or 0}
    disrupted: Iterable[str] = status.get("disruptedPods") or {}
    return {**own, **pick(obj.get("spec"), "selector"), **without_empty({"disruptedPods": sorted(disrupted)})}


def claim_entry(obj: Object) -> Object:
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    named = spec.get("volumeName")
    rest = {
        "volume": named if phase in ("Bound", "Lost") else None,
        # A bound claim no longer looks for a volume.
        **({} if phase in ("Bound", "Lost") else {**volume_request(spec), "named": named}),
        "selectedNode": None if phase in ("Bound", "Lost") else annotations_of(obj).get(_SELECTED_NODE),
        # Bound is the default.
        "phase": None if phase == "Bound" else phase,
        "deleting": bool(obj["metadata"].get("deletionTimestamp")),
    }
    # An empty name asks for a volume without a class, no name for the default class.
    own = {} if _class_of(obj) is None else {"storageClass": _class_of(obj)}
    return {**_named(obj, namespaced=True), **own, **without_empty(rest), **pick(spec, "accessModes")}


def volume_request(spec: Object) -> Object:
    """Return what a claim requires of an existing volume, from its spec."""
    block = (spec.get("volumeMode") or _FILES) != _FILES
    rest = {"block": block, "attributesClass": spec.get("volumeAttributesClassName")}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    selector = {} if spec.get("selector") is None else {"selector": spec["selector"]}
    return {**without_empty({**rest, "size": size}), **selector}


def volume_entry(obj: Object) -> Object:
    required = ((obj["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    source = obj["spec"].get("csi") or {}
    driver, handle = source.get("driver"), source.get("volumeHandle")
    for name, (_, replacement, field) in _MIGRATED.items():
        if obj["spec"].get(name):
            driver, handle = replacement, obj["spec"][name][field]
    rest = {"nodeTerms": required, "driver": driver, "handle": handle}
    phase = (obj.get("status") or {}).get("phase")
    # Bound is the default; a bound volume is available to no other claim.
    return {**_labelled(obj), **without_empty({**rest, **({} if phase == "Bound" else _offered(obj, phase))})}


def _offered(volume: Object, phase: str | None) -> Object:
    spec = volume["spec"]
    return {
        "phase": phase or "Pending",
        "storageClass": _class_of(volume),
        "size": (spec.get("capacity") or {}).get("storage"),
        "accessModes": spec.get("accessModes"),
        "block": (spec.get("volumeMode") or _FILES) != _FILES,
        "attributesClass": spec.get("volumeAttributesClassName"),
        "claim": _claim_of(spec.get("claimRef") or {}),
        "deleting": bool(volume["metadata"].get("deletionTimestamp")),
    }


def _claim_of(reference: Object) -> Object:
    """Return the claim that a volume is reserved for.

    With a ``uid`` in its ``claimRef`` it belonged to one certain claim, which a new claim of that name is not: the name
    is left out.
    """
    return pick(reference, "namespace") if reference.get("uid") else pick(reference, "namespace", "name")


def _class_of(obj: Object) -> str | None:
    """Source: ``component-helpers/storage/volume/helpers.go``, GetPersistentVolumeClaimClass, ...VolumeClass."""
    named: str | None = annotations_of(obj).get(_CLASS, obj["spec"].get("storageClassName"))
    return named


def without_empty(value: Mapping[str, Any]) -> Object:
    """Return an entry without empty values, which are the defaults."""
    return {key: item for key, item in value.items() if item not in (None, {}, [], False, "")}


def pick(value: Mapping[str, Any] | None, *keys: str) -> Object:
    """Return some fields of an object that are not empty."""
    return without_empty({key: (value or {}).get(key) for key in keys})


def _named(obj: Object, *, namespaced: bool = False) -> Object:
    metadata = obj["metadata"]
    return {**({"namespace": metadata["namespace"]} if namespaced else {}), "name": metadata["name"]}


def _labelled(obj: Object) -> Object:
    return {**_named(obj), "labels": labels_of(obj)}
