"""``/audit``: search in the audit, for admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query

from gpuctl.api.audit_models import AuditPage
from gpuctl.api.base_models import LEGAL_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller
from gpuctl_server.audit_query import AuditFilter, read_audit
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import Page, PageSize, page_of, time_of
from gpuctl_server.routes.routers import api_router

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "audit"))]
_ACTION = "HTTP method, or method and path: `DELETE`, `POST /jobs`."
_RESULT = "HTTP status, or name of an error: `201`, `Forbidden`."


@router.get("/audit", responses={200: {"model": AuditPage}})
def audit_lines(
    service: ServiceOf,
    caller: Reads,
    who: Annotated[
        str, Query(alias="caller", max_length=253, description="Name of the caller.", examples=["anna"])
    ] = "",
    action: Annotated[str, Query(max_length=253, description=_ACTION, examples=["POST /jobs"])] = "",
    obj: Annotated[str, Query(alias="object", max_length=253, description="Part of an object's name.")] = "",
    namespace: Annotated[str, Query(max_length=63, description="Namespace of the objects."), LEGAL_NAMESPACE] = "",
    result: Annotated[str, Query(max_length=63, description=_RESULT, examples=["Forbidden"])] = "",
    since: Annotated[str, Query(max_length=64, description="Start, inclusive, RFC 3339.")] = "",
    until: Annotated[str, Query(max_length=64, description="End, exclusive, RFC 3339.")] = "",
    page: Page = 1,
    size: PageSize = 20,
) -> dict[str, Any]:
    """List writes and rejected writes, newest first."""
    wanted = AuditFilter(who, action, obj, namespace, result, time_of("since", since), time_of("until", until))
    try:
        found = read_audit(service.settings.audit, service.audit, wanted)
    except OSError as error:
        raise Problem(503, say("the audit cannot be read: {error}", error=error.strerror)) from None
    items = list(page_of(found.lines, page, size))
    return {
        "total": len(found.lines),
        "items": items,
        "source": found.source,
        "complete": found.complete,
        "leftOut": found.left_out,
    }
