"""Labels of nodes, and the GPU types that they name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.reading.nodes.node_gpus import UNKNOWN, PlatformGpus
from gpuctl.reading.nodes.node_rows import NodeDetails


@dataclass(frozen=True)
class LabelRow:
    """One label of one node.

    Kubernetes stores when each field manager of a label last wrote to the node. So the label existed at ``created_at``
    (earliest manager) and has not changed since ``updated_at`` (latest manager). Both are None without a manager.
    """

    node: str
    key: str
    value: str
    created_at: str | None
    updated_at: str | None


def labels_with(nodes: Iterable[Object], key: str) -> list[LabelRow]:
    """Return a label of all nodes that have it, by node."""
    found = (label for node in nodes for label in node_labels(node) if label.key == key)
    return sorted(found, key=lambda label: label.node)


def node_labels(node: Object) -> list[LabelRow]:
    """Return all labels of a node, by key."""
    name = node["metadata"]["name"]
    return [LabelRow(name, key, value, *_times(node, key)) for key, value in sorted(labels_of(node).items())]


@dataclass(frozen=True)
class GpuType:
    """A GPU type, with the number of GPUs and their nodes. ``used`` is None if pods may not be read."""

    name: str
    vendors: tuple[str, ...]
    total: int
    used: int | None
    free: int | None
    nodes: tuple[str, ...]
    pools: tuple[str, ...]


def gpu_types(nodes: Iterable[NodeDetails], gpus: PlatformGpus) -> list[GpuType]:
    """Return the GPU types of nodes, by name. Nodes with GPUs but without a type label have the type ``unknown``."""
    groups: dict[str, list[NodeDetails]] = {}
    for node in nodes:
        if node.gpu_type or node.gpu_total:
            groups.setdefault(node.gpu_type or UNKNOWN, []).append(node)
    return [_gpu_type(name, group, gpus) for name, group in sorted(groups.items())]


def _gpu_type(name: str, nodes: list[NodeDetails], gpus: PlatformGpus) -> GpuType:
    known = all(node.gpu_used is not None for node in nodes)
    vendors = {gpus.vendors[resource] for node in nodes for resource in node.total if resource in gpus.vendors}
    return GpuType(
        name,
        tuple(sorted(vendors)),
        sum(node.gpu_total for node in nodes),
        sum(node.gpu_used or 0 for node in nodes) if known else None,
        sum(node.gpu_free or 0 for node in nodes) if known else None,
        tuple(node.name for node in nodes),
        tuple(sorted({node.pool for node in nodes})),
    )


def _times(node: Object, key: str) -> tuple[str | None, str | None]:
    """Return the earliest and the latest write to the node by a manager of the label."""
    times = [
        str(entry["time"])
        for entry in node["metadata"].get("managedFields") or []
        if entry.get("time")
        and f"f:{key}" in ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels", {})
    ]
    return min(times, default=None), max(times, default=None)
