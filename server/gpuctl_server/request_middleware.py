"""What every request passes: an id, a limit on bodies and on how many are worked on, and a line in the log."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuctl_server.access.tokens import digest_of
from gpuctl_server.fair_slots import FairSlots, NoFreeSlot
from gpuctl_server.http_problems import Problem, answer, unexpected
from gpuctl_server.request_log import LOG, begin_request
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.service_metrics import ServiceMetrics

_OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that are answered however busy the service is."""


_BEGINNINGS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LONGEST = 500
FOLLOWS = "follows"
"""What an answer that is a stream sets in the state of its scope, before it begins."""


class RequestMiddleware:
    """The outermost layer of the application (ASGI)."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: ServiceMetrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._slots = FairSlots(settings.concurrency, settings.queue)
        self._safety = [(b"x-content-type-options", b"nosniff")]
        if settings.tls_certificate is not None:
            self._safety.append((b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        asked, scope = scope, _as_get(scope)
        request = HTTPConnection(scope)
        identity = begin_request(request.headers.get("x-request-id", ""))
        begun, status, taken = time.monotonic(), 0, 0.0

        async def sending(message: Message) -> None:
            nonlocal status, taken
            if message["type"] in _BEGINNINGS:
                status, taken = message.get("status", 101), time.monotonic() - begun
                message["headers"] = [
                    *message.get("headers", ()),
                    *self._safety,
                    (b"x-request-id", identity.encode()),
                ]
            elif message["type"] == "websocket.close" and not status:
                # There is nothing at this path, for which uvicorn has one answer.
                status = 403
            await send(message)

        try:
            if len(request.headers.getlist("authorization")) > 1:
                raise Problem(400, "the header Authorization is given twice", error="InvalidRequest")
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
            # Of what goes on for hours the beginning counts.
            taken = taken if _follows(scope) else time.monotonic() - begun
            self._note(asked.get("method", "GET"), scope, status, taken)

    def _note(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        """A line in the log, and a count by the path of the route: whoever asks chooses the path, and its length."""
        method = method if method in _METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.answered(method, route, status, seconds)
        fields: dict[str, Any] = {"method": method, "path": scope["path"][:_LONGEST], "route": route}
        LOG.info("request", extra={**fields, "status": status, "ms": round(seconds * 1000, 1)})

    async def _admitted(self, request: HTTPConnection, scope: Scope, receive: Receive, send: Send) -> None:
        """Give a request a slot; what follows a log has it only until it is let in."""
        if scope["type"] == "http":
            receive = _given(await self._body(request, receive), receive)
        # Whose token it is is not known yet, and costs a request where the cluster says it.
        caller = digest_of(request.headers.get("authorization", ""))
        try:
            await self._slots.acquire(caller)
        except NoFreeSlot as full:
            text = "too many requests of this token are under way" if full.is_own else "the service is busy"
            raise Problem(429, f"{text}; try again in a moment") from None
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

    async def _body(self, request: HTTPConnection, receive: Receive) -> bytes:
        """The whole body, which has to come in time: a request that only trickles in holds no slot."""
        limit = self._settings.body_limit
        length = request.headers.get("content-length", "")
        if not length and "transfer-encoding" not in request.headers:
            # Without either there is none (RFC 9112, 6.3), and nothing to wait for.
            return b""
        if length.isdigit() and int(length) > limit:
            raise Problem(413, f"the body is larger than {limit} bytes")
        found = bytearray()

        async def read() -> None:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "the body ended too early")
                found.extend(message.get("body", b""))
                if len(found) > limit:
                    raise Problem(413, f"the body is larger than {limit} bytes")
                more = message.get("more_body", False)

        try:
            await asyncio.wait_for(read(), self._settings.body_timeout)
        except asyncio.TimeoutError:
            raise Problem(408, f"the body did not come within {self._settings.body_timeout:g} s") from None
        return bytes(found)


def _as_get(scope: Scope) -> Scope:
    """A HEAD request as the GET that it is answered like; uvicorn leaves the body out. A stream would never end."""
    if scope["type"] != "http" or scope["method"] != "HEAD" or b"follow=" in scope["query_string"]:
        return scope
    return {**scope, "method": "GET"}


def _given(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """The body that was read already, then whatever the client does."""
    messages = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> Message:
        return messages.popleft() if messages else await receive()

    return next_message


def _follows(scope: Scope) -> bool:
    """Whether something may go on for as long as a job does. What answers with a stream of events says so."""
    return scope["type"] == "websocket" or bool(scope.get("state", {}).get(FOLLOWS))
