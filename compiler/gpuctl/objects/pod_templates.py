"""The pods that a workload runs: their templates, and how many of each run at once."""

from __future__ import annotations

from typing import Any

from gpuctl.objects.api_resources import Object
from gpuctl.objects.array_jobs import count_indexes, is_array
from gpuctl.objects.elastic_jobs import node_bounds

TEMPLATE_PATHS = (
    "spec.template.",
    "spec.leaderWorkerTemplate.leaderTemplate.",
    "spec.leaderWorkerTemplate.workerTemplate.",
)
"""Beginnings of the paths of fields in the pod templates of a service."""


def short_path(path: str) -> str:
    """Return the path of a field as messages show it: ``containers[main].image``, ``replicas``."""
    for template in TEMPLATE_PATHS:
        path = path.removeprefix(f"{template}spec.")
    return path.removeprefix("spec.")


def pod_templates(workload: Object) -> list[tuple[Object, int]]:
    """Return the pod templates of an object and how many pods of each run at once. A Pod is its own template; other
    kinds have none.

    Templates are parts of the object, not copies. A suspended workload has its templates with 0 pods. Pods that have
    succeeded, by the object's status, and indexes that have failed for good are not counted. For a JobSet only whole
    Jobs are known, which Kueue counts likewise (``jobset_controller.go``, ReclaimablePods). A CronJob has its template
    with 0 pods: its runs are objects of their own.
    """
    kind, spec, status = workload["kind"], workload.get("spec") or {}, workload.get("status") or {}
    if kind == "Pod":
        return [(workload, 1)]
    if kind in ("Deployment", "StatefulSet"):
        return [(spec["template"], _number(spec, "replicas", 1))]
    if kind == "CronJob":
        return [(spec["jobTemplate"]["spec"]["template"], 0)]
    if kind == "LeaderWorkerSet":
        return [(template, number * _number(spec, "replicas", 1)) for template, number in group_templates(workload)]
    suspended = bool(spec.get("suspend"))
    if kind == "Job":
        return [(spec["template"], 0 if suspended else _job_pods(spec, status))]
    if kind == "JobSet":
        done = {item.get("name"): _number(item, "succeeded", 0) for item in _list(status, "replicatedJobsStatus")}
        names = [item.get("name") for item in _list(spec, "replicatedJobs")]
        # The JobSet overwrites `suspend` of the inner job (jobset_controller.go, constructJob).
        return [
            (job["spec"]["template"], 0 if suspended else max(0, number - done.get(name, 0)) * _job_pods(job["spec"]))
            for name, (job, number) in zip(names, job_templates(workload), strict=True)
        ]
    return []


def needed_pods(workload: Object) -> list[tuple[Object, int]]:
    """Return the pod templates of an object and how many pods of each must run at once for it to make progress."""
    least = least_pods(workload)
    return [(template, number if least is None else min(number, least)) for template, number in pod_templates(workload)]


def least_pods(workload: Object) -> int | None:
    """Return how many pods must run for a workload to make progress: one of an array, the least number of nodes of an
    elastic training; None if it needs all.
    """
    if is_array(workload):
        return 1
    bounds = node_bounds(workload)
    return None if bounds is None else bounds.least


def job_templates(jobset: Object) -> list[tuple[Object, int]]:
    """Return the Job templates of a JobSet and how many Jobs it creates from each."""
    replicated = _list(jobset["spec"], "replicatedJobs")
    return [(item["template"], _number(item, "replicas", 1)) for item in replicated]


def group_templates(leader_worker_set: Object) -> list[tuple[Object, int]]:
    """Return the pod templates of a LeaderWorkerSet, and how many pods of each a replica has: the leader, the workers.

    Source: LeaderWorkerSet's ``leaderworkerset_types.go``: without a template of its own, the leader has the workers'.
    """
    group = leader_worker_set["spec"]["leaderWorkerTemplate"]
    workers = _number(group, "size", 1) - 1
    found = [(group.get("leaderTemplate") or group["workerTemplate"], 1)]
    return [*found, (group["workerTemplate"], workers)] if workers else found


def pods_left(workload: Object) -> int:
    """Return how many pods an object still runs at once, without those that have succeeded."""
    return sum(pods for _, pods in pod_templates(workload))


def replicas(workload: Object) -> int:
    """Return how many pods an object runs at once in full, including those that have succeeded."""
    return pods_left({**workload, "status": {}})


def with_replicas(service: Object, number: int) -> Object:
    """Return a service with this number of replicas."""
    return {**service, "spec": {**service["spec"], "replicas": number}}


def pods_to_start(workload: Object) -> int:
    """Return how many pods must run before a workload counts as running; those that have succeeded count, too."""
    least, every = least_pods(workload), replicas(workload)
    return every if least is None else min(every, least)


def _job_pods(spec: Object, status: Object | None = None) -> int:
    """Return the number of pods of a Job that run at once.

    Source: ``pkg/apis/batch/v1/defaults.go`` (SetDefaults_Job), ``job_controller.go`` (manageJob): without completions,
    no further pod is created after one has succeeded.
    """
    status = status or {}
    parallelism, done = _number(spec, "parallelism", 1), _number(status, "succeeded", 0)
    if spec.get("completions") is None:
        return _number(status, "active", 0) if done else parallelism
    done += count_indexes(status.get("failedIndexes") or "")
    return max(0, min(parallelism, int(spec["completions"]) - done))


def _number(spec: Object, field: str, default: int) -> int:
    value = spec.get(field)
    return default if value is None else int(value)


def _list(spec: Object, field: str) -> list[Any]:
    return spec.get(field) or []
