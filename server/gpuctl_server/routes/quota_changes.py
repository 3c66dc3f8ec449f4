"""``/quotas``, what changes them: for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as InPath

from gpuctl_server import administering
from gpuctl_server.access.caller import Caller
from gpuctl_server.administering import Administered, CreatedQuota, Given, QuotaBody, quota_of
from gpuctl_server.routes.common import Confirm, ServiceOf, allowed, touched_by, write_router
from gpuctl_server.submissions import body_of

router = write_router()


@router.post(
    "/quotas",
    status_code=201,
    response_model=CreatedQuota,
    openapi_extra=body_of(QuotaBody, "A document of kind quota."),
)
def create(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("create", "quotas"))],
    body: Annotated[Given, Depends(quota_of)],
    confirm: Confirm = False,
) -> CreatedQuota:
    """Create quotas of users, with their namespaces."""
    return administering.create_quota(service, caller, body, touched_by(request), confirmed=confirm)


@router.delete("/quotas/{userName}", response_model=Administered)
def delete(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("delete", "quotas"))],
    userName: Annotated[str, InPath(max_length=253)],  # noqa: N803 - as the path has it
    confirm: Confirm = False,
) -> Administered:
    """Delete the quota of a user; the namespace, and all that is in it, stays."""
    return administering.delete_quota(service, caller, userName, touched_by(request), confirmed=confirm)
