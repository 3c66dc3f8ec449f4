"""``/pools``, changes; for admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import Path as InPath
from starlette.responses import JSONResponse

from gpuctl.api.admin_models import PoolBody
from gpuctl.api.node_label_answers import BatchReport, NodeNames, PoolMembers
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server import admin_changes
from gpuctl_server.access.caller import Caller
from gpuctl_server.admin_changes import AdminBody, Administered, AdminOptions, ChangedPool, pool_of
from gpuctl_server.plan_responses import NOTHING
from gpuctl_server.plan_runs import Confirmation
from gpuctl_server.pool_members import add_nodes, remove_nodes
from gpuctl_server.routes.common import (
    NAMES,
    Confirm,
    DryRun,
    KeepLabels,
    Names,
    OnlyDryRun,
    ServiceOf,
    Timeout,
    allowed,
    bounded_run,
    creation_response,
    dry_run_response,
    touched_by,
    write_router,
)
from gpuctl_server.submissions import body_of, json_body_of, parsed_body

router = write_router()
PoolName = Annotated[str, InPath(max_length=253, description="Name of the pool.")]
Body = Annotated[AdminBody, Depends(pool_of)]
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
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("create", "pools"))],
    body: Body,
    confirm: Confirm = False,
    dry_run: DryRun = False,
) -> JSONResponse:
    """Create a pool, and label its nodes."""
    options = AdminOptions(confirm, dry_run or body.dry_run)
    pool = admin_changes.create_pool(service, caller, body, touched_by(request, preview=options.dry_run), options)
    return creation_response(pool, f"/pools/{pool.name}", is_checked=options.dry_run)


@router.put("/pools/{poolName}", response_model=ChangedPool, openapi_extra=_BODY)
def change(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("update", "pools"))],
    poolName: PoolName,  # noqa: N803 - as the path has it
    body: Body,
    confirm: Confirm = False,
    dry_run: DryRun = False,
) -> ChangedPool:
    """Change a pool. Nodes that the body does not name are removed from it."""
    options = AdminOptions(confirm, dry_run or body.dry_run)
    touched = touched_by(request, preview=options.dry_run)
    return admin_changes.change_pool(service, caller, poolName, body, touched, options)


@router.delete("/pools/{poolName}", response_model=Administered, response_model_exclude_unset=True)
def delete(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("delete", "pools"))],
    poolName: PoolName,  # noqa: N803
    dry_run: OnlyDryRun,
    confirm: Confirm = False,
) -> Administered:
    """Delete a pool. Its nodes lose the label, its jobs continue to run."""
    touched = touched_by(request, preview=dry_run)
    return admin_changes.delete_pool(service, caller, poolName, touched, AdminOptions(confirm, dry_run))


@router.post(
    "/pools/{poolName}/nodes/add",
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(PoolMembers),
)
def add(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("update", "pools"))],
    poolName: PoolName,  # noqa: N803
    wanted: Annotated[PoolMembers, Depends(parsed_body(PoolMembers))],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Add nodes to a pool. Nodes that fail are listed in `failed`. Running pods stay where they are."""
    dry_run = dry_run or wanted.dry_run
    touched = touched_by(request, preview=dry_run)
    names, overwrite = wanted.node_names, wanted.overwrite
    report = add_nodes(service, caller, poolName, names, touched, overwrite=overwrite, dry_run=dry_run)
    return BatchReport.of(report, f"would be added; {NOTHING} (dry run)" if dry_run else "added").as_json()


@router.post(
    "/pools/{poolName}/nodes/remove",
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(NodeNames),
)
def remove(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("update", "pools"))],
    poolName: PoolName,  # noqa: N803
    wanted: Annotated[NodeNames, Depends(parsed_body(NodeNames))],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Remove nodes from a pool. Nodes that fail are listed in `failed`. Running pods stay where they are."""
    dry_run = dry_run or wanted.dry_run
    touched = touched_by(request, preview=dry_run)
    report = remove_nodes(service, caller, poolName, wanted.node_names, touched, dry_run=dry_run)
    return BatchReport.of(report, f"would be removed; {NOTHING} (dry run)" if dry_run else "removed").as_json()


@router.post("/pools/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_several(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("delete", "pools"))],
    body: Names,
    confirm: Confirm = False,
    timeout: Timeout = RunOptions.timeout,
    keep_labels: KeepLabels = False,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Delete pools. Their nodes lose the label, their jobs continue to run."""
    only_look = body.dryRun or dry_run
    run, touched = bounded_run(timeout, dry_run=only_look), touched_by(request, preview=only_look)
    confirmation = Confirmation(confirm, body.confirmed)
    return admin_changes.delete_named(
        service, caller, "pools", body.names, run, confirmation, touched, keep_labels=keep_labels
    )
