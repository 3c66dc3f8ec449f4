"""Kueue's API: its version, its configuration, and the Workloads of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import QUEUE_LABEL, Key, Object, Resource, labels_of
from gpuctl.objects.queueing import is_gated, owner_of_workload
from gpuctl.objects.workload_state import condition
from gpuctl.objects.yaml_text import parsed_or_none

_GROUP = "kueue.x-k8s.io"
_CONFIGURATION = Key("ConfigMap", "kueue-system", "kueue-manager-config")
_RELEASE_LABEL = "app.kubernetes.io/version"
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
    """Return Kueue's kinds in the version that the server prefers; None if Kueue is not installed.

    :param scheduling: include ResourceFlavor and WorkloadPriorityClass, which only admission decisions need.
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
    """Return the names of a namespace's LocalQueues; empty if they are not installed, or the user may not list them.

    Kueue puts jobs that name no queue into the one called ``default`` (feature LocalQueueDefaulting).

    :param queues: the kind LocalQueue, from :func:`kueue_resources`.
    """
    found = if_allowed(lambda: session.list_metadata(queues, namespace), [])
    return sorted(item["metadata"]["name"] for item in found)


def kueue_configuration(session: Session) -> tuple[object, str]:
    """Return Kueue's Configuration from the ConfigMap of its manifests, and its release from the label that Helm sets.

    The Configuration is None if it is missing, forbidden or not YAML; the release is "" if it is unknown.
    """
    try:
        found = session.get(_CONFIGURATION)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        return None, ""
    data = (found or {}).get("data") or {}
    release = labels_of(found or {"metadata": {}}).get(_RELEASE_LABEL, "")
    return parsed_or_none(data.get("controller_manager_config.yaml") or ""), release


def workload_of(workloads: Iterable[Object], job: Object) -> Object | None:
    """Return the Workload that Kueue uses for a Job, JobSet, StatefulSet or pod, among those of its namespace.

    An elastic job has one Workload for each of its sizes; the latest that has not finished counts. Source: Kueue
    0.19, ``jobframework/reconciler.go`` (EquivalentToWorkload), ``workloadslicing.go`` (EnsureWorkloadSlices).
    """
    uid = job["metadata"]["uid"]
    own = (item for item in workloads if (owner_of_workload(item) or {}).get("uid") == uid)
    return max(own, key=_slice_order, default=None)


def waiting_workload(workloads: Iterable[Object], job: Object, pods: Iterable[Object]) -> Object | None:
    """Return the Workload with which a job waits; of a Deployment, whose pods have one each, that of the first gated
    pod.
    """
    if job["kind"] != "Deployment":
        return workload_of(workloads, job)
    known = list(workloads)
    gated = sorted(filter(is_gated, pods), key=lambda pod: pod["metadata"].get("creationTimestamp") or "")
    return next(filter(None, (workload_of(known, pod) for pod in gated)), None)


def _slice_order(workload: Object) -> tuple[bool, str]:
    return condition(workload, "Finished") is None, workload["metadata"].get("creationTimestamp") or ""


def find_workload(session: Session, job: Object) -> Object | None:
    """Return Kueue's Workload of a job; None if it does not exist or the user may not read it."""
    return find_workloads(session, [job]).by_job.get(job["metadata"]["uid"])


class FoundWorkloads(NamedTuple):
    """Kueue's Workloads by the uids of their jobs. ``hidden``: namespaces whose Workloads the user may not read."""

    by_job: dict[str, Object]
    hidden: frozenset[str]


def find_workloads(session: Session, jobs: Iterable[Object]) -> FoundWorkloads:
    namespaces: dict[str, list[Object]] = {}
    for job in jobs:
        if QUEUE_LABEL in labels_of(job):
            namespaces.setdefault(job["metadata"]["namespace"], []).append(job)
    found: dict[str, Object] = {}
    hidden: set[str] = set()
    for namespace, group in namespaces.items():
        workloads = namespace_workloads(session, namespace)
        if workloads is None:
            hidden.add(namespace)
            continue
        pairs = ((job["metadata"]["uid"], workload_of(workloads, job)) for job in group)
        found.update((uid, item) for uid, item in pairs if item is not None)
    return FoundWorkloads(found, frozenset(hidden))


def namespace_workloads(session: Session, namespace: str) -> list[Object] | None:
    """Return the Workloads of a namespace; empty without Kueue, None if the user may not read them."""
    try:
        kinds = kueue_resources(session)
        return [] if kinds is None else session.list_objects(kinds["Workload"], namespace)[0]
    except ApiError as error:
        if error.lacks_permission:
            return None
        if error.is_missing:
            return []
        raise
