"""Elastic trainings: Indexed Jobs whose number of pods may change while they run.

Kubernetes lets ``parallelism`` and ``completions`` of an Indexed Job change together as long as they are equal
(``pkg/apis/batch/validation``, validateCompletions). In a queue only Kueue may change them once the Job runs: its
webhook refuses other changes (``pkg/controller/jobs/job/job_webhook.go``, validatePartialAdmissionUpdate).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import whole_number

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""The annotation with which a job lets Kueue start it with fewer pods."""
COMPLETIONS_FOLLOW = "kueue.x-k8s.io/job-completions-equal-parallelism"
"""The annotation with which Kueue changes ``completions`` together with ``parallelism``."""
SIZE_FIELDS = ("parallelism", "completions")
"""The fields of a Job's spec with the number of nodes."""
SIZE_PATHS = tuple(f"spec.{name}" for name in SIZE_FIELDS)
_NODES = "PET_NNODES"
"""The variable in which torchrun reads the range of nodes."""
_RESTARTS = "PET_MAX_RESTARTS"


class NodeBounds(NamedTuple):
    """The least and the greatest number of nodes of an elastic training."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}-{self.most}"


def format_range(least: int, most: int) -> str:
    """Return a range of nodes as torchrun's ``--nnodes`` takes it."""
    return f"{least}:{most}"


def node_bounds(workload: Object) -> NodeBounds | None:
    """Return the range of nodes of an elastic training, as torchrun reads it in the pods; None for other workloads."""
    found = re.fullmatch(r"(\d{1,5}):(\d{1,5})", _variable(workload, _NODES))
    return NodeBounds(int(found[1]), int(found[2])) if found else None


def max_restarts(workload: Object) -> int:
    """Return how often torchrun restarts the processes of an elastic training after a failure."""
    return whole_number(_variable(workload, _RESTARTS)) or 0


def _variable(workload: Object, name: str) -> str:
    """Return a variable of the pods of a Job, or of a CronJob's runs; "" if they do not have it."""
    if workload["kind"] not in ("Job", "CronJob"):
        return ""
    spec = workload["spec"] if workload["kind"] == "Job" else workload["spec"]["jobTemplate"]["spec"]
    containers = spec["template"]["spec"].get("containers") or []
    variables = (item for container in containers for item in container.get("env") or [])
    return next((item.get("value") or "" for item in variables if item.get("name") == name), "")


def node_count(workload: Object) -> int:
    """Return the current number of nodes of an elastic training."""
    return int(workload["spec"].get("parallelism", 1))


def is_within_bounds(wanted: Object, live: Object) -> bool:
    """Return True if a live elastic training has a number of nodes that its document allows.

    `gpuctl scale` or Kueue has then set it, and it is not a difference.
    """
    bounds = node_bounds(wanted)
    if bounds is None or live["kind"] != "Job":
        return False
    sizes = set(map(live["spec"].get, SIZE_FIELDS))
    return len(sizes) == 1 and bounds.least <= node_count(live) <= bounds.most


def starts_with_other_size(live: Object, desired: Object) -> bool:
    """Return True if a new elastic training starts with another number of nodes than the live one has."""
    is_elastic = all(obj["kind"] == "Job" and node_bounds(obj) is not None for obj in (live, desired))
    return is_elastic and node_count(live) != node_count(desired)


def with_nodes(workload: Object, nodes: int) -> Object:
    """Return an elastic training with another number of nodes."""
    return {**workload, "spec": {**workload["spec"], **dict.fromkeys(SIZE_FIELDS, nodes)}}
