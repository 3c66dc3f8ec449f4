"""Whether the service lives, and whether it is of use."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from gpuctl_server.lookups import decided
from gpuctl_server.problems import forbidden
from gpuctl_server.routes.common import ServiceOf, api_router, caller_of

router = api_router("")


@router.get("/healthz", include_in_schema=False)
async def healthz() -> dict[str, str]:
    """It answers."""
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
async def readyz(request: Request, service: ServiceOf) -> Response:
    """Whether all lists were read, and how old what is known may be; how much it is only for who sees all of it."""
    mirror, failure = service.mirror, service.mirror.failure
    ready = mirror.ready and service.board.ready
    value: dict[str, Any] = {"ready": ready, "heardSecondsAgo": round(time.monotonic() - mirror.heard_at, 1)}
    if request.headers.get("authorization"):
        await _of_everything(request)
        value |= {
            "objects": dict(mirror.kinds()),
            "leftOut": {"objects": mirror.left_out, "jobs": len(service.board.now().left_out)},
            "problem": None if failure is None else failure.message,
        }
    return JSONResponse(value, 200 if ready else 503)


async def _of_everything(request: Request) -> None:
    """See that whoever asks may know how much there is in all namespaces.

    :raises Problem: 401, 403.
    """
    caller = await caller_of(request)
    if not await decided(caller, caller.sees_all):
        raise forbidden(f"{caller.name} may not see all namespaces, which these numbers are of")


@router.get("/metrics", include_in_schema=False, dependencies=[Depends(_of_everything)])
def metrics(service: ServiceOf) -> Response:
    """What the service counts of itself. It takes a token that is for all namespaces: so are the counts."""
    return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
