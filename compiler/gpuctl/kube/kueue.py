"""Kueue's objects: where its API is, and which Workload is a job's."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.backend.api_resources import QUEUE_LABEL, Object, Resource, labels_of
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session

_GROUP = "kueue.x-k8s.io"
_KINDS = (
    ("workloads", "Workload", True),
    ("localqueues", "LocalQueue", True),
    ("clusterqueues", "ClusterQueue", False),
    ("cohorts", "Cohort", False),
)


def kueue_resources(session: Session) -> dict[str, Resource] | None:
    """Kueue's kinds in the version that the server prefers; None where Kueue is not installed."""
    try:
        group = session.request("GET", f"/apis/{_GROUP}")
    except ApiError as error:
        if error.is_missing:
            return None
        raise
    version = str((group.get("preferredVersion") or {}).get("version") or "v1beta1")
    return {kind: Resource(_GROUP, version, plural, kind, namespaced) for plural, kind, namespaced in _KINDS}


def workload_of(workloads: Iterable[Object], job: Object) -> Object | None:
    """The Workload that Kueue made for a Job or JobSet, among those of its namespace."""
    uid = job["metadata"]["uid"]
    for item in workloads:
        if any(owner.get("uid") == uid for owner in item["metadata"].get("ownerReferences") or []):
            return item
    return None


def find_workload(session: Session, job: Object) -> Object | None:
    """Kueue's Workload of a job; None where it has none, or none that may be read."""
    if QUEUE_LABEL not in labels_of(job):
        return None
    try:
        kinds = kueue_resources(session)
        if kinds is None:
            return None
        return workload_of(session.list_objects(kinds["Workload"], job["metadata"]["namespace"])[0], job)
    except ApiError as error:
        if error.is_missing or error.lacks_permission:
            return None
        raise
