"""``/quotas``, reads: the quotas of users, and their usage."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path

from gpuctl.api.quota_answers import QuotaList, QuotaOrQuotas, quota_answer
from gpuctl_server.access.caller import Caller
from gpuctl_server.lookups.quota_lookups import find_quotas, visible_quotas
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.routers import from_memory, mirror_router

router = mirror_router()
Reads = Annotated[Caller, Depends(allowed("get", "quotas"))]


@router.get("/quotas", tags=["quotas"], responses={200: {"model": QuotaList}})
@from_memory
def list_of_quotas(service: ServiceOf, caller: Reads) -> dict[str, Any]:
    """List the quotas of the visible namespaces."""
    return QuotaList.of(visible_quotas(service, caller)).as_json()


@router.get("/quotas/{userName}", tags=["quotas"], responses={200: {"model": QuotaOrQuotas}})
@from_memory
def one_quota(
    service: ServiceOf,
    caller: Reads,
    name: Annotated[
        str,
        Path(
            alias="userName",
            max_length=253,
            description="Name of the user, or of a quota document.",
            examples=["elon-musk"],
        ),
    ],
) -> dict[str, Any]:
    """Return the quota of a user and its usage. For the name of a quota document: the quotas of all its users."""
    return quota_answer(find_quotas(service, caller, name)).as_json()
