"""The queue, the priority and the Workload of a job, by its labels and its pods."""

from __future__ import annotations

from gpuctl.capacity.demand import Demand, owns
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import DEFAULT_QUEUE, QUEUE_LABEL, TRAININGS, Object, labels_of
from gpuctl.objects.pod_templates import pod_templates

PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""The label with which a job names a WorkloadPriorityClass."""
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""The annotation with which a job lets Kueue start it with fewer pods."""
KUEUE_COUNTS = "kueueCounts"
"""Key of an object with the total requests of its pods as Kueue counts them, by pod set, if known from another source.
"""


def queue_name(obj: Object, snapshot: Snapshot) -> str:
    """Return the LocalQueue of an object, "" for none.

    Source: Kueue's ``pkg/controller/jobframework/defaults.go``, ApplyDefaultLocalQueue.
    """
    if obj["kind"] not in TRAININGS or snapshot.kueue is None:
        return ""
    named = labels_of(obj).get(QUEUE_LABEL, "")
    if named:
        return named
    space = obj["metadata"]["namespace"], DEFAULT_QUEUE
    has_default = any((item["namespace"], item["name"]) == space for item in snapshot.kueue.get("localqueues") or ())
    return DEFAULT_QUEUE if has_default else ""


def is_workload_of(obj: Object, workload: Object) -> bool:
    """Return True if a Workload of a snapshot belongs to an object."""
    owner = workload.get("owner") or {}
    if workload["namespace"] != obj["metadata"]["namespace"] or owner.get("kind") != obj["kind"]:
        return False
    if obj["kind"] == "JobSet":
        return bool(owner["name"] == obj["metadata"]["name"])
    labels = next((item["pod"].get("labels") or {} for item in workload["podSets"]), {})
    return owns(obj, {"namespace": workload["namespace"], "owner": owner, "labels": labels})


def first_priority(demand: Demand, obj: Object) -> int:
    """Return the priority of the first named class. Source: ``jobframework/reconciler.go``."""
    pairs = zip(demand.groups, pod_templates(obj), strict=True)
    named = [group for (group, _), (template, _) in pairs if template["spec"].get("priorityClassName")]
    first = named or [group for group, _ in demand.groups]
    return first[0].incoming.pod.priority if first else 0
