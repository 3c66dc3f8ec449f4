"""``/nodes``: which there are, what they have, and what of it is taken."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query

from gpuctl.api.node_answers import node_list
from gpuctl.api.node_models import GpuPage, NodeDetail, NodePage
from gpuctl.reading.node_rows import STATUSES
from gpuctl.usecases.node_queries import NodeQuery
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Wish
from gpuctl_server.gpu_use import measured_use
from gpuctl_server.lookups import demand
from gpuctl_server.node_lookups import chosen_nodes, find_node, jobs_of, visible_nodes
from gpuctl_server.node_values import gpu_items, node_value
from gpuctl_server.problems import Problem
from gpuctl_server.routes.common import Page, PageSize, ServiceOf, allowed, api_router, from_memory, page_of

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "nodes"))]
NodeName = Annotated[str, Path(alias="nodeName", max_length=253, description="The node.", examples=["node-1"])]


@router.get("/nodes", tags=["nodes"], responses={200: {"model": NodePage}})
@from_memory
def list_of_nodes(
    service: ServiceOf,
    caller: Reads,
    pool: Annotated[str, Query(max_length=253, description="Nodes of this pool.", examples=["training-pool"])] = "",
    gpu_type: Annotated[
        str,
        Query(
            alias="gpuType",
            max_length=512,
            description="Nodes with this type of GPU, in either case: `a100-80g`, `nvidia.com/a100-80g` or "
            "`KEY=VALUE`; a label's key: nodes that have it.",
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
    page: Page = 1,
    size: PageSize = 20,
    accept: Annotated[
        str,
        Query(
            max_length=63,
            description="Form of the answer, before the header of the name.",
            examples=["application/yaml"],
        ),
    ] = "",
) -> dict[str, Any]:
    """The nodes by name."""
    if status and status.casefold() not in STATUSES:
        raise Problem(400, f"status is one of {', '.join(STATUSES)}")
    if pool:
        demand(caller, Wish("get", "nodes", None, pool))
    found = chosen_nodes(service, caller, NodeQuery((), pool or None, gpu_type or None, status.casefold() or None))
    return {"total": len(found), "items": node_list(page_of(found, page, size))["items"]}


@router.get("/nodes/gpu-detail", tags=["nodes"], responses={200: {"model": GpuPage}})
@from_memory
def gpus_of_nodes(service: ServiceOf, caller: Reads, page: Page = 1, size: PageSize = 20) -> dict[str, Any]:
    """The GPUs of all nodes that have any, one by one.

    Kubernetes counts the GPUs that pods have asked for, and does not say which: `gpuId` is a number, not a device.
    """
    found = [node for node in visible_nodes(service, caller) if node.has_gpus]
    here = page_of(found, page, size)
    return {"total": len(found), "items": gpu_items(here, measured_use(service, (node.name for node in here)))}


@router.get("/nodes/{nodeName}", tags=["nodes"], responses={200: {"model": NodeDetail}})
@from_memory
def one_node(service: ServiceOf, caller: Reads, name: NodeName) -> dict[str, Any]:
    """A node: what it has and what of it is requested, its labels, and of the jobs on it those that may be seen."""
    node = find_node(service, caller, name)
    return node_value(node, jobs_of(service, caller, node.holders), measured_use(service, [name]))
