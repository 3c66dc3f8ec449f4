"""Kueue's objects: where its API is, and which Workload is a job's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.kubeconfig import parsed_or_none
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import QUEUE_LABEL, Key, Object, Resource, controller_of, labels_of

_GROUP = "kueue.x-k8s.io"
_CONFIGURATION = Key("ConfigMap", "kueue-system", "kueue-manager-config")
_KINDS = (
    ("workloads", "Workload", True),
    ("localqueues", "LocalQueue", True),
    ("clusterqueues", "ClusterQueue", False),
    ("cohorts", "Cohort", False),
)
_SCHEDULING = (
    ("resourceflavors", "ResourceFlavor", False),
    ("workloadpriorityclasses", "WorkloadPriorityClass", False),
)


def kueue_resources(session: Session, *, scheduling: bool = False) -> dict[str, Resource] | None:
    """Kueue's kinds in the version that the server prefers; None where Kueue is not installed.

    :param scheduling: also those that only its decisions take.
    """
    try:
        group = session.request("GET", f"/apis/{_GROUP}")
    except ApiError as error:
        if error.is_missing:
            return None
        raise
    version = str((group.get("preferredVersion") or {}).get("version") or "v1beta1")
    kinds = (*_KINDS, *_SCHEDULING) if scheduling else _KINDS
    return {kind: Resource(_GROUP, version, plural, kind, namespaced) for plural, kind, namespaced in kinds}


def queue_names(session: Session, queues: Resource, namespace: str) -> list[str]:
    """Return the names of a namespace's LocalQueues; none where they may not be listed.

    Kueue puts jobs that name no queue into the one called ``default`` (feature LocalQueueDefaulting).

    :param queues: LocalQueues, of :func:`kueue_resources`.
    """
    try:
        found = session.list_metadata(queues, namespace)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        return []
    return sorted(item["metadata"]["name"] for item in found)


def kueue_configuration(session: Session) -> object:
    """Kueue's Configuration, where its manifests put it; None where that is not, or may not be read, or is not YAML."""
    try:
        found = session.get(_CONFIGURATION)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        return None
    data = (found or {}).get("data") or {}
    return parsed_or_none(data.get("controller_manager_config.yaml") or "")


def workload_of(workloads: Iterable[Object], job: Object) -> Object | None:
    """The Workload by which Kueue goes for a Job or JobSet, among those of its namespace.

    It is one that the job controls: anybody who may write Workloads can name the job as a further owner. An elastic job
    has one for each of its sizes, of which the latest counts that has not finished. Source: Kueue 0.15,
    ``jobframework/reconciler.go`` (EquivalentToWorkload), ``workloadslicing.go`` (EnsureWorkloadSlices).
    """
    uid = job["metadata"]["uid"]
    own = (item for item in workloads if (controller_of(item) or {}).get("uid") == uid)
    return max(own, key=_slice_order, default=None)


def _slice_order(workload: Object) -> tuple[bool, str]:
    conditions = (workload.get("status") or {}).get("conditions") or []
    over = any(item.get("type") == "Finished" and item.get("status") == "True" for item in conditions)
    return not over, workload["metadata"].get("creationTimestamp") or ""


def find_workload(session: Session, job: Object) -> Object | None:
    """Kueue's Workload of a job; None where it has none, or none that may be read."""
    return find_workloads(session, [job]).by_job.get(job["metadata"]["uid"])


class FoundWorkloads(NamedTuple):
    """Kueue's Workloads by the uids of their jobs; ``hidden`` are the namespaces where they may not be read."""

    by_job: dict[str, Object]
    hidden: frozenset[str]


def find_workloads(session: Session, jobs: Iterable[Object]) -> FoundWorkloads:
    """Kueue's Workloads of jobs."""
    namespaces: dict[str, list[Object]] = {}
    for job in jobs:
        if QUEUE_LABEL in labels_of(job):
            namespaces.setdefault(job["metadata"]["namespace"], []).append(job)
    found: dict[str, Object] = {}
    hidden: set[str] = set()
    for namespace, group in namespaces.items():
        workloads = _workloads(session, namespace)
        if workloads is None:
            hidden.add(namespace)
            continue
        pairs = ((job["metadata"]["uid"], workload_of(workloads, job)) for job in group)
        found.update((uid, item) for uid, item in pairs if item is not None)
    return FoundWorkloads(found, frozenset(hidden))


def _workloads(session: Session, namespace: str) -> list[Object] | None:
    """The Workloads of a namespace; none where there is no Kueue, None where they may not be read."""
    try:
        kinds = kueue_resources(session)
        return [] if kinds is None else session.list_objects(kinds["Workload"], namespace)[0]
    except ApiError as error:
        if error.lacks_permission:
            return None
        if error.is_missing:
            return []
        raise
