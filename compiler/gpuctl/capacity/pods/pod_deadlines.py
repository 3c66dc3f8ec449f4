"""The latest end of running pods, from their own deadlines or those of their Jobs."""

from __future__ import annotations

from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object
from gpuctl.objects.label_names import GROUP_INDEX, LEADER_WORKER_SET_NAME
from gpuctl.objects.role_jobs import JOBSET_LABEL

_JOBS = ("Job", "batch")


def latest_end(pod: Object, snapshot: Snapshot) -> str:
    """Return the latest time at which a pod has left its node for good (RFC 3339), "" if unknown.

    A deadline in the past that has not ended the pod, as on an unreachable node, is ignored.
    """
    ends = [pod.get("endsBy")] if pod.get("owner") is None else _ends_in_job(pod, snapshot)
    end: str = min(filter(None, ends), default="")
    return end if end > snapshot.taken_at else ""


def job_of(pod: Object) -> tuple[str, str] | None:
    """Return the namespace and name of the Job of a snapshot's pod. In older snapshots owners have no API group."""
    owner = pod.get("owner")
    if owner is None or (owner["kind"], owner.get("group", "batch")) != _JOBS:
        return None
    return pod["namespace"], owner["name"]


def job_set_of(pod: Object) -> tuple[str, str] | None:
    """Return the namespace and name of the JobSet of a pod."""
    name = (pod.get("labels") or {}).get(JOBSET_LABEL)
    return None if name is None else (pod["namespace"], name)


def group_of(pod: Object) -> tuple[str, str, str] | None:
    """Return the namespace, the LeaderWorkerSet and the replica of a pod."""
    labels = pod.get("labels") or {}
    if (pod.get("owner") or {}).get("kind") != "StatefulSet" or not {
        LEADER_WORKER_SET_NAME,
        GROUP_INDEX,
    } <= labels.keys():
        return None
    return pod["namespace"], labels[LEADER_WORKER_SET_NAME], labels[GROUP_INDEX]


def _ends_in_job(pod: Object, snapshot: Snapshot) -> list[str | None]:
    name, whole = job_of(pod), job_set_of(pod)
    job = None if name is None else snapshot.jobs_by_name.get(name)
    if job is None or (whole is not None and whole not in snapshot.final_sets):
        return []
    return [job.get("endsBy"), pod.get("endsBy") if job.get("final") else None]
