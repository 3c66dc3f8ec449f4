"""``/pools``, changes; for admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends
from fastapi import Path as InPath
from starlette.responses import JSONResponse

from gpuctl.api.admin_models import Administered, ChangedPool, PoolBody
from gpuctl.api.node_label_answers import BatchReport, NodeNames, PoolMembers
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server.changes import admin_changes
from gpuctl_server.changes.admin_documents import AdminBody, pool_of
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.pool_members import add_nodes, remove_nodes
from gpuctl_server.http.request_bodies import body_of, json_body_of, parsed_body
from gpuctl_server.routes.creation_answers import creation_response, dry_run_response
from gpuctl_server.routes.dependencies import NAMES, Names, change_of, names_of, only_dry_run
from gpuctl_server.routes.query_parameters import KeepLabels, Timeout
from gpuctl_server.routes.routers import write_router

router = write_router()
PoolName = Annotated[str, InPath(max_length=253, description="Name of the pool.")]
Body = Annotated[AdminBody, Depends(pool_of)]
members_of = parsed_body(PoolMembers)
nodes_of = parsed_body(NodeNames)
_BODY = body_of(PoolBody, "A document of kind pool.")


@router.post(
    "/pools",
    status_code=201,
    response_model=Administered,
    response_model_exclude_unset=True,
    responses=dry_run_response(Administered),
    openapi_extra=_BODY,
)
def create(
    change: Annotated[ChangeRequest, Depends(change_of("create", "pools", pool_of))],
    body: Body,
) -> JSONResponse:
    """Create a pool, and label its nodes."""
    pool = admin_changes.create_pool(change, body)
    return creation_response(pool, f"/pools/{pool.name}", is_checked=change.dry_run)


@router.put("/pools/{poolName}", response_model=ChangedPool, openapi_extra=_BODY)
def change_pool(
    change: Annotated[ChangeRequest, Depends(change_of("update", "pools", pool_of))],
    poolName: PoolName,  # noqa: N803 - as the path has it
    body: Body,
) -> ChangedPool:
    """Change a pool. Nodes that the body does not name are removed from it."""
    return admin_changes.change_pool(change, poolName, body)


@router.delete("/pools/{poolName}", response_model=Administered, response_model_exclude_unset=True)
def delete(
    change: Annotated[ChangeRequest, Depends(change_of("delete", "pools", only_dry_run))],
    poolName: PoolName,  # noqa: N803
) -> Administered:
    """Delete a pool. Its nodes lose the label, its jobs continue to run."""
    return admin_changes.delete_pool(change, poolName)


@router.post(
    "/pools/{poolName}/nodes/add",
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(PoolMembers),
)
def add(
    change: Annotated[ChangeRequest, Depends(change_of("update", "pools", members_of, confirms=False))],
    poolName: PoolName,  # noqa: N803
    wanted: Annotated[PoolMembers, Depends(members_of)],
) -> dict[str, Any]:
    """Add nodes to a pool. Nodes that fail are listed in `failed`. Running pods stay where they are."""
    report = add_nodes(change, poolName, wanted.node_names, overwrite=wanted.overwrite)
    return BatchReport.of(report, "added", dry_run=change.dry_run).as_json()


@router.post(
    "/pools/{poolName}/nodes/remove",
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(NodeNames),
)
def remove(
    change: Annotated[ChangeRequest, Depends(change_of("update", "pools", nodes_of, confirms=False))],
    poolName: PoolName,  # noqa: N803
    wanted: Annotated[NodeNames, Depends(nodes_of)],
) -> dict[str, Any]:
    """Remove nodes from a pool. Nodes that fail are listed in `failed`. Running pods stay where they are."""
    report = remove_nodes(change, poolName, wanted.node_names)
    return BatchReport.of(report, "removed", dry_run=change.dry_run).as_json()


@router.post("/pools/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_several(
    change: Annotated[ChangeRequest, Depends(change_of("delete", "pools", names_of))],
    body: Names,
    timeout: Timeout = RunOptions.timeout,
    keep_labels: KeepLabels = False,
) -> PlanAnswer:
    """Delete pools. Their nodes lose the label, their jobs continue to run."""
    run = change.run_options(timeout)
    return admin_changes.delete_named(change, "pools", body.names, run, keep_labels=keep_labels)
