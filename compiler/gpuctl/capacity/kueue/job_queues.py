"""The queue, the priority and the Workload of a job, by its labels and its pods."""

from __future__ import annotations

import re

from gpuctl.capacity.kueue.kueue_configuration import FRAMEWORKS, kueue_configuration
from gpuctl.capacity.pods.demand import Demand, owns
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import DEFAULT_QUEUE, QUEUE_LABEL, TRAININGS, WORKLOADS, Object, labels_of
from gpuctl.objects.pod_templates import pod_templates

KUEUE_COUNTS = "kueueCounts"
"""Key of an object with the total requests of its pods as Kueue counts them, by pod set, if known from another source.
"""

_POD_SUFFIX = r"-[0-9a-z]{1,10}-[0-9a-z]{5}"
"""Matches the end of a pod's name after that of its Deployment."""


def queue_name(obj: Object, snapshot: Snapshot) -> str:
    """Return the LocalQueue of an object, "" for none.

    Source: Kueue's ``pkg/controller/jobframework/defaults.go``, ApplyDefaultLocalQueue.
    """
    if obj["kind"] not in WORKLOADS or snapshot.kueue is None:
        return ""
    named = labels_of(obj).get(QUEUE_LABEL, "")
    if named:
        return named
    frameworks = kueue_configuration(snapshot.kueue).frameworks
    if obj["kind"] not in TRAININGS and (frameworks is None or FRAMEWORKS[obj["kind"]] not in frameworks):
        return ""
    space = obj["metadata"]["namespace"], DEFAULT_QUEUE
    has_default = any((item["namespace"], item["name"]) == space for item in snapshot.kueue.get("localqueues") or ())
    return DEFAULT_QUEUE if has_default else ""


def is_workload_of(obj: Object, workload: Object) -> bool:
    """Return True if a Workload of a snapshot belongs to an object."""
    owner = workload.get("owner") or {}
    if workload["namespace"] != obj["metadata"]["namespace"]:
        return False
    if obj["kind"] == "Deployment":
        # Each of its pods has a Workload.
        made = re.escape(obj["metadata"]["name"]) + _POD_SUFFIX
        return owner.get("kind") == "Pod" and re.fullmatch(made, owner["name"]) is not None
    if owner.get("kind") != obj["kind"]:
        return False
    if obj["kind"] in ("JobSet", "StatefulSet"):
        return bool(owner["name"] == obj["metadata"]["name"])
    labels = next((item["pod"].get("labels") or {} for item in workload["podSets"]), {})
    return owns(obj, {"namespace": workload["namespace"], "owner": owner, "labels": labels})


def first_priority(demand: Demand, obj: Object) -> int:
    """Return the priority of the first named class. Source: ``jobframework/reconciler.go``."""
    pairs = zip(demand.groups, pod_templates(obj), strict=True)
    named = [group for (group, _), (template, _) in pairs if template["spec"].get("priorityClassName")]
    first = named or [group for group, _ in demand.groups]
    return first[0].incoming.pod.priority if first else 0
