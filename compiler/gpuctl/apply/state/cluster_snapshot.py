"""Taking a snapshot: a cluster's lists, reduced to the fields that decide where pods are scheduled.

The fields that stay are listed in capacity/snapshot: ``pod_entry``, ``node_entry`` and their like.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from gpuctl.capacity.kueue.kueue_configuration import CONFIGURATION, configuration_entry
from gpuctl.capacity.snapshot.device_entries import (
    device_class_entry,
    resource_claim_entry,
    resource_claim_template_entry,
    resource_slice_entry,
    with_taint_rules,
)
from gpuctl.capacity.snapshot.kueue_entries import (
    cluster_queue_entry,
    cohort_entry,
    flavor_entry,
    local_queue_entry,
    queue_priority_entry,
    workload_entry,
)
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, json_name
from gpuctl.capacity.snapshot.snapshot_entries import (
    attachment_entry,
    budget_entry,
    claim_entry,
    csi_driver_entry,
    csi_node_entry,
    finished_entry,
    is_seen_by_scheduler,
    job_entry,
    job_set_entry,
    limit_range_entry,
    namespace_entry,
    node_entry,
    pod_entry,
    priority_class_entry,
    quota_entry,
    runtime_class_entry,
    storage_capacity_entry,
    storage_class_entry,
    volume_entry,
)
from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.dynamic_resources import serves_dra, taint_rule_resource
from gpuctl.kube.kueue import kueue_configuration, kueue_resources
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Object, Resource
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.objects.workload_state import ENDED_PHASES

_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_RUNTIMES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
_STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
_CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
_CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
_QUEUE_PARTS: dict[str, Callable[[Object], Object | None]] = {
    "Workload": workload_entry,
    "LocalQueue": local_queue_entry,
    "ClusterQueue": cluster_queue_entry,
    "Cohort": cohort_entry,
    "ResourceFlavor": flavor_entry,
    "WorkloadPriorityClass": queue_priority_entry,
}
_DEVICES: list[tuple[str, Resource, Callable[[Object], Object | None]]] = [
    ("resource_slices", RESOURCES["ResourceSlice"], resource_slice_entry),
    ("resource_claims", RESOURCES["ResourceClaim"], resource_claim_entry),
    ("resource_claim_templates", RESOURCES["ResourceClaimTemplate"], resource_claim_template_entry),
]
"""Lists that are read if the cluster has a DeviceClass."""
_TAINT_RULES = "device_taint_rules"
_DEVICE_LISTS = frozenset(("device_classes", _TAINT_RULES, *(part[0] for part in _DEVICES)))
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
    :param within: list namespaced objects in this namespace only; nodes are then optional.
    :raises ApiError: the user may not list nodes or pods. Other lists without permission become ``unreadable``.
    """
    needed = {"nodes", "pods"} if within is None else {"pods"}
    unreadable: list[str] = []
    finished: list[Object] = []
    parts: list[tuple[str, Resource, Callable[[Object], Object | None]]] = [
        ("nodes", RESOURCES["Node"], node_entry),
        ("pods", RESOURCES["Pod"], pod_entry),
        ("namespaces", RESOURCES["Namespace"], namespace_entry),
        ("priority_classes", RESOURCES["PriorityClass"], priority_class_entry),
        ("runtime_classes", _RUNTIMES, runtime_class_entry),
        ("quotas", RESOURCES["ResourceQuota"], quota_entry),
        ("limit_ranges", RESOURCES["LimitRange"], limit_range_entry),
        ("budgets", _BUDGETS, budget_entry),
        ("claims", RESOURCES["PersistentVolumeClaim"], claim_entry),
        ("volumes", RESOURCES["PersistentVolume"], volume_entry),
        ("storage_classes", _STORAGE_CLASSES, storage_class_entry),
        ("csi_nodes", _CSI_NODES, csi_node_entry),
        ("attachments", _ATTACHMENTS, attachment_entry),
        ("csi_drivers", _CSI_DRIVERS, csi_driver_entry),
        ("storage_capacities", _STORAGE_CAPACITIES, storage_capacity_entry),
        ("jobs", RESOURCES["Job"], job_entry),
        ("job_sets", RESOURCES["JobSet"], job_set_entry),
        ("device_classes", RESOURCES["DeviceClass"], device_class_entry),
    ]

    parts = [part for part in parts if part[0] not in left_out]

    def read(part: tuple[str, Resource, Callable[[Object], Object | None]]) -> list[Object]:
        name, resource, keep = part
        # Source: scheduler.go, NewInformerFactory: the scheduler does not watch finished pods.
        fields = ",".join(f"status.phase!={phase}" for phase in ENDED_PHASES) if name == "pods" else ""
        try:
            # Devices are counted only if the claims of all namespaces are known.
            space = within if resource.namespaced and name != "resource_claims" else None
            items = session.list_objects(resource, space, fields=fields)[0]
        except ApiError as error:
            if name in needed or not (error.lacks_permission or error.is_missing):
                raise
            # Without its API no object of the kind exists. Without the right to list it, that is unknown.
            absent = error.is_missing or (name in _DEVICE_LISTS and not serves_dra(session))
            if name not in ("job_sets", *_DEVICE_LISTS) or not absent:
                unreadable.append(json_name(name))
            return []
        if name in ("jobs", "job_sets"):
            finished.extend(entry for item in items if (entry := finished_entry(item)) is not None)
        kept = (keep(item) for item in items if name != "pods" or is_seen_by_scheduler(item))
        return [item for item in kept if item is not None]

    queues = None if "kueue" in left_out else _queues(session, within)
    lists: dict[str, Any] = dict(zip((part[0] for part in parts), session.each(read, parts), strict=True))
    if lists.get("device_classes"):
        rules = taint_rule_resource(session)
        more = [*_DEVICES, (_TAINT_RULES, rules, lambda rule: rule["spec"])] if rules else _DEVICES
        lists.update(zip((part[0] for part in more), session.each(read, more), strict=True))
        lists["resource_slices"] = with_taint_rules(lists["resource_slices"], lists.pop(_TAINT_RULES, ()))
    moment = format_timestamp(now or datetime.fromtimestamp(session.server_time(), timezone.utc))
    finished.sort(key=lambda entry: (entry["namespace"], entry["name"], entry["kind"]))
    return Snapshot(moment, **lists, finished=finished, unreadable=sorted(unreadable), kueue=queues)


def _queues(session: Session, within: str | None) -> Object | None:
    """Return Kueue's lists by their plural names, without those that the user may not read."""
    kinds = kueue_resources(session, scheduling=True)
    if kinds is None:
        return None

    def read(kind: str) -> list[Object] | None:
        items = if_allowed(
            lambda: session.list_objects(kinds[kind], within if kinds[kind].namespaced else None)[0], None
        )
        if items is None:
            return None
        return [kept for kept in map(_QUEUE_PARTS[kind], items) if kept is not None]

    found = zip(_QUEUE_PARTS, session.each(read, list(_QUEUE_PARTS)), strict=True)
    lists: Object = {kinds[kind].plural: items for kind, items in found if items is not None}
    configuration = configuration_entry(*kueue_configuration(session))
    return lists if configuration is None else {**lists, CONFIGURATION: configuration}
