"""``/quotas``, changes; for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi import Path as InPath
from starlette.responses import JSONResponse

from gpuctl.api.admin_models import Administered, CreatedQuota, QuotaBody
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server.changes import admin_changes
from gpuctl_server.changes.admin_documents import AdminBody, quota_of
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.http.request_bodies import body_of
from gpuctl_server.routes.creation_answers import creation_response, dry_run_response
from gpuctl_server.routes.dependencies import NAMES, Names, change_of, names_of, only_dry_run
from gpuctl_server.routes.query_parameters import Timeout
from gpuctl_server.routes.routers import write_router

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
    change: Annotated[ChangeRequest, Depends(change_of("create", "quotas", quota_of))],
    body: Annotated[AdminBody, Depends(quota_of)],
) -> JSONResponse:
    """Create quotas of users, and their namespaces."""
    quota = admin_changes.create_quota(change, body)
    return creation_response(quota, f"/quotas/{quota.name}", is_checked=change.dry_run)


@router.delete("/quotas/{userName}", response_model=Administered, response_model_exclude_unset=True)
def delete(
    change: Annotated[ChangeRequest, Depends(change_of("delete", "quotas", only_dry_run))],
    userName: Annotated[str, InPath(max_length=253, description="Name of the user.")],  # noqa: N803 - as the path has it
) -> Administered:
    """Delete the quota of a user. The namespace and its content stay."""
    return admin_changes.delete_quota(change, userName)


@router.post("/quotas/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_several(
    change: Annotated[ChangeRequest, Depends(change_of("delete", "quotas", names_of))],
    body: Names,
    timeout: Timeout = RunOptions.timeout,
) -> PlanAnswer:
    """Delete the quotas of users. The namespaces and their content stay."""
    return admin_changes.delete_named(change, "quotas", body.names, change.run_options(timeout))
