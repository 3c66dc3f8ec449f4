"""When pods that run end at the latest: at their own deadlines, or with the Jobs that would make them again."""

from __future__ import annotations

from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object

JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_JOBS = ("Job", "batch")


def latest_end(pod: Object, snapshot: Snapshot) -> str:
    """When a pod has left its node for good at the latest (RFC 3339); "" where nobody can tell.

    A deadline that is over and has ended nothing, as on a node that is lost, tells nothing.
    """
    ends = [pod.get("endsBy")] if pod.get("owner") is None else _ends_in_job(pod, snapshot)
    end: str = min(filter(None, ends), default="")
    return end if end > snapshot.taken_at else ""


def job_of(pod: Object) -> tuple[str, str] | None:
    """The namespace and name of the Job that a pod of a snapshot is of. In older ones owners have no API group."""
    owner = pod.get("owner")
    if owner is None or (owner["kind"], owner.get("group", "batch")) != _JOBS:
        return None
    return pod["namespace"], owner["name"]


def job_set_of(pod: Object) -> tuple[str, str] | None:
    """The namespace and name of the JobSet that the Job of a pod is of."""
    name = (pod.get("labels") or {}).get(JOBSET_LABEL)
    return None if name is None else (pod["namespace"], name)


def _ends_in_job(pod: Object, snapshot: Snapshot) -> list[str | None]:
    name, whole = job_of(pod), job_set_of(pod)
    job = None if name is None else snapshot.jobs_by_name.get(name)
    if job is None or (whole is not None and whole not in snapshot.final_sets):
        return []
    return [job.get("endsBy"), pod.get("endsBy") if job.get("final") else None]
