"""``/quotas``, changes; for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi import Path as InPath
from starlette.responses import JSONResponse

from gpuctl.api.admin_models import QuotaBody
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server import admin_changes
from gpuctl_server.admin_changes import AdminBody, Administered, CreatedQuota, quota_of
from gpuctl_server.request_bodies import body_of
from gpuctl_server.routes.common import (
    NAMES,
    Confirm,
    DryRun,
    Names,
    OnlyDryRun,
    Timeout,
    Writer,
    creation_response,
    dry_run_response,
    write_router,
    writer,
)

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
    writer: Annotated[Writer, Depends(writer("create", "quotas"))],
    body: Annotated[AdminBody, Depends(quota_of)],
    confirm: Confirm = False,
    dry_run: DryRun = False,
) -> JSONResponse:
    """Create quotas of users, and their namespaces."""
    change = writer.change(dry_run=dry_run or body.dry_run, confirm=confirm)
    quota = admin_changes.create_quota(change, body)
    return creation_response(quota, f"/quotas/{quota.name}", is_checked=change.dry_run)


@router.delete("/quotas/{userName}", response_model=Administered, response_model_exclude_unset=True)
def delete(
    writer: Annotated[Writer, Depends(writer("delete", "quotas"))],
    userName: Annotated[str, InPath(max_length=253, description="Name of the user.")],  # noqa: N803 - as the path has it
    dry_run: OnlyDryRun,
    confirm: Confirm = False,
) -> Administered:
    """Delete the quota of a user. The namespace and its content stay."""
    return admin_changes.delete_quota(writer.change(dry_run=dry_run, confirm=confirm), userName)


@router.post("/quotas/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_several(
    writer: Annotated[Writer, Depends(writer("delete", "quotas"))],
    body: Names,
    confirm: Confirm = False,
    timeout: Timeout = RunOptions.timeout,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Delete the quotas of users. The namespaces and their content stay."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm, confirmed=body.confirmed)
    return admin_changes.delete_named(change, "quotas", body.names, change.run_options(timeout))
