"""Queries about nodes, their labels and GPUs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuctl.hints import NodeLabelsHint
from gpuctl.kube.api_errors import NotThere
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
from gpuctl.objects.api_resources import Key, Object
from gpuctl.reading.nodes import inventory
from gpuctl.reading.nodes.gpu_type_rows import GpuType, gpu_types
from gpuctl.reading.nodes.label_rows import LabelRow, labels_with, node_labels
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import NodeDetails, read_nodes
from gpuctl.usecases.queries.read_context import ReadContext, check_names
from gpuctl.usecases.service.service_client import ServiceClient
from gpuctl.usecases.service.service_nodes import (
    dated_label_of_service,
    gpu_labels_of_service,
    gpu_types_of_service,
    gpus_of_service,
    label_of_service,
    labels_of_service,
    nodes_of_service,
)

if TYPE_CHECKING:
    from gpuctl.api.node_answers import GpusOfNode, GpuTypeItem, NodeItem
    from gpuctl.api.node_label_answers import GpuLabels, NodeLabel


@dataclass(frozen=True)
class NodeQuery:
    """A query for nodes by name, pool, status, label selector or GPU type (ignoring case).

    :param gpu_type: a GPU type; the key of a label queries that label instead.
    :param label: ``KEY``: return this label of each node; ``KEY=VALUE``: return the nodes that have it.
    :param gpus: also return the GPUs one by one.
    """

    names: Sequence[str] = ()
    pool: str | None = None
    gpu_type: str | None = None
    status: str | None = None
    selector: str = ""
    label: str | None = None
    gpus: bool = False


@dataclass(frozen=True)
class NodeListing:
    """The nodes that match a query.

    :param others: all nodes that match its label selector, for suggestions.
    :param query: the query after defaults were applied.
    :param labels: the result if ``query.label`` is a key; pods are not read then.
    :param gpus: the GPUs of the nodes, if the query includes them.
    """

    nodes: Sequence[NodeDetails | NodeItem]
    others: Sequence[NodeDetails | NodeItem]
    query: NodeQuery
    labels: Sequence[LabelRow | NodeLabel]
    gpus: Sequence[NodeDetails | GpusOfNode]


def list_nodes(reader: ReadContext, query: NodeQuery) -> NodeListing:
    """Return the nodes by name.

    :raises NotThere: one of the names does not exist.
    """
    if query.label is not None and "=" in query.label:
        query = replace(query, selector=",".join(filter(None, (query.selector, query.label))), label=None)
    if reader.service is not None:
        return _list_by_service(reader.service, query, PlatformGpus(reader.settings))
    gpus = PlatformGpus(reader.settings)
    counted = () if query.label is not None else reader.settings.gpu_resources
    found = inventory.read_inventory(
        reader.scope, reader.keys, labels=query.selector, pods=query.label is None, gpus=counted
    )
    query = label_query(query, found.nodes, gpus)
    states = read_nodes(found.nodes, found.pods, reader.keys, gpus, found.devices)
    check_names("node", query.names, [node.name for node in states])
    chosen = select_nodes(states, query, gpus)
    rows = labels_with((node.object for node in chosen), query.label) if query.label is not None else ()
    return NodeListing(
        chosen,
        states,
        query,
        list(rows),
        [node for node in chosen if node.has_gpus] if query.gpus else [],
    )


def _list_by_service(service: ServiceClient, query: NodeQuery, gpus: PlatformGpus) -> NodeListing:
    labels: list[NodeLabel] = []
    if query.label is None and query.gpu_type and "/" in query.gpu_type and "=" not in query.gpu_type:
        labels = label_of_service(service, query.gpu_type)
        if labels or gpus.is_label(query.gpu_type):
            query = replace(query, label=query.gpu_type, gpu_type=None)
    elif query.label is not None:
        labels = label_of_service(service, query.label)
    wanted = {"pool": query.pool or "", "gpuType": query.gpu_type or "", "status": query.status or ""}
    nodes = nodes_of_service(service, selector=query.selector, **wanted)
    others = nodes
    if query.names or not nodes:
        others = nodes_of_service(service, selector=query.selector)
    check_names("node", query.names, [node.name for node in others])
    nodes = [node for node in nodes if not query.names or node.name in query.names]
    chosen = {node.name for node in nodes}
    return NodeListing(
        nodes,
        others,
        query,
        [row for row in labels if row.node in chosen],
        [item for item in gpus_of_service(service) if item.name in chosen] if query.gpus else [],
    )


def label_query(query: NodeQuery, nodes: Iterable[Object], gpus: PlatformGpus) -> NodeQuery:
    """Return the query for a label if ``gpu_type`` is the key of one, otherwise the same query."""
    if query.label is None and query.gpu_type and gpus.is_key(query.gpu_type, nodes):
        return replace(query, label=query.gpu_type, gpu_type=None)
    return query


def select_nodes(nodes: Iterable[NodeDetails], query: NodeQuery, gpus: PlatformGpus) -> list[NodeDetails]:
    """Return the nodes that match a query by name, pool, status and GPU type."""
    return [node for node in nodes if _takes(query, node, gpus)]


def _takes(wanted: NodeQuery, node: NodeDetails, gpus: PlatformGpus) -> bool:
    return (
        (not wanted.names or node.name in wanted.names)
        and wanted.pool in (None, node.pool)
        and wanted.status in (None, node.status)
        and (wanted.gpu_type is None or gpus.matches(node.object, node.total, wanted.gpu_type))
    )


def list_labels(reader: ReadContext, names: Sequence[str], key: str | None = None) -> Sequence[LabelRow | NodeLabel]:
    """Return the labels of nodes, or one label of them; without names those of all nodes.

    :raises NotThere: a node does not exist, or a named node lacks the label.
    """
    if reader.service is None:
        return _labels(reader, names, key)
    if key is not None and not names:
        return label_of_service(reader.service, key)
    rows = [row for name in names for row in labels_of_service(reader.service, name)]
    if key is not None:
        known = {row.key for row in rows}
        rows = [row for row in rows if row.key == key]
        _check_all_have(names, key, {row.node for row in rows}, known)
    return sorted(rows, key=lambda row: (row.node, row.key))


def one_label(reader: ReadContext, name: str, key: str) -> LabelRow:
    """Return one label of one node, with its times.

    :raises NotThere: the node does not exist, or lacks the label.
    """
    if reader.service is None:
        return _labels(reader, [name], key)[0]
    found = dated_label_of_service(reader.service, name, key)
    if found is None:
        _check_all_have([name], key, set(), {row.key for row in labels_of_service(reader.service, name)})
        raise AssertionError("unreachable")
    return found


def _labels(reader: ReadContext, names: Sequence[str], key: str | None) -> list[LabelRow]:
    found = inventory.read_inventory(reader.scope, reader.keys, pods=False)
    check_names("node", names, [node["metadata"]["name"] for node in found.nodes])
    nodes = [node for node in found.nodes if not names or node["metadata"]["name"] in names]
    if key is None:
        return [label for node in nodes for label in node_labels(node)]
    having = labels_with(nodes, key)
    known = {label.key for node in nodes for label in node_labels(node)}
    _check_all_have(names, key, {label.node for label in having}, known)
    return having


def _check_all_have(names: Iterable[str], key: str, having: Container[str], known: Iterable[str]) -> None:
    """Check that all named nodes have a label.

    :param known: the keys of their labels; the nearest one is suggested.
    :raises NotThere: a node lacks it.
    """
    lacking = [name for name in names if name not in having]
    if lacking:
        hint = did_you_mean(key, known) or say("{command} lists its labels", command=NodeLabelsHint(lacking[0]))
        raise NotThere(say("node {names}: no label {key}", names=lacking, key=key), hint)


def labels_of_node(session: Session, name: str) -> list[LabelRow] | None:
    """Return the labels of one node with a single request; None if the node does not exist."""
    node = session.get(Key("Node", "", name))
    return None if node is None else node_labels(node)


def list_gpu_labels(reader: ReadContext) -> Sequence[NodeDetails | GpuLabels]:
    """Return the GPU labels and pools of all nodes. Pods are not read."""
    if reader.service is not None:
        return gpu_labels_of_service(reader.service)
    found = inventory.read_inventory(reader.scope, reader.keys, pods=False)
    return read_nodes(found.nodes, None, reader.keys, PlatformGpus(reader.settings))


def list_gpu_types(reader: ReadContext, names: Sequence[str] = ()) -> Sequence[GpuType | GpuTypeItem]:
    """Return the GPU types of nodes, or those with the given names, ignoring case.

    :raises NotThere: one of the names does not exist.
    """
    types: Sequence[GpuType | GpuTypeItem]
    if reader.service is not None:
        types = gpu_types_of_service(reader.service)
    else:
        gpus = PlatformGpus(reader.settings)
        found = inventory.read_inventory(reader.scope, reader.keys, gpus=reader.settings.gpu_resources)
        nodes = read_nodes(found.nodes, found.pods, reader.keys, gpus, found.devices)
        types = gpu_types(nodes, gpus)
    by_name = {item.name.casefold(): item.name for item in types}
    check_names("GPU type", [by_name.get(name.casefold(), name) for name in names], [item.name for item in types])
    wanted = {name.casefold() for name in names}
    return [item for item in types if not wanted or item.name.casefold() in wanted]
