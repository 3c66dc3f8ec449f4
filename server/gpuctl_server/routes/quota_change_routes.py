"""``/quotas``, changes; for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as InPath
from starlette.responses import JSONResponse

from gpuctl.api.admin_models import QuotaBody
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server import admin_changes
from gpuctl_server.access.caller import Caller
from gpuctl_server.admin_changes import AdminBody, Administered, AdminOptions, CreatedQuota, quota_of
from gpuctl_server.plan_runs import Confirmation
from gpuctl_server.routes.common import (
    NAMES,
    Confirm,
    DryRun,
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
from gpuctl_server.submissions import body_of

router = write_router()


@router.post(
    "/quotas",
    status_code=201,
    response_model=CreatedQuota,
    response_model_exclude_unset=True,
    responses=dry_run_response(CreatedQuota),
    openapi_extra=body_of(QuotaBody, "A document of kind quota."),
)
def create(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("create", "quotas"))],
    body: Annotated[AdminBody, Depends(quota_of)],
    confirm: Confirm = False,
    dry_run: DryRun = False,
) -> JSONResponse:
    """Create quotas of users, and their namespaces."""
    options = AdminOptions(confirm, dry_run or body.dry_run)
    quota = admin_changes.create_quota(service, caller, body, touched_by(request, preview=options.dry_run), options)
    return creation_response(quota, f"/quotas/{quota.name}", is_checked=options.dry_run)


@router.delete("/quotas/{userName}", response_model=Administered, response_model_exclude_unset=True)
def delete(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("delete", "quotas"))],
    userName: Annotated[str, InPath(max_length=253, description="Name of the user.")],  # noqa: N803 - as the path has it
    dry_run: OnlyDryRun,
    confirm: Confirm = False,
) -> Administered:
    """Delete the quota of a user. The namespace and its content stay."""
    touched = touched_by(request, preview=dry_run)
    return admin_changes.delete_quota(service, caller, userName, touched, AdminOptions(confirm, dry_run))


@router.post("/quotas/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_several(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("delete", "quotas"))],
    body: Names,
    confirm: Confirm = False,
    timeout: Timeout = RunOptions.timeout,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Delete the quotas of users. The namespaces and their content stay."""
    only_look = body.dryRun or dry_run
    run, touched = bounded_run(timeout, dry_run=only_look), touched_by(request, preview=only_look)
    confirmation = Confirmation(confirm, body.confirmed)
    return admin_changes.delete_named(service, caller, "quotas", body.names, run, confirmation, touched)
