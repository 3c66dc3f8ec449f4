"""A snapshot in the scheduler's terms: nodes with their pods, pending pods, budgets and quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuctl.capacity.devices.device_counts import DeviceCounts
from gpuctl.capacity.pods.recreated_pods import NO_RECREATED_PODS, RecreatedPods
from gpuctl.capacity.scheduler.preemption import Budget
from gpuctl.capacity.scheduler.scheduler_model import (
    CLUSTER_TOPOLOGY,
    IncomingPod,
    NodeInfo,
    PlacedPod,
    SchedulableNode,
    Volume,
    units,
)
from gpuctl.capacity.snapshot.planned_node_labels import labels_by_node, labels_with
from gpuctl.capacity.snapshot.pod_requests import amounts
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object


class ClusterModel(NamedTuple):
    """The scheduler's view of a cluster.

    - ``nominated``: pods for which room on a node is being freed, with the number of the node.
    - ``waiting``: pending pods without a nominated node.
    - ``reported_resources``: resources that some node reports as allocatable.
    - ``names_hosts``: some pods select nodes by name.
    - ``recreated``: pods that are recreated when evicted.
    """

    node_infos: list[NodeInfo]
    nominated: list[tuple[int, PlacedPod]]
    waiting: list[IncomingPod]
    budgets: list[Budget]
    quotas: list[Object]
    reported_resources: frozenset[str]
    names_hosts: bool
    recreated: RecreatedPods = NO_RECREATED_PODS


def build_cluster_model(
    snapshot: Snapshot, objects: Iterable[Object], pods: Mapping[int, PlacedPod], devices: DeviceCounts
) -> ClusterModel:
    planned = labels_by_node(objects)
    on_node: dict[str, list[PlacedPod]] = {}
    for item in snapshot.pods:
        if "node" in item:
            on_node.setdefault(item["node"], []).append(pods[id(item)])
    limits = {
        item["name"]: {one["name"]: one["count"] for one in item["drivers"] if "count" in one}
        for item in snapshot.csi_nodes
    }
    attached = _attached(snapshot)
    node_infos, places = [], {}
    for index, item in enumerate(snapshot.nodes):
        name = item["name"]
        own = {**labels_with(item, planned), CLUSTER_TOPOLOGY: ""}
        offered = devices.offered.get(name, {})
        allocatable = {**units(amounts(item["allocatable"])), **offered}
        taints, closed = item.get("taints") or (), item.get("unschedulable", False)
        node = SchedulableNode(
            name,
            allocatable,
            own,
            taints,
            closed,
            limits.get(name, {}),
            attached.get(name, frozenset()),
            frozenset(offered),
            devices.shared.get(name, ()),
        )
        node_infos.append(NodeInfo(node, tuple(on_node.get(name, ()))))
        places[name] = index
    nominated = [
        (places[item["nominatedNode"]], pods[id(item)])
        for item in snapshot.pods
        if "node" not in item and item.get("nominatedNode") in places
    ]
    budgets = [
        Budget(
            item["namespace"],
            item.get("selector"),
            item["disruptionsAllowed"],
            frozenset(item.get("disruptedPods") or ()),
        )
        for item in snapshot.budgets
    ]
    reported = frozenset(name for item in snapshot.nodes for name in item["allocatable"]) | devices.names
    return ClusterModel(node_infos, nominated, [], budgets, _quotas(snapshot, objects), reported, False)


def _attached(snapshot: Snapshot) -> dict[str, frozenset[Volume]]:
    """Return the volumes attached to each node. Source: ``nodevolumelimits/csi.go``, getNodeVolumeAttachmentInfo."""
    handles = {item["name"]: item["handle"] for item in snapshot.volumes if "handle" in item}
    result: dict[str, set[Volume]] = {}
    for item in snapshot.attachments:
        if item["volume"] in handles:
            result.setdefault(item["node"], set()).add((item["driver"], handles[item["volume"]]))
    return {name: frozenset(volumes) for name, volumes in result.items()}


def _quotas(snapshot: Snapshot, objects: Iterable[Object]) -> list[Object]:
    """Return the quotas of the cluster with the changes that documents make."""
    result: dict[tuple[str, str], Object] = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item for item in snapshot.quotas
    }
    for obj in objects:
        if obj["kind"] == "ResourceQuota":
            key = obj["metadata"]["namespace"], obj["metadata"]["name"]
            used = ((result.get(key) or {}).get("status") or {}).get("used") or {}
            result[key] = {**obj, "status": {"used": used}}
    return list(result.values())
