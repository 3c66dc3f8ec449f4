"""``/pools``, what changes them: for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as InPath

from gpuctl_server import administering
from gpuctl_server.access.caller import Caller
from gpuctl_server.administering import Administered, ChangedPool, Given, PoolBody, pool_of
from gpuctl_server.routes.common import Confirm, ServiceOf, allowed, touched_by, write_router
from gpuctl_server.submissions import body_of

router = write_router()
PoolName = Annotated[str, InPath(max_length=253)]
Body = Annotated[Given, Depends(pool_of)]
_BODY = body_of(PoolBody, "A document of kind pool.")


@router.post("/pools", status_code=201, response_model=Administered, openapi_extra=_BODY)
def create(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("create", "pools"))],
    body: Body,
    confirm: Confirm = False,
) -> Administered:
    """Create a pool, and label its nodes."""
    return administering.create_pool(service, caller, body, touched_by(request), confirmed=confirm)


@router.put("/pools/{poolName}", response_model=ChangedPool, openapi_extra=_BODY)
def change(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("update", "pools"))],
    poolName: PoolName,  # noqa: N803 - as the path has it
    body: Body,
    confirm: Confirm = False,
) -> ChangedPool:
    """Change a pool: nodes that it no longer names leave it."""
    return administering.change_pool(service, caller, poolName, body, touched_by(request), confirmed=confirm)


@router.delete("/pools/{poolName}", response_model=Administered)
def delete(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("delete", "pools"))],
    poolName: PoolName,  # noqa: N803
    confirm: Confirm = False,
) -> Administered:
    """Delete a pool; its nodes lose its label, its jobs go on running."""
    return administering.delete_pool(service, caller, poolName, touched_by(request), confirmed=confirm)
