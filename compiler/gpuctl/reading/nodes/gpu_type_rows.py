"""GPU types: their GPUs, nodes and pools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuctl.reading.nodes.node_gpus import UNKNOWN, PlatformGpus
from gpuctl.reading.nodes.node_rows import NodeDetails


@dataclass(frozen=True)
class GpuType:
    """The GPUs of one type: their numbers, nodes and pools. Their use is unknown (None) if pods may not be read."""

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
