"""``/pools``, reads: pools, their allocation and jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query

from gpuctl.api.pool_answers import PoolDetail, PoolItem, PoolList
from gpuctl_server.access.caller import Caller
from gpuctl_server.lookups.node_details import pool_detail
from gpuctl_server.lookups.node_lookups import find_pool, visible_pools
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.routers import from_memory, mirror_router

router = mirror_router()
Reads = Annotated[Caller, Depends(allowed("get", "pools"))]


@router.get("/pools", tags=["pools"], responses={200: {"model": PoolList}})
@from_memory
def list_of_pools(service: ServiceOf, caller: Reads) -> dict[str, Any]:
    """List the visible pools, by name. `default` has the nodes that are in no other pool."""
    pools = visible_pools(service, caller)
    return {"total": len(pools), "items": [PoolItem.model_validate(pool).as_json() for pool in pools]}


@router.get("/pools/{poolName}", tags=["pools"], responses={200: {"model": PoolDetail}})
@from_memory
def one_pool(
    service: ServiceOf,
    caller: Reads,
    name: Annotated[
        str, Path(alias="poolName", max_length=253, description="Name of the pool.", examples=["training-pool"])
    ],
    jobs: Annotated[
        bool, Query(description="False: jobs and pods are null. `GET /jobs?pool=` lists the jobs in pages.")
    ] = True,
) -> dict[str, Any]:
    """Return a pool: its nodes, its GPUs by type, and the visible jobs in it."""
    return pool_detail(service, caller, find_pool(service, caller, name), with_jobs=jobs).as_json()
