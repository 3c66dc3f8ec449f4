"""The entry of each Kueue object in a snapshot: what decides about admission, and no secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl.capacity.snapshot.snapshot_entries import pod_entry
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.prerequisites import ADMISSION_GATES
from gpuctl.objects.queueing import TOPOLOGIES, owner_of_workload
from gpuctl.objects.workload_state import NOT_READY_IN_TIME, condition, find_condition, is_backing_off, queueing_time

_RESOURCES = ("requests", "limits")
TOPOLOGY = TOPOLOGIES["required"]
"""An annotation with which pods request a topology; there are several."""
_TOPOLOGY = (*TOPOLOGIES.values(), "kueue.x-k8s.io/podset-unconstrained-topology")
# Source: Kueue's pkg/workload/resources.go, ErrInvalidWLResources and ErrLimitRangeConstraintsUnsatisfiedResources.
_REFUSED = ("resources validation failed", "resources didn't satisfy LimitRange constraints")
REFUSED_CLAIM = ("spec.podSets[", "[spec.podSets[", "KueueDRAIntegration feature", "Workload uses DRA resources")
"""Beginnings of Kueue's messages about jobs whose devices (DRA) it cannot count: workload_controller.go, Reconcile."""
RETRIED = ": Internal error: "
"""Part of those after which Kueue tries again, because the cluster may have changed: hasInternalError."""
# Source: pkg/controller/jobframework/reconciler.go, "handle eviction": for all other reasons it sets Requeued to False.
_QUEUED_AGAIN = ("Preempted", "NodeFailures")
_PLACES_BY_TOPOLOGY = ("required", "preferred", "unconstrained", "podSetSliceRequiredTopology", "podSetSliceSize")


def workload_entry(obj: Object) -> Object | None:
    """Return the entry of a Workload that waits or has quota, or None if it has ended or is not active."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    pod_sets = spec.get("podSets") or []
    admission = status.get("admission") if condition(obj, "QuotaReserved") else None
    is_leaving = spec.get("active") is False or bool(metadata.get("deletionTimestamp"))
    if condition(obj, "Finished") or (is_leaving and not admission):
        return None
    found: Object = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid") or "",
        "queue": spec.get("queueName") or "",
        "priority": spec.get("priority") or 0,
        "created": queueing_time(obj),
        "podSets": [_pod_set(item, metadata["namespace"]) for item in pod_sets],
    }
    if (condition(obj, "Evicted") or {}).get("reason") == NOT_READY_IN_TIME:
        # Kueue's configuration decides which of both times counts.
        found["first"] = metadata.get("creationTimestamp") or ""
    owner = owner_of_workload(obj)
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        found["owner"] = {"group": group, "kind": owner["kind"], "name": owner["name"]}
    if admission is None:
        _add_requests(found["podSets"], pod_sets, status)
        return {**found, **_waiting_state(obj)}
    quota = _admission(admission, pod_sets, _ended(status))
    return {**found, "admission": quota, **_quota_state(obj, is_leaving)}


def _waiting_state(obj: Object) -> Object:
    """Return what keeps a waiting Workload back, and whether Kueue has tried to admit it."""
    found: Object = {}
    if is_backing_off(obj):
        found["later"] = True
    reserved = find_condition(obj, "QuotaReserved")
    if not reserved:
        found["untried"] = True
    gates = annotations_of(obj).get(ADMISSION_GATES)
    if gates:
        found["gated"] = gates
    message = reserved.get("message") or ""
    if message.startswith(_REFUSED) or (message.startswith(REFUSED_CLAIM) and RETRIED not in message):
        found["refused"] = message
    return found


def _quota_state(obj: Object, is_leaving: bool) -> Object:
    """Return since when a Workload has quota, whether its pods are ready, and whether it gives its quota back."""
    found: Object = {"since": find_condition(obj, "QuotaReserved").get("lastTransitionTime") or ""}
    if condition(obj, "PodsReady"):
        found["ready"] = True
    evicted = condition(obj, "Evicted")
    if evicted or is_leaving:
        found["evicted"] = True
    if is_leaving or (evicted and evicted.get("reason") not in _QUEUED_AGAIN):
        found["leaves"] = True
    return found


def _pod_set(item: Object, namespace: str) -> Object:
    template = item.get("template") or {}
    metadata = {"name": item.get("name", "main"), "namespace": namespace, **(template.get("metadata") or {})}
    spec = template.get("spec") or {}
    # Claims of ephemeral volumes are created with the pods.
    spec = {**spec, "volumes": [volume for volume in spec.get("volumes") or [] if not volume.get("ephemeral")]}
    pod = pod_entry({"metadata": {**metadata, "ownerReferences": []}, "spec": spec})
    found = {"name": item.get("name", "main"), "count": item.get("count", 1), "pod": pod}
    topology = item.get("topologyRequest") or {}
    if any(topology.get(key) is not None for key in _PLACES_BY_TOPOLOGY):
        found["byTopology"] = True
    return {**found, "minCount": True} if item.get("minCount") else found


def _ended(status: Object) -> dict[str, int]:
    """Return the number of ended pods by pod set: their share is no longer requested or held."""
    return {item["name"]: item.get("count", 0) for item in status.get("reclaimablePods") or []}


def _add_requests(found: Iterable[Object], pod_sets: Iterable[Object], status: Object) -> None:
    """Add what a waiting Workload requests: the sums that Kueue has recorded, or the pod resources they are computed
    from.

    Source: Kueue's ``pkg/workload``, totalRequestsFromPodSets, AdjustResources: LimitRanges and RuntimeClasses count
    although they are not in its spec.
    """
    ended = _ended(status)
    sums = {item["name"]: item.get("resources") or {} for item in status.get("resourceRequests") or []}
    for part, item in zip(found, pod_sets, strict=True):
        part["count"] = max(0, part["count"] - ended.get(part["name"], 0))
        part["spec"] = _resources_of((item.get("template") or {}).get("spec") or {})
        if part["name"] in sums:
            part["sums"] = sums[part["name"]]


def _resources_of(spec: Object) -> Object:
    """Return the parts of a pod's spec that determine its requests, and its ephemeral volumes."""
    kept: Object = {key: spec[key] for key in ("overhead", "runtimeClassName") if spec.get(key)}
    if spec.get("resources"):
        kept["resources"] = _amounts_of(spec)
    made = [_ephemeral(volume) for volume in spec.get("volumes") or [] if volume.get("ephemeral")]
    kept.update({"volumes": made} if made else {})
    for key in ("containers", "initContainers"):
        kept[key] = [
            {"name": item.get("name", "main"), "resources": _amounts_of(item)}
            | ({"restartPolicy": item["restartPolicy"]} if item.get("restartPolicy") else {})
            for item in spec.get(key) or []
        ]
    return kept


