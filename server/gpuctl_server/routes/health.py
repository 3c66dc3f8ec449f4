"""Whether the service lives, and whether it is of use."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Depends
from starlette.responses import JSONResponse, Response

from gpuctl_server.routes.common import ServiceOf, api_router, caller_of

router = api_router("")


@router.get("/healthz", include_in_schema=False)
async def healthz() -> dict[str, str]:
    """It answers."""
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
async def readyz(service: ServiceOf) -> Response:
    """Whether all lists were read; how old what is known may be."""
    mirror, failure = service.mirror, service.mirror.failure
    ready = mirror.ready and service.board.ready
    value: dict[str, Any] = {
        "ready": ready,
        "heardSecondsAgo": round(time.monotonic() - mirror.heard_at, 1),
        "objects": dict(mirror.kinds()),
        "leftOut": {"objects": mirror.left_out, "jobs": len(service.board.now().left_out)},
        "problem": None if failure is None else failure.message,
    }
    return JSONResponse(value, 200 if ready else 503)


@router.get("/metrics", include_in_schema=False, dependencies=[Depends(caller_of)])
def metrics(service: ServiceOf) -> Response:
    """What the service counts of itself. It takes a token, as everything does that tells of the cluster."""
    return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
