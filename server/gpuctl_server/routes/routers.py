"""Routers and their route classes: answers from memory, writes with an audit, and the threads that routes run in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuctl.language.sentences import say
from gpuctl_server.access.rights import Rights
from gpuctl_server.access.tokens import ServiceTokenFile, bearer
from gpuctl_server.audit import INTERRUPTED, AuditTrail, audit
from gpuctl_server.http.content_negotiation import JSON, wants_yaml
from gpuctl_server.http.http_problems import Problem, Route
from gpuctl_server.service_context import Service

BASE = "/api/v1"
Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def _dated(handle: Handler) -> Handler:
    """Return a handler that adds the header ``Age`` (RFC 9111) to answers while lists are not being watched. It has the
    seconds since the mirror was current.
    """

    async def dated(request: Request) -> Response:
        response = await handle(request)
        age = request.app.state.service.mirror.age
        if age is not None and request.method == "GET" and response.status_code < 400:
            response.headers["Age"] = str(int(age))
        return response

    return dated


class MirrorRoute(Route):
    """A route that reads from the mirror."""

    def get_route_handler(self) -> Handler:
        return _dated(super().get_route_handler())


class CachedRoute(Route):
    """A route that answers from memory while :meth:`Service.cache_version` and the rights are unchanged.

    For a repeated request, parsing the parameters would take most of the time.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def remembering(request: Request) -> Response:
            service: Service = request.app.state.service
            rights = _known_rights(service, request)
            if rights is None or wants_yaml(request):
                return await handle(request)
            question = (rights, request.scope["path"], request.scope["query_string"])
            version = service.cache_version()
            body = service.response_cache.find(question, version)
            if body is not None:
                return Response(body, media_type=JSON)
            response = await handle(request)
            if response.status_code == 200 and not hasattr(request.state, "error"):
                service.response_cache.keep(question, version, bytes(response.body))
            return response

        return _dated(remembering)


def _known_rights(service: Service, request: Request) -> Rights | None:
    """Return the rights of a valid token if they are known without a request to the API server, else None."""
    if not isinstance(service.authenticator, ServiceTokenFile):
        return None
    token = bearer(request.headers.get("authorization", ""))
    caller = service.authenticator.caller(token) if token else None
    return None if caller is None else caller.rights


def cached_router() -> APIRouter:
    """Return a router whose routes answer from memory."""
    return APIRouter(prefix=BASE, route_class=CachedRoute)


def mirror_router() -> APIRouter:
    """Return a router whose routes read from the mirror."""
    return APIRouter(prefix=BASE, route_class=MirrorRoute)


def api_router(base: str = BASE) -> APIRouter:
    """Return a router with the error form of the service."""
    return APIRouter(prefix=base, route_class=Route)


class WriteRoute(Route):
    """A route that writes. The result of each request is added to the audit."""

    is_write = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def noted(request: Request) -> Response:
            result = INTERRUPTED
            try:
                response = await handle(request)
                result = getattr(request.state, "error", str(response.status_code))
                return response
            finally:
                if not getattr(request.state, "preview", False) or result != "200":
                    caller = getattr(request.state, "caller", None)
                    trail: AuditTrail | None = getattr(request.state, "touched", None)
                    objects = trail or list(map(str, request.path_params.values()))
                    name = "" if caller is None else caller.name
                    audit(name, action_of(request), objects, result, "" if trail is None else trail.write)

        return noted


def write_router() -> APIRouter:
    """Return a router whose routes write."""
    return APIRouter(prefix=BASE, route_class=WriteRoute)


def from_memory(function: Callable[Parameters, Item]) -> Callable[Parameters, Coroutine[Any, Any, Item]]:
    """Run a route in the threads for reads from memory, so that requests to a slow API server cannot block it."""

    @functools.wraps(function)
    async def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Item:
        service = named["service"]
        assert isinstance(service, Service)
        limiter = service.reads
        return await anyio.to_thread.run_sync(functools.partial(function, *arguments, **named), limiter=limiter)

    # The annotations refer to names in the module of the route. Some versions of FastAPI do not look there.
    run.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return run


async def run_waiting(service: Service, function: Callable[..., Item], *arguments: Any) -> Item:
    """Run a function that waits for jobs, in its own thread. The number of these threads is limited.

    :raises Problem: 429 at the limit.
    """
    if service.waits.available_tokens < 1:
        raise Problem(
            429,
            say(
                "{number} requests wait for jobs, which is the limit; try again in a moment",
                number=int(service.waits.total_tokens),
            ),
        )
    return await anyio.to_thread.run_sync(function, *arguments, limiter=service.waits)


def action_of(request: Request) -> str:
    """Return the action of a write as the audit names it: method and path of its route."""
    return f"{request.method} {request.scope['route'].path_format}"
