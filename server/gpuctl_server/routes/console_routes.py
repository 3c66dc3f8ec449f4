"""``/`` and ``/console``: the web console, and the session of its browser."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.oidc_login import ATTEMPT_LIFETIME, CodeFlow, LoginAttempt, LoginFailed
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.console.sessions import CALLBACK, SESSION, BrowserSession, TokenTooLong
from gpuctl_server.console.static_files import PAGE, static_files
from gpuctl_server.http.content_negotiation import JSON
from gpuctl_server.http.http_problems import Problem, Route, UnknownPath
from gpuctl_server.http.request_bodies import parsed_body
from gpuctl_server.http.request_middleware import LOGIN
from gpuctl_server.lookups.job_lookups import REVIEWS, check_rights
from gpuctl_server.lookups.usage_lookups import is_collected
from gpuctl_server.routes.dependencies import ServiceOf, caller_with
from gpuctl_server.service_context import Service

router = APIRouter(route_class=Route, include_in_schema=False)

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_FOREVER = "public, max-age=31536000, immutable"
_OWN_SITES = frozenset({"", "none", "same-origin"})
"""Values of ``Sec-Fetch-Site`` of requests that a page of another site cannot have sent."""


class Login(BaseModel):
    """A token of the API."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token: str = Field(min_length=1, max_length=16384)


@router.get("/")
async def page(request: Request) -> Response:
    return _file(request, PAGE, "no-cache")


def _file(request: Request, path: str, kept: str) -> Response:
    found = static_files().files.get(path)
    if found is None:
        raise UnknownPath
    packed = "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{found.tag}{"-gzip" if packed else ""}"'
    headers = {**_HEADERS, "Cache-Control": kept, "ETag": tag, "Vary": "Accept-Encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(found.compressed if packed else found.content, media_type=found.media_type, headers=headers)


@router.post(LOGIN)
async def log_in(
    request: Request, service: ServiceOf, login: Annotated[Login, Depends(parsed_body(Login))]
) -> Response:
    """Begin a session of a token. A page of another site cannot log a browser in."""
    if request.headers.get("sec-fetch-site", "") not in _OWN_SITES:
        raise Problem(403, say("another site cannot log in to the console"))
    # A form of another site cannot have this type.
    if not request.headers.get("content-type", "").startswith(JSON):
        raise Problem(415, say("the body must be {type}", type=JSON))
    session = BrowserSession(login.token.strip())
    response = JSONResponse(await _answer(service, await caller_with(service, session.token), session))
    try:
        service.sessions.begin(session, response)
    except TokenTooLong:
        raise Problem(400, say("the token does not fit into a cookie of the browser"), error="InvalidRequest") from None
    return response


@router.get(LOGIN)
async def current_session(request: Request, service: ServiceOf) -> Response:
    """Return the session of the browser; ``name`` is null without one."""
    session: BrowserSession | None = request.scope.get("state", {}).get(SESSION)
    try:
        caller = None if session is None else await caller_with(service, session.token)
    except Problem:
        # The token was revoked, or has expired.
        caller = None
    if session is None or caller is None:
        return JSONResponse({"name": None, **_login_terms(service)})
    return JSONResponse(await _answer(service, caller, session))


@router.delete(LOGIN)
async def log_out(service: ServiceOf) -> Response:
    response = Response(status_code=204)
    service.sessions.end(response)
    return response


@router.get("/console/oidc/login")
async def log_in_at_provider(service: ServiceOf) -> Response:
    """Send the browser to the provider."""
    flow = _flow(service)
    attempt = LoginAttempt.new()
    response = Response(status_code=303)
    response.headers["Location"] = await anyio.to_thread.run_sync(flow.address, attempt, limiter=REVIEWS)
    service.sessions.begin_attempt(attempt.text(), response, ATTEMPT_LIFETIME)
    return response


@router.get(CALLBACK)
async def logged_in_at_provider(request: Request, service: ServiceOf) -> Response:
    """Begin the session of a user after the login at the provider. The login page shows a failure."""
    flow = _flow(service)
    # Relative, as the console may be below a path.
    response = Response(status_code=303, headers={"Location": "../../"})
    try:
        attempt = LoginAttempt.of(service.sessions.attempt(request.headers.get("cookie", "")))
        if attempt is None:
            raise LoginFailed("expired")
        session = BrowserSession(
            await anyio.to_thread.run_sync(flow.token, attempt, dict(request.query_params), limiter=REVIEWS)
        )
        await caller_with(service, session.token)
        service.sessions.begin(session, response)
    except LoginFailed as error:
        response.headers["Location"] = f"../../#/?problem={error}"
    except (Problem, TokenTooLong):
        response.headers["Location"] = "../../#/?problem=token"
    service.sessions.begin_attempt("", response, 0)
    return response


@router.get("/console/{digest}/{path:path}")
async def file(request: Request, digest: str, path: str) -> Response:
    """Return a file of the console. Pages that were loaded before an upgrade have another digest.

    The route is the last one, because it matches the paths of the others.
    """
    is_current = digest == static_files().digest
    return _file(request, path, _FOREVER if is_current else "no-store")


def _flow(service: Service) -> CodeFlow:
    """Return the client of the provider.

    :raises UnknownPath: users enter tokens.
    """
    if service.code_flow is None:
        raise UnknownPath
    return service.code_flow


async def _answer(service: Service, caller: Caller, session: BrowserSession) -> dict[str, Any]:
    return {
        "name": caller.name,
        "csrf": session.csrf,
        **_login_terms(service),
        # What the service cannot answer, the pages do not ask for.
        "usage": service.settings.usage_database is not None,
        "collected": await anyio.to_thread.run_sync(is_collected, service, limiter=service.reads),
        "metrics": service.prometheus is not None,
        "audit": await check_rights(caller, lambda: caller.may(AccessRequest("get", "audit")).allowed),
        "namespaces": _listed(caller.namespaces),
        "pools": _listed(caller.pools),
    }


def _login_terms(service: Service) -> dict[str, Any]:
    """Return what the login page needs, also after the session has ended."""
    return {"auth": service.settings.auth, "provider": service.code_flow is not None}


def _listed(values: Any) -> list[str] | None:
    return None if values is None else sorted(values)
