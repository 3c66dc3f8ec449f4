"""What every request passes: an id, a limit on bodies and on how many are worked on, and a line in the log."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuctl_server.measures import Measures
from gpuctl_server.problems import Problem, answer, unexpected
from gpuctl_server.request_log import LOG, begin_request
from gpuctl_server.settings import ServerSettings

_OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that are answered however busy the service is."""


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LONGEST = 500


class Gate:
    """The outermost layer of the application (ASGI)."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, measures: Measures) -> None:
        self._app = app
        self._settings = settings
        self._measures = measures
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            begin_request()
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        identity = begin_request(request.headers.get("x-request-id", ""))
        begun, status = time.monotonic(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode())]
            await send(message)

        try:
            if scope["path"] in _OPEN:
                await self._app(scope, receive, sending)
            else:
                await self._admitted(request, scope, receive, sending)
        except Problem as problem:
            await answer(problem)(scope, receive, sending)
        except Exception as error:
            if status:
                raise
            await unexpected(request, error)(scope, receive, sending)
        finally:
            self._note(scope, status, time.monotonic() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """A line in the log, and a count by the path of the route: whoever asks chooses the path, and its length."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        self._measures.answered(method, route, status, seconds)
        fields: dict[str, Any] = {"method": method, "path": scope["path"][:_LONGEST], "route": route}
        LOG.info("request", extra={**fields, "status": status, "ms": round(seconds * 1000, 1)})

    async def _admitted(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._body(request, receive)
        if self._slots.locked() and self._waiting >= self._settings.queue:
            raise Problem(429, "the service is busy; try again in a moment")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            with self._measures.under_way.track_inprogress():
                await self._app(scope, _given(body, receive), send)
        finally:
            self._slots.release()

    async def _body(self, request: Request, receive: Receive) -> bytes:
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


def _given(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """The body that was read already, then whatever the client does."""
    messages = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> Message:
        return messages.popleft() if messages else await receive()

    return next_message
