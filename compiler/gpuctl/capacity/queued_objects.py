"""The jobs that wait in Kueue's queues, as objects that come now."""

from __future__ import annotations

from gpuctl.backend.api_resources import QUEUE_LABEL, Object
from gpuctl.capacity.incoming_pods import waiting_spec
from gpuctl.capacity.queue_stage import PRIORITY_LABEL

_GROUP = "waiting.gpuctl/v1"


def queued_objects(lists: Object) -> tuple[list[Object], Object]:
    """The jobs that wait in their queues, in the order in which they came, and Kueue's lists without them."""
    waiting = [item for item in lists.get("workloads") or () if "admission" not in item and _is_known(item)]
    taken = {id(item) for item in waiting}
    left = {**lists}
    if waiting:
        ranks = {_rank(item): item["priority"] for item in waiting}
        left["workloads"] = [item for item in lists["workloads"] if id(item) not in taken]
        known = lists.get("workloadpriorityclasses") or []
        left["workloadpriorityclasses"] = [*known, *({"name": name, "value": value} for name, value in ranks.items())]
    return [_object(item) for item in sorted(waiting, key=lambda item: str(item["created"]))], left


def _is_known(item: Object) -> bool:
    owner = item.get("owner") or {}
    return owner.get("kind") in ("Job", "JobSet") and bool(item["podSets"])


def _rank(item: Object) -> str:
    """A WorkloadPriorityClass of the Workload's own priority."""
    return f"={item['priority']}"


def _object(item: Object) -> Object:
    labels = {QUEUE_LABEL: item["queue"], PRIORITY_LABEL: _rank(item)}
    metadata = {"namespace": item["namespace"], "name": item["owner"]["name"], "labels": labels}
    metadata["creationTimestamp"] = item["created"]
    jobs = [{"name": part["name"], "replicas": 1, "template": {"spec": _job(part)}} for part in item["podSets"]]
    spec = {"replicatedJobs": jobs} if item["owner"]["kind"] == "JobSet" else jobs[0]["template"]["spec"]
    found = {"apiVersion": _GROUP, "kind": item["owner"]["kind"], "metadata": metadata, "spec": spec}
    return {**found, "refused": item["refused"]} if "refused" in item else found


def _job(part: Object) -> Object:
    pod = part["pod"]
    spec = {**waiting_spec(pod), **({"priorityClassName": pod["priorityClass"]} if "priorityClass" in pod else {})}
    template = {"metadata": {"labels": pod.get("labels") or {}}, "spec": spec}
    return {"parallelism": part["count"], "template": template}
