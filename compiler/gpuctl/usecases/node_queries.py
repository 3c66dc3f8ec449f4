"""What is asked about nodes, their labels and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuctl.hints import NodeLabelsHint
from gpuctl.kube.absent import no_such
from gpuctl.kube.api_errors import NotThere
from gpuctl.kube.session import Session
from gpuctl.language.spelling import nearest
from gpuctl.objects.api_resources import Key, Object, labels_of
from gpuctl.reading import inventory
from gpuctl.reading.label_rows import GpuType, Label, gpu_types, labels, labels_with
from gpuctl.reading.node_gpus import Gpus
from gpuctl.reading.node_rows import NodeState, read_nodes
from gpuctl.usecases.looking import Reader, check_names


@dataclass(frozen=True)
class NodeQuery:
    """Which nodes: by name, pool, status and labels (``selector``, as kubectl's), by a type of GPU in any spelling.

    ``label`` asks for a label of theirs; ``KEY=VALUE`` for the nodes that have it. A ``gpu_type`` that is a label's key
    asks for that label.
    """

    names: Sequence[str] = ()
    pool: str | None = None
    gpu_type: str | None = None
    status: str | None = None
    selector: str = ""
    label: str | None = None


@dataclass(frozen=True)
class NodeListing:
    """``nodes`` are those that were asked for, of ``others`` too; ``query`` is what the question came to.

    When ``query.label`` is a key, pods are not looked at, and it is what was asked for.
    """

    nodes: list[NodeState]
    others: list[NodeState]
    query: NodeQuery


def list_nodes(reader: Reader, query: NodeQuery) -> NodeListing:
    """The nodes by name.

    :raises NotThere: there is none of a name.
    """
    if reader.service is not None:
        return reader.service.ask("list-nodes", NodeListing, reader.scope, query=query)
    gpus = Gpus(reader.settings)
    if query.label is not None and "=" in query.label:
        query = replace(query, selector=",".join(filter(None, (query.selector, query.label))), label=None)
    counted = () if query.label is not None else reader.settings.gpu_resources
    found = inventory.take(reader.scope, reader.keys, labels=query.selector, pods=query.label is None, gpus=counted)
    query = label_query(query, found.nodes, gpus)
    nodes = read_nodes(found.nodes, found.pods, reader.keys, gpus, found.devices)
    check_names("node", query.names, [node.name for node in nodes])
    return NodeListing(select_nodes(nodes, query, gpus), nodes, query)


def label_query(query: NodeQuery, nodes: Iterable[Object], gpus: Gpus) -> NodeQuery:
    """A query whose ``gpu_type`` is a label's key as the one for that label; any other as it is."""
    if query.label is None and query.gpu_type and gpus.is_key(query.gpu_type, nodes):
        return replace(query, label=query.gpu_type, gpu_type=None)
    return query


def select_nodes(nodes: Iterable[NodeState], query: NodeQuery, gpus: Gpus) -> list[NodeState]:
    """Those of nodes that a query means by name, pool, status and type of GPU."""
    return [node for node in nodes if _takes(query, node, gpus)]


def _takes(wanted: NodeQuery, node: NodeState, gpus: Gpus) -> bool:
    return (
        (not wanted.names or node.name in wanted.names)
        and wanted.pool in (None, node.pool)
        and wanted.status in (None, node.status)
        and (wanted.gpu_type is None or gpus.matches(node.object, node.total, wanted.gpu_type))
    )


def describe_node(reader: Reader, name: str) -> NodeState:
    """One node, with what its pods request.

    :raises NotThere: there is none of the name.
    """
    if reader.service is not None:
        return reader.service.ask("describe-node", NodeState, reader.scope, name=name)
    found, pods, devices = inventory.take_one(reader.scope, name, reader.settings.gpu_resources)
    if found is None:
        raise no_such("node", name, inventory.node_names(reader.scope.session))
    (node,) = read_nodes([found], pods, reader.keys, Gpus(reader.settings), devices)
    return node


def list_labels(
    reader: Reader,
    names: Sequence[str],
    key: str | None = None,
    shows: Callable[[Mapping[str, str]], bool] = lambda labels: True,
) -> list[Label]:
    """The labels of nodes, or one label of them; without names of all nodes.

    :param shows: from a node's labels whether it is there for whoever asks.
    :raises NotThere: there is no such node, or a node that is named lacks the label.
    """
    from gpuctl.reading.label_rows import labels

    if reader.service is not None:
        return reader.service.ask("list-labels", list[Label], reader.scope, names=list(names), key=key)
    found = inventory.take(reader.scope, reader.keys, pods=False)
    there = [node for node in found.nodes if shows(labels_of(node))]
    check_names("node", names, [node["metadata"]["name"] for node in there])
    nodes = [node for node in there if not names or node["metadata"]["name"] in names]
    if key is None:
        return [label for node in nodes for label in labels(node)]
    having = labels_with(nodes, key)
    lacking = [name for name in names if name not in {label.node for label in having}]
    if lacking:
        close = nearest(key, {label.key for node in nodes for label in labels(node)})
        hint = f"did you mean `{close}`?" if close else f"{NodeLabelsHint(lacking[0])} lists its labels"
        raise NotThere(f"node {', '.join(lacking)}: no label {key}", hint)
    return having


def labels_of_node(session: Session, name: str) -> list[Label] | None:
    """The labels of one node, by a request for that node alone; None when there is none of the name."""
    node = session.get(Key("Node", "", name))
    return None if node is None else labels(node)


def list_gpu_labels(reader: Reader) -> list[NodeState]:
    """All nodes, for their labels about GPUs and their pools: pods are not looked at."""
    if reader.service is not None:
        return reader.service.ask("list-gpu-labels", list[NodeState], reader.scope)
    found = inventory.take(reader.scope, reader.keys, pods=False)
    return read_nodes(found.nodes, None, reader.keys, Gpus(reader.settings))


def list_gpu_types(reader: Reader, names: Sequence[str] = ()) -> list[GpuType]:
    """The types of GPU that nodes have, or those of the names, in either case.

    :raises NotThere: there is none of a name.
    """
    if reader.service is not None:
        return reader.service.ask("list-gpu-types", list[GpuType], reader.scope, names=list(names))
    gpus = Gpus(reader.settings)
    found = inventory.take(reader.scope, reader.keys, gpus=reader.settings.gpu_resources)
    return gpu_types_of(read_nodes(found.nodes, found.pods, reader.keys, gpus, found.devices), names, gpus)


def gpu_types_of(nodes: Iterable[NodeState], names: Sequence[str], gpus: Gpus) -> list[GpuType]:
    """The types of GPU that these nodes have, as :func:`list_gpu_types`."""
    types = gpu_types(nodes, gpus)
    wanted = [name.casefold() for name in names]
    check_names("GPU type", wanted, [item.name.casefold() for item in types])
    return [item for item in types if not wanted or item.name.casefold() in wanted]
