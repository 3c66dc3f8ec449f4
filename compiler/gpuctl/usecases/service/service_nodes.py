"""Nodes, pools and labels from the REST API. Unknown fields are ignored.

The models are imported after the first response: they take as long to import as a small response takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpuctl.acts.node_labels import label_key_error
from gpuctl.kube.not_found import no_such
from gpuctl.language.names import is_dns_subdomain
from gpuctl.reading.nodes.label_rows import LabelRow
from gpuctl.usecases.service.service_client import ServiceClient, ServiceRefusal, pages

if TYPE_CHECKING:
    from gpuctl.api.node_answers import GpusOfNode, GpuTypeItem, NodeItem
    from gpuctl.api.node_label_answers import GpuLabels, NodeLabel
    from gpuctl.api.pool_answers import PoolReport

_AT_ONCE = 8


def nodes_of_service(service: ServiceClient, **query: str) -> list[NodeItem]:
    """Return the visible nodes, by name.

    :param query: query parameters of ``GET /nodes``; empty ones are left out.
    """
    with service.reading() as get:
        items = list(chain.from_iterable(pages(get, "/nodes", **query)))
        from gpuctl.api.node_answers import NodeItem

        return list(map(NodeItem.model_validate, items))


def gpus_of_service(service: ServiceClient) -> list[GpusOfNode]:
    """Return the GPUs of all nodes that have any, one by one."""
    with service.reading() as get:
        items = list(chain.from_iterable(pages(get, "/nodes/gpu-detail")))
        from gpuctl.api.node_answers import GpusOfNode

        return list(map(GpusOfNode.model_validate, items))


def gpu_types_of_service(service: ServiceClient) -> list[GpuTypeItem]:
    """Return the GPU types of nodes."""
    with service.reading() as get:
        items = get("/gpu-types")["items"]
        from gpuctl.api.node_answers import GpuTypeItem

        return list(map(GpuTypeItem.model_validate, items))


def gpu_labels_of_service(service: ServiceClient) -> list[GpuLabels]:
    """Return the GPU labels of all nodes."""
    with service.reading() as get:
        items = list(chain.from_iterable(pages(get, "/nodes/labels/all")))
        from gpuctl.api.node_label_answers import GpuLabels

        return [GpuLabels.model_validate({"gpuLabels": [], **item}) for item in items]


def label_of_service(service: ServiceClient, key: str) -> list[NodeLabel]:
    """Return one label of all nodes that have it; [] for an invalid key."""
    if label_key_error(key):
        return []
    with service.reading() as get:
        return _labels(chain.from_iterable(pages(get, "/nodes/labels", key=key)))


def labels_of_service(service: ServiceClient, name: str) -> list[NodeLabel]:
    """Return all labels of one node, by key.

    :raises ClusterError: no visible node has this name.
    """
    with service.reading() as get:
        return _labels(get(f"{node_path(service, name)}/labels")["items"])


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


def pools_of_service(service: ServiceClient, names: Iterable[str]) -> list[PoolReport]:
    """Return pools by name, several requests at a time.

    :raises ClusterError: a pool is not visible.
    """

    def pool(name: str) -> PoolReport:
        with service.reading() as get:
            item = get(f"/pools/{name}")
            from gpuctl.api.pool_answers import PoolReport

            return PoolReport.model_validate({**item, "jobs": item.get("pods"), "waitingJobs": item.get("waitingPods")})

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(pool, names))


def node_path(service: ServiceClient, name: str) -> str:
    """Return the URL path of a node.

    :raises NotThere: the text is not a valid name, so it must not become part of a URL.
    """
    if not is_dns_subdomain(name):
        raise no_such("node", name, (node.name for node in nodes_of_service(service)))
    return f"/nodes/{name}"


def _labels(items: Iterable[dict[str, Any]]) -> list[NodeLabel]:
    found = list(items)
    from gpuctl.api.node_label_answers import NodeLabel

    return list(map(NodeLabel.model_validate, found))
