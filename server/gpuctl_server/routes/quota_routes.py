"""``/quotas``: what users may request, and what of it they do."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path

from gpuctl.api.quota_answers import QuotaList, QuotaOrQuotas, quota_answer
from gpuctl_server.access.caller import Caller
from gpuctl_server.quota_lookups import find_quotas, visible_quotas
from gpuctl_server.routes.common import ServiceOf, allowed, api_router, from_memory

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "quotas"))]


@router.get("/quotas", tags=["quotas"], responses={200: {"model": QuotaList}})
@from_memory
def list_of_quotas(service: ServiceOf, caller: Reads) -> dict[str, Any]:
    """The quotas of the namespaces that may be seen."""
    return QuotaList.of(visible_quotas(service, caller)).as_json()


@router.get("/quotas/{userName}", tags=["quotas"], responses={200: {"model": QuotaOrQuotas}})
@from_memory
def one_quota(
    service: ServiceOf,
    caller: Reads,
    name: Annotated[str, Path(alias="userName", max_length=253, description="The user.", examples=["elon-musk"])],
) -> dict[str, Any]:
    """The quota of a user, and how much of it is used; by the name of a quota's document, those of all its users."""
    return quota_answer(find_quotas(service, caller, name)).as_json()
