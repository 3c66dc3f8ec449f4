"""The jobs that wait in Kueue's queues, as objects to be judged like new jobs."""

from __future__ import annotations

from gpuctl.capacity.kueue.job_queues import KUEUE_COUNTS
from gpuctl.capacity.kueue.kueue_configuration import kueue_configuration
from gpuctl.capacity.kueue.kueue_requests import NamespaceDefaults, waiting_requests
from gpuctl.capacity.pods.incoming_pods import waiting_spec
from gpuctl.capacity.snapshot.kueue_entries import TOPOLOGY
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.objects.api_resources import QUEUE_LABEL, QUEUE_PRIORITY_LABEL, Object
from gpuctl.objects.elastic_jobs import MIN_PARALLELISM
from gpuctl.objects.prerequisites import ADMISSION_GATES
from gpuctl.objects.quantities import format_amount

_GROUP = "waiting.gpuctl/v1"


def queued_objects(lists: Object, defaults: NamespaceDefaults) -> tuple[list[Object], Object]:
    """Return the waiting jobs in queue order, and Kueue's lists without them.

    The requests already include what ``defaults`` adds: it must not be added again.
    """
    waiting = [item for item in lists.get("workloads") or () if "admission" not in item and _is_known(item)]
    taken = {id(item) for item in waiting}
    left = {**lists}
    if waiting:
        ranks = {_rank(item): item["priority"] for item in waiting}
        left["workloads"] = [item for item in lists["workloads"] if id(item) not in taken]
        known = lists.get("workloadpriorityclasses") or []
        left["workloadpriorityclasses"] = [*known, *({"name": name, "value": value} for name, value in ranks.items())]
    configuration = kueue_configuration(lists)
    found = []
    for item in sorted(waiting, key=configuration.created):
        # Devices that Kueue has not counted yet are counted from the claims.
        counts = [
            None
            if "sums" not in part and (part["pod"].get("deviceClaims") or configuration.device_classes)
            else waiting_requests(part, item["namespace"], defaults, configuration)
            for part in item["podSets"]
        ]
        found.append({**_object(item, configuration.created(item), defaults), KUEUE_COUNTS: counts})
    return found, left


def _is_known(item: Object) -> bool:
    owner = item.get("owner") or {}
    return owner.get("kind") in ("Job", "JobSet") and bool(item["podSets"])


def _rank(item: Object) -> str:
    """Return the name of an invented WorkloadPriorityClass with the Workload's own priority."""
    return f"={item['priority']}"


def _object(item: Object, created: str, defaults: NamespaceDefaults) -> Object:
    labels = {QUEUE_LABEL: item["queue"], QUEUE_PRIORITY_LABEL: _rank(item)}
    metadata = {"namespace": item["namespace"], "name": item["owner"]["name"], "labels": labels}
    metadata["creationTimestamp"] = created
    if any("minCount" in part for part in item["podSets"]):
        metadata["annotations"] = {MIN_PARALLELISM: ""}
    if "gated" in item:
        metadata["annotations"] = {ADMISSION_GATES: item["gated"]}
    specs = [_job(part, item["namespace"], defaults) for part in item["podSets"]]
    jobs = [
        {"name": part["name"], "replicas": 1, "template": {"spec": spec}}
        for part, spec in zip(item["podSets"], specs, strict=True)
    ]
    spec = {"replicatedJobs": jobs} if item["owner"]["kind"] == "JobSet" else jobs[0]["template"]["spec"]
    found = {"apiVersion": _GROUP, "kind": item["owner"]["kind"], "metadata": metadata, "spec": spec}
    return {**found, "refused": item["refused"]} if "refused" in item else found


def _job(part: Object, namespace: str, defaults: NamespaceDefaults) -> Object:
    pod, own = part["pod"], part.get("spec") or {}
    if own:
        # The overhead of a RuntimeClass is added when the pods are created.
        each = pod_requests({**defaults.added(own, namespace), "overhead": own.get("overhead")})
        pod = {**pod, "requests": {name: format_amount(name, amount) for name, amount in each.items()}}
    spec = {**waiting_spec(pod), **({"priorityClassName": pod["priorityClass"]} if "priorityClass" in pod else {})}
    spec.update({"runtimeClassName": own["runtimeClassName"]} if "runtimeClassName" in own else {})
    spec["volumes"] = [*spec["volumes"], *own.get("volumes", ())]
    metadata: Object = {"labels": pod.get("labels") or {}}
    if "byTopology" in part:
        metadata["annotations"] = {TOPOLOGY: ""}
    template = {"metadata": metadata, "spec": spec}
    return {"parallelism": part["count"], "template": template}
