"""The GPUs of a cluster's nodes, by pool and type."""

from __future__ import annotations

from collections.abc import Mapping

from gpuctl.capacity.devices.device_counts import offered_by_drivers
from gpuctl.capacity.snapshot.planned_node_labels import labels_with
from gpuctl.capacity.snapshot.pod_requests import amounts, total_of
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.settings import Settings

Labels = Mapping[str, str]


def gpu_inventory(
    snapshot: Snapshot, settings: Settings, labels: Mapping[str, Mapping[str, str | None]]
) -> dict[str, dict[str, list[int]]]:
    """Return pool -> GPU type ("" if unlabelled) -> GPUs of each node, cordoned nodes included.

    :param labels: labels that documents set on nodes, by node name, or remove (None); unknown nodes are ignored.
    """
    resources = settings.gpu_resources
    offered = offered_by_drivers(snapshot, resources)
    pools: dict[str, dict[str, list[int]]] = {}
    for node in snapshot.nodes:
        own = labels_with(node, labels)
        gpus = int(total_of(amounts(node["allocatable"]), resources))
        gpus += sum(offered.get(node["name"], {}).values())
        types = pools.setdefault(own.get(settings.label("pool"), DEFAULT_POOL), {})
        types.setdefault(_gpu_type(own, settings), []).append(gpus)
    return pools


def _gpu_type(labels: Labels, settings: Settings) -> str:
    """Return the GPU type of a node: a type that the platform maps to labels, else gpuctl's own label."""
    for name, wanted in settings.gpu_types.items():
        if all(labels.get(key) in ([value] if isinstance(value, str) else value) for key, value in wanted.items()):
            return name
    return labels.get(settings.label("gpu-type"), "")
