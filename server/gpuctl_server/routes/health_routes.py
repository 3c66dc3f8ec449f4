"""Whether the service lives, and whether it is of use; and the way to its documentation."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from gpuctl_server.access.caller import Caller
from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.job_lookups import decided
from gpuctl_server.routes.common import BASE, ServiceOf, any_caller, api_router, caller_of
from gpuctl_server.usage_lookups import holders_seen

router = api_router("")


@router.get("/", include_in_schema=False)
async def front_door() -> Response:
    """Whoever opens the address in a browser is led to the documentation."""
    return Response(status_code=307, headers={"Location": f"{BASE}/docs/"})


@router.get("/healthz", include_in_schema=False)
async def healthz() -> dict[str, str]:
    """It answers."""
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
async def readyz(request: Request, service: ServiceOf) -> Response:
    """Whether all lists were read, and how old what is known may be; how much it is only for who sees all of it.

    Whether usage is collected is told, but is no part of it: the service answers all the same.
    """
    mirror, failure = service.mirror, service.mirror.failure
    ready = mirror.ready and service.board.ready
    value: dict[str, Any] = {"ready": ready, "heardSecondsAgo": round(time.monotonic() - mirror.heard_at, 1)}
    if service.collector is not None:
        value["usage"] = {"collecting": service.collector.state()["collecting"]}
    tokens = service.authenticator.check() if isinstance(service.authenticator, ServiceTokenFile) else None
    if tokens is not None:
        # Who was revoked since may still ask: this is for whoever watches the service.
        value["tokensReadable"] = False
    if request.headers.get("authorization") and await _sees_all(await caller_of(request)):
        value |= {
            "objects": dict(mirror.kinds()),
            "leftOut": {"objects": mirror.left_out, "jobs": len(service.board.now().left_out)},
            "problem": tokens if failure is None else failure.message,
        }
        if service.collector is not None:
            value["usage"] = service.collector.state()
    return JSONResponse(value, 200 if ready else 503)


@router.get("/metrics", include_in_schema=False)
async def metrics(service: ServiceOf, caller: Annotated[Caller, Depends(any_caller)]) -> Response:
    """What the service counts of itself, and of the cluster for who sees all of it."""
    text = service.metrics.text(with_objects=await _sees_all(caller))
    if service.collector is not None:
        seen = await decided(caller, partial(holders_seen, service, caller))
        # Another process is asked.
        text += await anyio.to_thread.run_sync(service.collector.metrics, seen)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _sees_all(caller: Caller) -> bool:
    """Return True if a caller may know how much there is in all namespaces and pools."""
    return caller.pools is None and await decided(caller, caller.sees_all)