def _ephemeral(volume: Object) -> Object:
    """Return an ephemeral volume with the claim fields that decide about matching volumes."""
    spec = (volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {}
    kept = ("accessModes", "storageClassName", "volumeMode", "volumeAttributesClassName", "selector", "resources")
    own = {key: spec[key] for key in kept if spec.get(key) is not None}
    return {"name": volume["name"], "ephemeral": {"volumeClaimTemplate": {"spec": own}}}


def _amounts_of(item: Object) -> Object:
    resources = item.get("resources") or {}
    return {key: resources[key] for key in _RESOURCES if resources.get(key)}


def _admission(admission: Object, pod_sets: Iterable[Object], ended: Mapping[str, int]) -> Object:
    """Return the quota of an admitted Workload. Source: Kueue's ``pkg/workload/workload.go``,
    totalRequestsFromAdmission.

    ``ended``: pods that give their share back. A Workload admitted with fewer pods than it has gives nothing back until
    fewer than the admitted number are left.
    """
    counts = {item.get("name", "main"): item.get("count", 1) for item in pod_sets}
    sets = []
    for item in admission.get("podSetAssignments") or []:
        name = item.get("name", "main")
        found = {key: item.get(key) or {} for key in ("flavors", "resourceUsage")}
        count = item.get("count", counts.get(name)) or 0
        gone = max(0, count - (counts.get(name, count) - ended.get(name, 0)))
        sets.append({**found, "count": count, **({"ended": gone} if gone else {})})
    return {"clusterQueue": admission["clusterQueue"], "podSets": sets}


def local_queue_entry(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    found = {key: obj["metadata"][key] for key in ("namespace", "name")}
    return {**found, "clusterQueue": spec.get("clusterQueue") or "", "stopPolicy": spec.get("stopPolicy") or "None"}


def cluster_queue_entry(obj: Object) -> Object:
    """Return the entry of a ClusterQueue. ``active`` is False, with a message, if its controller reports that."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    checks = [*(spec.get("admissionChecks") or []), *(item["name"] for item in strategy)]
    kept = ("cohort", "cohortName", "queueingStrategy", "namespaceSelector", "flavorFungibility", "stopPolicy")
    preemption = {key: value for key, value in (spec.get("preemption") or {}).items() if value is not None}
    found: Object = {
        "name": obj["metadata"]["name"],
        "spec": {
            **{key: spec[key] for key in kept if spec.get(key) is not None},
            "resourceGroups": _groups(spec),
            **({"preemption": preemption} if preemption else {}),
            **({"checks": checks} if checks else {}),
        },
    }
    active = find_condition(obj, "Active")
    if active.get("status") == "False":
        found.update(active=False, message=active.get("message") or "")
    if status.get("fairSharing") is not None:
        found["fairSharing"] = True
    if spec.get("admissionScope"):
        found["admissionScope"] = True
    return found


def _groups(spec: Object) -> list[Object]:
    return [
        {
            "coveredResources": group.get("coveredResources") or [],
            "flavors": [
                {
                    "name": flavor["name"],
                    "resources": [
                        {key: value for key, value in item.items() if value is not None}
                        for item in flavor.get("resources") or []
                    ],
                }
                for flavor in group.get("flavors") or []
            ],
        }
        for group in spec.get("resourceGroups") or []
    ]


def cohort_entry(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    above = {key: spec[key] for key in ("parent", "parentName") if spec.get(key)}
    return {"name": obj["metadata"]["name"], "spec": {**above, "resourceGroups": _groups(spec)}}


def flavor_entry(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    found: Object = {"name": obj["metadata"]["name"], "labels": spec.get("nodeLabels") or {}}
    for key, field in (("taints", "nodeTaints"), ("tolerations", "tolerations"), ("topology", "topologyName")):
        if spec.get(field):
            found[key] = spec[field]
    return found


def queue_priority_entry(obj: Object) -> Object:
    """Return the entry of a WorkloadPriorityClass."""
    return {"name": obj["metadata"]["name"], "value": obj.get("value") or 0}


def asks_for_topology(template: Object) -> bool:
    """Return True if pods request a topology from Kueue."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return any(name in annotations for name in _TOPOLOGY)
