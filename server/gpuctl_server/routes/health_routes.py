"""Liveness, readiness and metrics of the service, and a redirect to its documentation."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.http.http_problems import forbidden
from gpuctl_server.lookups.job_lookups import check_rights
from gpuctl_server.lookups.usage_lookups import visible_holders
from gpuctl_server.routes.dependencies import ServiceOf, any_caller, caller_of
from gpuctl_server.routes.routers import api_router

router = api_router("")
_MINUTE = 60


@router.get("/healthz", include_in_schema=False)
async def healthz() -> dict[str, str]:
    """Return 200 while the process answers requests."""
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
async def readyz(request: Request, service: ServiceOf) -> Response:
    """Return 200 if all lists were read and are watched, else 503. Details are only for callers who see all namespaces.

    The state of the usage collector is included, but does not influence readiness.
    """
    mirror, interruption = service.mirror, service.mirror.interruption
    ready = mirror.ready and service.board.ready
    # Seconds would show to everyone when an object changes that they may not see.
    ago = time.monotonic() - mirror.updated_at
    value: dict[str, Any] = {"ready": ready, "heardSecondsAgo": ago // _MINUTE * _MINUTE}
    if service.collector is not None:
        value["usage"] = {"collecting": service.collector.state()["collecting"]}
    tokens = service.authenticator.check() if isinstance(service.authenticator, ServiceTokenFile) else None
    if tokens is not None:
        # Revoked tokens may still be accepted: monitoring must be able to see this without a token.
        value["tokensReadable"] = False
    if request.headers.get("authorization") and await _sees_all(await caller_of(request)):
        value |= {
            "heardSecondsAgo": round(ago, 1),
            "objects": dict(mirror.kinds()),
            "leftOut": {"objects": mirror.left_out, "jobs": len(service.board.now().left_out)},
            "problem": tokens if interruption is None else interruption.message,
        }
        if service.collector is not None:
            value["usage"] = service.collector.state()
    return JSONResponse(value, 200 if ready else 503)


@router.get("/metrics", include_in_schema=False)
async def metrics(service: ServiceOf, caller: Annotated[Caller, Depends(any_caller)]) -> Response:
    """Return metrics of the service for Prometheus: they count requests and objects of all namespaces.

    :raises Problem: 403.
    """
    scrapes = await check_rights(caller, caller.may_scrape)
    if not scrapes and not await _sees_all(caller):
        raise forbidden(say("this needs a token of the role metrics, or one for all namespaces and pools"))
    text = service.metrics.text()
    if service.collector is not None:
        seen = None if scrapes else await check_rights(caller, partial(visible_holders, service, caller))
        # The answer comes from another process.
        text += await anyio.to_thread.run_sync(service.collector.metrics, seen)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _sees_all(caller: Caller) -> bool:
    """Return True if a caller may know the number of objects in all namespaces and pools."""
    return caller.pools is None and await check_rights(caller, caller.sees_all)
