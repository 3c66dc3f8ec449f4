"""What a snapshot keeps of Kueue's objects: what decides who is admitted, and no secrets."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.projections import counted_pod

_TOPOLOGY = ("podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology")
# Source: Kueue's pkg/scheduler/scheduler.go, errInvalidWLResources and errLimitRangeConstraintsUnsatisfiedResources.
_REFUSED = ("resources validation failed", "resources didn't satisfy LimitRange constraints")
_REQUEUED_AT_THE_END = ("PodsReadyTimeout", "AdmissionCheck")


def counted_workload(obj: Object) -> Object | None:
    """A Workload that waits, or has quota; None for one that takes no part: it has ended, or is not active."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    states = {item["type"]: item for item in status.get("conditions") or []}
    admission = status.get("admission") if _is_true(states, "QuotaReserved") else None
    if _is_true(states, "Finished") or (spec.get("active") is False and not admission):
        return None
    owner = next((item for item in metadata.get("ownerReferences") or [] if item.get("controller")), None)
    evicted = states.get("Evicted") or {}
    at_the_end = _is_true(states, "Evicted") and evicted.get("reason") in _REQUEUED_AT_THE_END
    later = (states.get("Requeued") or {}).get("status") == "False" or (status.get("requeueState") or {}).get(
        "requeueAt"
    )
    found: Object = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid") or "",
        "queue": spec.get("queueName") or "",
        "priority": spec.get("priority") or 0,
        "created": (evicted if at_the_end else {}).get("lastTransitionTime") or metadata.get("creationTimestamp") or "",
        "podSets": [_pod_set(item, metadata["namespace"]) for item in spec.get("podSets") or []],
    }
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        found["owner"] = {"group": group, "kind": owner["kind"], "name": owner["name"]}
    if admission is not None:
        found["admission"] = _admission(admission, status.get("reclaimablePods") or [])
        found["since"] = states["QuotaReserved"].get("lastTransitionTime") or ""
        for kind, key in (("Evicted", "evicted"), ("PodsReady", "ready")):
            if _is_true(states, kind):
                found[key] = True
    elif later:
        found["later"] = True
    said = (states.get("QuotaReserved") or {}).get("message") or ""
    if admission is None and said.startswith(_REFUSED):
        found["refused"] = said
    return found


def _is_true(states: Object, kind: str) -> bool:
    return (states.get(kind) or {}).get("status") == "True"


def _pod_set(item: Object, namespace: str) -> Object:
    template = item.get("template") or {}
    metadata = {"name": item.get("name", "main"), "namespace": namespace, **(template.get("metadata") or {})}
    pod = counted_pod({"metadata": {**metadata, "ownerReferences": []}, "spec": template.get("spec") or {}})
    found = {"name": item.get("name", "main"), "count": item.get("count", 1), "pod": pod}
    return {**found, **{key: True for key in ("minCount", "topologyRequest") if item.get(key)}}


def _admission(admission: Object, reclaimable: Iterable[Object]) -> Object:
    """The quota that it has. Source: Kueue's ``pkg/workload/workload.go``, totalRequestsFromAdmission."""
    ended = {item["name"]: item.get("count", 0) for item in reclaimable}
    sets = []
    for item in admission.get("podSetAssignments") or []:
        found = {key: item.get(key) or {} for key in ("flavors", "resourceUsage")}
        count, gone = item.get("count") or 0, ended.get(item.get("name", "main"), 0)
        sets.append({**found, "count": count, **({"ended": gone} if gone else {})})
    return {"clusterQueue": admission["clusterQueue"], "podSets": sets}


def counted_local_queue(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    found = {key: obj["metadata"][key] for key in ("namespace", "name")}
    return {**found, "clusterQueue": spec.get("clusterQueue") or "", "stopPolicy": spec.get("stopPolicy") or "None"}


def counted_cluster_queue(obj: Object) -> Object:
    """``active`` is false, with the message, where its controller says so."""
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
    active: Object = next((item for item in status.get("conditions") or [] if item.get("type") == "Active"), {})
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


def counted_cohort(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    above = {key: spec[key] for key in ("parent", "parentName") if spec.get(key)}
    return {"name": obj["metadata"]["name"], "spec": {**above, "resourceGroups": _groups(spec)}}


def counted_flavor(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    found: Object = {"name": obj["metadata"]["name"], "labels": spec.get("nodeLabels") or {}}
    for key, field in (("taints", "nodeTaints"), ("tolerations", "tolerations"), ("topology", "topologyName")):
        if spec.get(field):
            found[key] = spec[field]
    return found


def counted_queue_priority(obj: Object) -> Object:
    """A WorkloadPriorityClass."""
    return {"name": obj["metadata"]["name"], "value": obj.get("value") or 0}


def asks_for_topology(template: Object) -> bool:
    """Whether pods ask Kueue for a topology."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return any(f"kueue.x-k8s.io/{name}" in annotations for name in _TOPOLOGY)
