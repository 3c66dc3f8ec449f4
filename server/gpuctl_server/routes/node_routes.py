"""``/nodes`` and ``/gpu-types``: nodes, their capacity and allocation."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query

from gpuctl.api.node_answers import GpuPage, GpuTypeItem, GpuTypeList, NodeDetail, NodeItem, NodePage
from gpuctl.reading.nodes.gpu_type_rows import gpu_types
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import STATUSES
from gpuctl.usecases.queries.node_queries import NodeQuery
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.lookups import node_details
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.lookups.node_lookups import chosen_nodes, find_node, visible_nodes
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import LEGAL_SELECTOR, Page, PageSize, page_of, paged, unknown_value
from gpuctl_server.routes.routers import from_memory, mirror_router

router = mirror_router()
Reads = Annotated[Caller, Depends(allowed("get", "nodes"))]
NodeName = Annotated[str, Path(alias="nodeName", max_length=253, description="Name of the node.", examples=["node-1"])]


@router.get("/nodes", tags=["nodes"], responses={200: {"model": NodePage}})
@from_memory
def list_of_nodes(
    service: ServiceOf,
    caller: Reads,
    pool: Annotated[
        str, Query(max_length=253, description="Only nodes of this pool.", examples=["training-pool"])
    ] = "",
    gpu_type: Annotated[
        str,
        Query(
            alias="gpuType",
            max_length=512,
            description="Only nodes with this GPU type, case-insensitive: `a100-80g`, `nvidia.com/a100-80g` or "
            "`KEY=VALUE`. The key of a label: nodes that have the label.",
            examples=["a100-80g"],
        ),
    ] = "",
    status: Annotated[
        str,
        Query(
            max_length=63,
            description="`active`; `maintaining`: cordoned; `faulty`: not ready.",
            examples=["active"],
        ),
    ] = "",
    selector: Annotated[
        str,
        Query(
            max_length=4096, description="Label selector, in the syntax of `kubectl -l`.", examples=["zone=a,disk!=hdd"]
        ),
        LEGAL_SELECTOR,
    ] = "",
    page: Page = 1,
    size: PageSize = 20,
    accept: Annotated[
        str,
        Query(
            max_length=63,
            description="Media type of the answer; takes precedence over the header Accept.",
            examples=["application/yaml"],
        ),
    ] = "",
) -> dict[str, Any]:
    """List the visible nodes, by name."""
    if status and status.casefold() not in STATUSES:
        raise unknown_value("status", status, STATUSES)
    if pool:
        require_access(caller, AccessRequest("get", "nodes", None, pool))
    query = NodeQuery((), pool or None, gpu_type or None, status.casefold() or None, selector)
    found = chosen_nodes(service, caller, query)
    return paged(found, page, size, lambda node: NodeItem.model_validate(node).as_json())


@router.get("/nodes/gpu-detail", tags=["nodes"], responses={200: {"model": GpuPage}})
@from_memory
def gpus_of_nodes(service: ServiceOf, caller: Reads, page: Page = 1, size: PageSize = 20) -> dict[str, Any]:
    """List the GPUs of all nodes one by one.

    Kubernetes counts the GPUs that pods request, but does not record which devices: `gpuId` is a number, not a device.
    """
    found = [node for node in visible_nodes(service, caller) if node.has_gpus]
    items = node_details.gpus_of_nodes(service, page_of(found, page, size))
    return {"total": len(found), "items": [item.as_json() for item in items]}


@router.get("/gpu-types", tags=["nodes"], responses={200: {"model": GpuTypeList}})
@from_memory
def types_of_gpus(service: ServiceOf, caller: Reads) -> dict[str, Any]:
    """List the GPU types of the nodes, with their number of GPUs and their nodes."""
    types = gpu_types(visible_nodes(service, caller), PlatformGpus(service.platform))
    return {"total": len(types), "items": [GpuTypeItem.model_validate(item).as_json() for item in types]}


@router.get("/nodes/{nodeName}", tags=["nodes"], responses={200: {"model": NodeDetail}})
@from_memory
def one_node(service: ServiceOf, caller: Reads, name: NodeName) -> dict[str, Any]:
    """Return a node: capacity, requests, labels, and the visible jobs on it."""
    return node_details.node_detail(service, caller, find_node(service, caller, name)).as_json()
