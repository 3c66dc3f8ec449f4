"""The start of workloads: all pods ready, and nothing left to wait for; what they start with."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import pods_to_start
from gpuctl.objects.prerequisites import is_waiting
from gpuctl.objects.quantities import whole_number
from gpuctl.objects.queueing import is_queued
from gpuctl.objects.scheduled_jobs import is_scheduled, run_of
from gpuctl.objects.workload_state import end_state


def has_started(obj: Object, keys: Records) -> bool:
    """Return True if a workload is up, and waits neither in a queue nor for other jobs."""
    return is_up(obj) and not is_queued(obj, keys) and not is_waiting(obj, keys)


def is_up(obj: Object) -> bool:
    """Return True if the pods that a workload needs are ready, or it needs none: finished, suspended, scaled to 0, or
    scheduled.
    """
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if end_state(obj) or spec.get("suspend") or is_scheduled(obj):
        return True
    if obj["kind"] == "Job":
        return pods_up(obj) >= pods_to_start(obj)
    if obj["kind"] == "JobSet":
        replicated = status.get("replicatedJobsStatus") or []
        return bool(replicated) and all(item.get("ready") or item.get("succeeded") for item in replicated)
    wanted = int(spec.get("replicas", 1))
    current = int(status.get("observedGeneration") or 0) >= int(obj["metadata"].get("generation") or 0)
    updated = int(status.get("updatedReplicas") or 0)
    # Ready pods may be of the former revision; `kubectl rollout status` waits for them to go, too.
    is_rolled = updated >= max(wanted, int(status.get("replicas") or 0))
    return current and is_rolled and int(status.get("readyReplicas") or 0) >= wanted


def pods_up(job: Object) -> int:
    """Return the number of pods of a Job that are ready or have succeeded, by its status."""
    status = job.get("status") or {}
    return int(status.get("ready") or 0) + int(status.get("succeeded") or 0)


def not_started(workload: Object) -> Object:
    """Return the workload as before its start: not suspended, and with an empty status. Of a CronJob, return a run."""
    if is_scheduled(workload):
        return run_of(workload)
    return {**workload, "spec": {**(workload.get("spec") or {}), "suspend": False}, "status": {}}


def replicas_before_pause(service: Object, keys: Records) -> int:
    """Return the number of replicas that a paused service had."""
    return whole_number(annotations_of(service).get(keys.paused, "")) or 1
