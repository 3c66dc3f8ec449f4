"""When pods that run end: at their own deadlines, with the Jobs that would make them again, or with an evicted pod."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.snapshot import Snapshot

JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_JOBS = ("Job", "batch")


def known_end(pod: Object, snapshot: Snapshot) -> str:
    """When a pod has left its node for good at the latest (RFC 3339); "" where nobody can tell.

    A deadline that is over and has ended nothing, as on a node that is lost, tells nothing.
    """
    owner = pod.get("owner")
    ends = [pod.get("endsBy")] if owner is None else list(_ends_in_job(pod, owner, snapshot))
    end: str = min(filter(None, ends), default="")
    return end if end > snapshot.taken_at else ""


class Whole(NamedTuple):
    """A Job or JobSet all of whose pods end when one is evicted; ``restarts``: all of them are made again then."""

    kind: str
    namespace: str
    name: str
    restarts: bool


def whole_of(pod: Object, snapshot: Snapshot) -> Whole | None:
    """What ends with a pod that is evicted, besides that pod.

    Source: JobSet 0.12, ``pkg/controllers/failure_policy.go``: it starts all of its Jobs again when one has failed.
    """
    owner = pod.get("owner")
    if owner is None or (owner["kind"], owner.get("group", "batch")) != _JOBS:
        return None
    space = pod["namespace"]
    if not snapshot.jobs_by_name.get((space, owner["name"]), {}).get("frail"):
        return None
    jobset = (pod.get("labels") or {}).get(JOBSET_LABEL)
    if jobset is None:
        return Whole("Job", space, owner["name"], restarts=False)
    return Whole("JobSet", space, jobset, restarts=(space, jobset) not in snapshot.final_sets)


def _ends_in_job(pod: Object, owner: Object, snapshot: Snapshot) -> list[str | None]:
    if (owner["kind"], owner.get("group", "batch")) != _JOBS:
        return []
    job = snapshot.jobs_by_name.get((pod["namespace"], owner["name"]))
    jobset = (pod.get("labels") or {}).get(JOBSET_LABEL)
    if job is None or (jobset is not None and (pod["namespace"], jobset) not in snapshot.final_sets):
        return []
    return [job.get("endsBy"), pod.get("endsBy") if job.get("final") else None]
