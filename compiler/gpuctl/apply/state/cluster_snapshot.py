"""Taking a snapshot: a cluster's lists, reduced to what decides where pods go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from gpuctl.capacity.kueue_configuration import CONFIGURATION, counted_configuration
from gpuctl.capacity.kueue_entries import (
    counted_cluster_queue,
    counted_cohort,
    counted_flavor,
    counted_local_queue,
    counted_queue_priority,
    counted_workload,
)
from gpuctl.capacity.snapshot_document import Snapshot, camel
from gpuctl.capacity.snapshot_entries import (
    ENDED,
    counted_attachment,
    counted_budget,
    counted_claim,
    counted_csi_driver,
    counted_csi_node,
    counted_custom_resource,
    counted_device_class,
    counted_job,
    counted_job_set,
    counted_limit_range,
    counted_namespace,
    counted_node,
    counted_pod,
    counted_priority_class,
    counted_quota,
    counted_resource_slice,
    counted_runtime_class,
    counted_storage_capacity,
    counted_storage_class,
    counted_volume,
    finished_training,
    is_seen,
)
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.dynamic_resources import serves_dra
from gpuctl.kube.kueue import kueue_configuration, kueue_resources
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Object, Resource

_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_RUNTIMES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
_STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
_CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
_CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
_QUEUE_PARTS: dict[str, Callable[[Object], Object | None]] = {
    "Workload": counted_workload,
    "LocalQueue": counted_local_queue,
    "ClusterQueue": counted_cluster_queue,
    "Cohort": counted_cohort,
    "ResourceFlavor": counted_flavor,
    "WorkloadPriorityClass": counted_queue_priority,
}
_DEVICES = ("device_classes", "resource_slices")
_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)


def take_snapshot(
    session: Session,
    now: datetime | None = None,
    *,
    left_out: frozenset[str] = frozenset(),
    within: str | None = None,
) -> Snapshot:
    """Read a cluster.

    :param left_out: fields of the snapshot that are not needed.
    :param within: what belongs to a namespace is read of this one alone, and nodes as far as they may be listed.
    :raises ApiError: nodes or pods may not be listed; what else may not is left out.
    """
    needed = {"nodes", "pods"} if within is None else {"pods"}
    unreadable: list[str] = []
    finished: list[Object] = []
    parts: list[tuple[str, Resource, Callable[[Object], Object | None]]] = [
        ("nodes", RESOURCES["Node"], counted_node),
        ("pods", RESOURCES["Pod"], counted_pod),
        ("namespaces", RESOURCES["Namespace"], counted_namespace),
        ("priority_classes", RESOURCES["PriorityClass"], counted_priority_class),
        ("runtime_classes", _RUNTIMES, counted_runtime_class),
        ("quotas", RESOURCES["ResourceQuota"], counted_quota),
        ("limit_ranges", RESOURCES["LimitRange"], counted_limit_range),
        ("budgets", _BUDGETS, counted_budget),
        ("claims", RESOURCES["PersistentVolumeClaim"], counted_claim),
        ("volumes", RESOURCES["PersistentVolume"], counted_volume),
        ("storage_classes", _STORAGE_CLASSES, counted_storage_class),
        ("csi_nodes", _CSI_NODES, counted_csi_node),
        ("attachments", _ATTACHMENTS, counted_attachment),
        ("csi_drivers", _CSI_DRIVERS, counted_csi_driver),
        ("storage_capacities", _STORAGE_CAPACITIES, counted_storage_capacity),
        ("jobs", RESOURCES["Job"], counted_job),
        ("job_sets", RESOURCES["JobSet"], counted_job_set),
        ("custom_resources", RESOURCES["CustomResourceDefinition"], counted_custom_resource),
        ("device_classes", RESOURCES["DeviceClass"], counted_device_class),
    ]

    parts = [part for part in parts if part[0] not in left_out]

    def read(part: tuple[str, Resource, Callable[[Object], Object | None]]) -> list[Object]:
        name, resource, keep = part
        # Source: scheduler.go, NewInformerFactory: finished pods are not seen at all.
        fields = ",".join(f"status.phase!={phase}" for phase in ENDED) if name == "pods" else ""
        try:
            items = session.list_objects(resource, within if resource.namespaced else None, fields=fields)[0]
        except ApiError as error:
            if name in needed or not (error.lacks_permission or error.is_missing):
                raise
            # Without its API there is no object of a kind; whoever has no right to it is not told that.
            absent = error.is_missing or (name in _DEVICES and not serves_dra(session))
            if name not in ("job_sets", *_DEVICES) or not absent:
                unreadable.append(camel(name))
            return []
        if name in ("jobs", "job_sets"):
            finished.extend(entry for item in items if (entry := finished_training(item)) is not None)
        kept = (keep(item) for item in items if name != "pods" or is_seen(item))
        return [item for item in kept if item is not None]

    queues = None if "kueue" in left_out else _queues(session, within)
    lists: dict[str, Any] = dict(zip((part[0] for part in parts), session.each(read, parts), strict=True))
    if lists.get("device_classes"):
        lists["resource_slices"] = read(("resource_slices", RESOURCES["ResourceSlice"], counted_resource_slice))
    moment = (now or _now(session)).strftime("%Y-%m-%dT%H:%M:%SZ")
    finished.sort(key=lambda entry: (entry["namespace"], entry["name"], entry["kind"]))
    return Snapshot(moment, **lists, finished=finished, unreadable=sorted(unreadable), kueue=queues)


def _queues(session: Session, within: str | None) -> Object | None:
    """Kueue's lists by their plural names; those that may not be read, of one namespace or of all, are left out."""
    kinds = kueue_resources(session, scheduling=True)
    if kinds is None:
        return None

    def read(kind: str) -> list[Object] | None:
        try:
            items = session.list_objects(kinds[kind], within if kinds[kind].namespaced else None)[0]
        except ApiError as error:
            if not (error.lacks_permission or error.is_missing):
                raise
            return None
        return [kept for kept in map(_QUEUE_PARTS[kind], items) if kept is not None]

    found = zip(_QUEUE_PARTS, session.each(read, list(_QUEUE_PARTS)), strict=True)
    lists: Object = {kinds[kind].plural: items for kind, items in found if items is not None}
    configuration = counted_configuration(kueue_configuration(session))
    return lists if configuration is None else {**lists, CONFIGURATION: configuration}


def _now(session: Session) -> datetime:
    """The time by the API server's clock, which is that of all that the snapshot holds."""
    return datetime.now(timezone.utc) + timedelta(seconds=session.clock_ahead())
