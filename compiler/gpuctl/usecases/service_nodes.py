"""Nodes, pools and labels from the REST API. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

from gpuctl.acts.node_labels import label_key_error
from gpuctl.kube.not_found import no_such
from gpuctl.language.names import is_dns_subdomain
from gpuctl.reading.label_rows import GpuLabelRow, GpuType, LabelRow
from gpuctl.reading.node_rows import GpuOnNode, NodeGpus, NodeRow, PodOnNode
from gpuctl.reading.pool_rows import PoolFacts
from gpuctl.usecases.service_client import ServiceClient, ServiceRefusal, pages

Item = Mapping[str, Any]
Row = TypeVar("Row")
_AT_ONCE = 8


def nodes_of_service(service: ServiceClient, **query: str) -> list[NodeRow]:
    """Return the visible nodes, by name.

    :param query: query parameters of ``GET /nodes``; empty ones are left out.
    """
    return _all(service, "/nodes", _node, **query)


def gpus_of_service(service: ServiceClient) -> list[NodeGpus]:
    """Return the GPUs of all nodes that have any, one by one."""
    return _all(service, "/nodes/gpu-detail", _gpus)


def gpu_types_of_service(service: ServiceClient) -> list[GpuType]:
    """Return the GPU types of nodes."""
    with service.reading() as get:
        return [
            GpuType(
                item["gpuType"],
                tuple(item.get("vendors") or ()),
                int(item["gpuTotal"]),
                item.get("gpuUsed"),
                item.get("gpuFree"),
                tuple(item["nodes"]),
                tuple(item.get("boundPools") or ()),
            )
            for item in get("/gpu-types")["items"]
        ]


def gpu_labels_of_service(service: ServiceClient) -> list[GpuLabelRow]:
    """Return the GPU labels of all nodes."""
    return _all(service, "/nodes/labels/all", _gpu_labels)


def label_of_service(service: ServiceClient, key: str) -> list[LabelRow]:
    """Return one label of all nodes that have it; [] for an invalid key."""
    return [] if label_key_error(key) else _all(service, "/nodes/labels", _label, key=key)


def labels_of_service(service: ServiceClient, name: str) -> list[LabelRow]:
    """Return all labels of one node, by key.

    :raises ClusterError: no visible node has this name.
    """
    with service.reading() as get:
        return [_label(item) for item in get(f"{node_path(service, name)}/labels")["items"]]


def dated_label_of_service(service: ServiceClient, name: str, key: str) -> LabelRow | None:
    """Return one label of one node with its times; None if the node lacks it.

    :raises ClusterError: no visible node has this name.
    """
    if label_key_error(key):
        return None
    try:
        with service.reading() as get:
            label = get(f"{node_path(service, name)}/labels/{key}")["label"]
            return LabelRow(name, label["key"], label["value"], label.get("createdAt"), label.get("lastUpdatedAt"))
    except ServiceRefusal as error:
        if error.name == "LabelNotFound":
            return None
        raise


def pool_names_of_service(service: ServiceClient) -> list[str]:
    """Return the names of the visible pools, ``default`` last."""
    with service.reading() as get:
        return [str(item["name"]) for item in get("/pools")["items"]]


def pools_of_service(service: ServiceClient, names: Iterable[str]) -> list[PoolFacts]:
    """Return pools by name, several requests at a time.

    :raises ClusterError: a pool is not visible.
    """

    def pool(name: str) -> PoolFacts:
        with service.reading() as get:
            return _pool(get(f"/pools/{name}"))

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(pool, names))


def node_path(service: ServiceClient, name: str) -> str:
    """Return the URL path of a node.

    :raises NotThere: the text is not a valid name, so it must not become part of a URL.
    """
    if not is_dns_subdomain(name):
        raise no_such("node", name, (node.name for node in nodes_of_service(service)))
    return f"/nodes/{name}"


def holders(items: Iterable[Item] | None) -> tuple[PodOnNode, ...] | None:
    """Return pods that hold or wait for resources; None if the service does not return them."""
    if items is None:
        return None
    return tuple(
        PodOnNode(
            item["pod"],
            item["name"],
            item["namespace"],
            item.get("kind"),
            int(item["gpu"]),
            item.get("nodeName"),
            None,
        )
        for item in items
    )


def _all(service: ServiceClient, path: str, row: Callable[[Item], Row], **query: str) -> list[Row]:
    with service.reading() as get:
        return list(map(row, chain.from_iterable(pages(get, path, **query))))


def _node(item: Item) -> NodeRow:
    return NodeRow(
        item["nodeName"],
        item["status"],
        _first(item),
        item.get("gpuType"),
        int(item["gpuTotal"]),
        item.get("gpuUsed"),
        item.get("gpuFree"),
        item["cpu"],
        item["memory"],
        item.get("createdAt"),
        item.get("address"),
        item.get("k8sState") or "",
    )


def _gpus(item: Item) -> NodeGpus:
    gpus = [
        GpuOnNode(gpu["gpuId"], gpu.get("type"), gpu["status"], gpu.get("utilization"), gpu.get("memoryUsage"))
        for gpu in item["gpus"]
    ]
    return NodeGpus(item["nodeName"], int(item["gpuCount"]), gpus)


def _gpu_labels(item: Item) -> GpuLabelRow:
    labels = {label["key"]: label["value"] for label in item.get("gpuLabels") or ()}
    return GpuLabelRow(item["nodeName"], labels, item.get("gpuType"), _first(item))


def _label(item: Item) -> LabelRow:
    return LabelRow(item["nodeName"], item["labelKey"], item["labelValue"], None, None)


def _pool(item: Item) -> PoolFacts:
    quota = item.get("quota") or {}
    return PoolFacts(
        item["name"],
        item.get("description"),
        item["status"],
        int(item["gpuTotal"]),
        item.get("gpuUsed"),
        item.get("gpuFree"),
        item.get("gpuUnavailable"),
        item["gpuType"],
        item["nodes"],
        quota.get("maxJobs"),
        quota.get("maxGpuPerJob"),
        holders(item.get("pods")),
        item.get("missingNodes") or [],
        holders(item.get("waitingPods")),
        bool(item.get("isDefined", True)),
    )


def _first(item: Item) -> str:
    return str(item["boundPools"][0])
