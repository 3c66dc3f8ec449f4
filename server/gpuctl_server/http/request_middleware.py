"""The middleware of all requests: id, language, form of hints, limits on bodies and concurrency, log line and
metrics.
"""

from __future__ import annotations

import shlex
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuctl.hints import Surface, set_request_surface
from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Translation, say, set_translation
from gpuctl.language.translation_files import chinese_sentences
from gpuctl.usecases.service.saved_logins import server_url
from gpuctl.usecases.service.service_client import STATED_SERVER
from gpuctl_server.access.tokens import digest_of
from gpuctl_server.console.sessions import CSRF_HEADER, SESSION, BrowserSession, Sessions
from gpuctl_server.http.content_negotiation import wants_chinese
from gpuctl_server.http.http_problems import Problem, answer, unexpected
from gpuctl_server.limits.fair_slots import CountedSlots, FairSlots, NoFreeSlot
from gpuctl_server.request_log import LOG, begin_request
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.service_metrics import ServiceMetrics

_OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that need no slot: they are answered however busy the service is."""


_BEGINNINGS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_LONGEST = 500
_COMMAND_LINE = "gpuctl/"
"""Prefix of the `User-Agent` of the command line. For it, hints in answers are commands."""
LOGIN = "/console/session"
FOLLOWS = "follows"
"""Key that a streaming answer sets in the state of its scope before it begins."""


class RequestMiddleware:
    """The outermost layer of the application (ASGI)."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: ServiceMetrics, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions
        self._settings = settings
        self._metrics = metrics
        self._slots = FairSlots(settings.concurrency, settings.queue)
        # Bytes of bodies, also of callers without a token. As many of the largest ones as requests may run.
        most = settings.concurrency * settings.body_limit
        self._bodies = CountedSlots(most, max(settings.body_limit, most // 2))
        self._safety = [(b"x-content-type-options", b"nosniff")]
        if settings.tls_certificate is not None:
            self._safety.append((b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        asked, scope = scope, self._with_session(_as_get(scope))
        request = HTTPConnection(scope)
        identity = begin_request(request.headers.get("x-request-id", ""))
        begun, status, taken = time.monotonic(), 0, 0.0
        translation = Translation(chinese_sentences()) if wants_chinese(request) else None
        set_translation(translation)
        _set_surface(request)

        async def sending(message: Message) -> None:
            nonlocal status, taken
            if message["type"] in _BEGINNINGS:
                status, taken = message.get("status", 101), time.monotonic() - begun
                message["headers"] = [
                    *message.get("headers", ()),
                    *self._safety,
                    (b"x-request-id", identity.encode()),
                ]
                if not any(name == b"cache-control" for name, _ in message["headers"]):
                    # A cache does not know that the answer to a cookie depends on its user and the language.
                    message["headers"].append((b"cache-control", b"no-store"))
                if translation is not None and translation.is_used:
                    message["headers"].append((b"content-language", b"zh"))
            elif message["type"] == "websocket.close" and not status:
                # uvicorn answers 403 if no route accepts the WebSocket.
                status = 403
            await send(message)

        try:
            if len(request.headers.getlist("authorization")) > 1:
                raise Problem(400, say("the header Authorization is given twice"), error="InvalidRequest")
            _reject_etag(request)
            _reject_compression(request)
            _require_csrf_token(request)
            if scope["path"] in _OPEN:
                await self._app(scope, receive, sending)
            else:
                await self._admitted(request, scope, receive, sending)
        except Problem as problem:
            await answer(problem, scope["path"])(scope, receive, sending)
        except Exception as error:
            if status:
                raise
            await answer(unexpected(error, request.url.path), scope["path"])(scope, receive, sending)
        finally:
            # For a stream, only the time until its start counts.
            taken = taken if _follows(scope) else time.monotonic() - begun
            self._note(asked.get("method", "GET"), scope, status, taken)

    def _with_session(self, scope: Scope) -> Scope:
        """Return a request of the console with the token of its session as Authorization.

        A WebSocket has no such protection as CSRF tokens, so that it needs the token itself.
        """
        if scope["type"] != "http" or (scope["path"] == LOGIN and scope["method"] == "POST"):
            return scope
        headers = Headers(scope=scope)
        session = None if "authorization" in headers else self._sessions.find(headers.get("cookie", ""))
        if session is None:
            return scope
        given = [*scope["headers"], (b"authorization", f"Bearer {session.token}".encode())]
        return {**scope, "headers": given, "state": {**scope.get("state", {}), SESSION: session}}

    def _note(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        """Log a request, and count it by the path of its route: the path in the request is chosen by the client."""
        method = method if method in _METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.answered(method, route, status, seconds)
        fields: dict[str, Any] = {"method": method, "path": scope["path"][:_LONGEST], "route": route}
        LOG.info("request", extra={**fields, "status": status, "ms": round(seconds * 1000, 1)})

    async def _admitted(self, request: HTTPConnection, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body of a request, and run it in a slot."""
        # The caller is not known yet, and may only be found by a request to the API server.
        caller = digest_of(request.headers.get("authorization", ""))
        body = b""
        try:
            if scope["type"] == "http":
                body = await self._body(request, receive, caller)
                receive = _given(body, receive)
            await self._slots.acquire(caller)
        except NoFreeSlot as full:
            text = say("too many requests of this token are running") if full.is_own else say("the service is busy")
            raise Problem(429, say("{text}; try again in a moment", text=text)) from None
        else:
            await self._run(scope, receive, send, caller)
        finally:
            self._bodies.done(caller, len(body))

    async def _run(self, scope: Scope, receive: Receive, send: Send, caller: str) -> None:
        """Run a request that has a slot. A request that follows a log releases it when the answer begins."""
        self._metrics.under_way.inc()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._metrics.under_way.dec()
                self._slots.release(caller)

        async def sending(message: Message) -> None:
            if message["type"] in _BEGINNINGS and _follows(scope):
                give_back()
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            give_back()

    async def _body(self, request: HTTPConnection, receive: Receive, caller: str) -> bytes:
        """Read the whole body within a time limit: a slow body must not hold a slot.

        :raises NoFreeSlot: too many bytes of bodies are held.
        """
        limit = self._settings.body_limit
        length = request.headers.get("content-length", "")
        if not length and "transfer-encoding" not in request.headers:
            # Without either header the request has no body (RFC 9112, 6.3).
            return b""
        if length.isdigit() and int(length) > limit:
            raise Problem(413, say("the body is larger than {limit} bytes", limit=limit))
        found = bytearray()
        try:
            # `asyncio.wait_for` would keep the parts of a rejected body in a reference cycle.
            with anyio.fail_after(self._settings.body_timeout):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, say("the body ended too early"))
                    part = message.get("body", b"")
                    self._bodies.begin(caller, len(part))
                    found.extend(part)
                    if len(found) > limit:
                        raise Problem(413, say("the body is larger than {limit} bytes", limit=limit))
                    more = message.get("more_body", False)
        except BaseException as error:
            self._bodies.done(caller, len(found))
            found.clear()
            if isinstance(error, TimeoutError):
                text = say("the body did not arrive within {limit} s", limit=f"{self._settings.body_timeout:g}")
                raise Problem(408, text) from None
            raise
        return bytes(found)


def _set_surface(request: HTTPConnection) -> None:
    """Set the surface of the response's texts, and the options of the commands in them."""
    if SESSION in request.scope.get("state", {}):
        set_request_surface(Surface.CONSOLE)
    elif request.headers.get("user-agent", "").startswith(_COMMAND_LINE):
        set_request_surface(Surface.SERVICE_COMMAND_LINE, _server_option(request.headers.get(STATED_SERVER, "")))
    else:
        set_request_surface(Surface.REST)


def _server_option(address: str) -> str:
    """Return the option that selects the service by the address that the user gave; "" without a valid one."""
    try:
        return shlex.join([f"--server={server_url(address, plain=True)}"]) if len(address) <= _LONGEST else ""
    except ConfigurationError:
        return ""


def _reject_etag(request: HTTPConnection) -> None:
    """Reject a write that is to depend on an ETag: objects have none, and the write would overwrite other changes.

    :raises Problem: 400.
    """
    if request.scope.get("method", "GET") not in _READS and request.headers.get("if-match", "*") != "*":
        raise Problem(
            400,
            say("the header If-Match is not supported: objects have no ETag"),
            error="InvalidRequest",
            hint=say("leave it out; `confirmed` in the body of `/apply` executes only the plan that was shown"),
        )


def _reject_compression(request: HTTPConnection) -> None:
    """Reject a compressed body by its header: as text or JSON it would be a confusing error.

    :raises Problem: 400.
    """
    encoding = request.headers.get("content-encoding", "")
    if encoding.lower() not in ("", "identity"):
        text = say("the body has the Content-Encoding {encoding}: send it without", encoding=shorten(encoding))
        raise Problem(400, text, error="InvalidRequest")


def _require_csrf_token(request: HTTPConnection) -> None:
    """Reject a write that another site may have let the browser send.

    :raises Problem: 403.
    """
    session: BrowserSession | None = request.scope.get("state", {}).get(SESSION)
    if session is None or request.scope["method"] in _READS:
        return
    if not session.permits(request.headers.get(CSRF_HEADER, "")):
        raise Problem(
            403,
            say("the header {header} is not that of the session; load the page again", header=CSRF_HEADER),
            error="CsrfFailed",
        )


def _as_get(scope: Scope) -> Scope:
    """Return a HEAD request as a GET; uvicorn drops the body. Not for a stream, which would never end."""
    if scope["type"] != "http" or scope["method"] != "HEAD" or b"follow=" in scope["query_string"]:
        return scope
    return {**scope, "method": "GET"}


def _given(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a receive function with the body that was already read, followed by the messages of the client."""
    messages = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> Message:
        return messages.popleft() if messages else await receive()

    return next_message


def _follows(scope: Scope) -> bool:
    """Return True for a WebSocket, or an answer that has declared itself a stream."""
    return scope["type"] == "websocket" or bool(scope.get("state", {}).get(FOLLOWS))
