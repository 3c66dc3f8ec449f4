"""Lowers ``kind: pool`` to a ConfigMap with the definition, and to the labels of its nodes."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.emitter import emit_object
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import metadata
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.pool_document import PoolDocument
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import DATA_KEY, config_map_name
from gpuctl.objects.label_names import managed_labels


def lower_pool(context: Context, model: PoolDocument) -> Object:
    """Return the ConfigMap, which contains the pool's nodes and their types."""
    name = model.header.name
    annotations = {}
    if model.header.description is not None:
        annotations[context.label("description")] = model.header.description
    labels = {**managed_labels(), context.label("pool"): name}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(config_map_name(name), SYSTEM_NAMESPACE, labels, annotations),
        "data": {DATA_KEY: emit_object(definition(model))},
    }


def definition(model: PoolDocument) -> Object:
    """Return the pool as a document, in canonical spelling."""
    header = {"name": model.header.name}
    if model.header.description is not None:
        header["description"] = model.header.description
    nodes: Object = {}
    for name, node in model.nodes.items():
        entry: Object = {"gpu-type": node.gpu_type}
        if node.gpu_count is not None:
            entry["gpu-count"] = node.gpu_count
        if node.gpu_profiles is not None:
            entry["gpu-profiles"] = dict(node.gpu_profiles)
        nodes[name] = entry
    document: Object = {"kind": "pool", "version": "v0.1", "pool": header, "nodes": nodes}
    if model.quota is not None:
        document["quota"] = model.quota.model_dump(exclude_none=True)
    if model.placement is not None:
        document["placement"] = {"clusters": model.placement.clusters}
    return document


def node_labels(context: Context, model: PoolDocument) -> Iterator[Object]:
    """Yield for each node an object with labels only. It is never created, deleted or pruned."""
    for name, node in model.nodes.items():
        labels = {context.label("pool"): model.header.name}
        if node.gpu_type:
            labels[context.label("gpu-type")] = node.gpu_type
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
