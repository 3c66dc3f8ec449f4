"""``/jobs/{jobId}/logs?follow=true``: a WebSocket or Server-Sent Events. Each line is sent once."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, NamedTuple

import anyio.to_thread
from fastapi import WebSocket
from pydantic import ValidationError
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.sentences import Template, current_translation, say
from gpuctl.usecases.queries.job_logs import JobLogs
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.access.tokens import bearer
from gpuctl_server.http.http_problems import Problem, answer, invalid_query, problem_for
from gpuctl_server.http.request_middleware import FOLLOWS
from gpuctl_server.logs.follower import FollowedItem, LogEnd, LogNote, LogSelection, LogSubscription
from gpuctl_server.logs.log_channel import AWAY, LogAddress
from gpuctl_server.logs.log_entries import InvalidPositions, LogEntry, LogPositions, parse_positions
from gpuctl_server.logs.log_hub import TooManyFollowers
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.lookups.log_responses import begins_at, event
from gpuctl_server.routes.dependencies import caller_of_token
from gpuctl_server.routes.log_query import LogsQuery, found
from gpuctl_server.routes.unknown_parameters import check_names
from gpuctl_server.service_context import Service

PROTOCOL = "gpuctl.logs.v1"
TOKEN_PROTOCOL = "base64url.bearer.authorization.gpuctl."  # noqa: S105 - what is before one
"""Prefix of a token that is sent as a subprotocol: a browser cannot add headers to a WebSocket."""
_ENCODED = re.compile(r"[A-Za-z0-9_-]{1,8192}")
_LONGEST_REASON = 123
_SILENCE = 15.0
"""Interval of keep-alive comments in Server-Sent Events, seconds."""
_NOT_ALLOWED = Template("the token is no longer valid, or the right was revoked")
_LONGEST_ID = 16 * 1024
NOT_BUFFERED = {"X-Accel-Buffering": "no"}
"""Headers of a stream, against buffering proxies."""


class FollowRequest(NamedTuple):
    """A request to follow a log: caller, token, required right, log, and selection of lines."""

    service: Service
    token: str
    caller: Caller
    access: AccessRequest
    address: LogAddress
    selection: LogSelection

    def is_allowed(self) -> bool:
        """Return True if the caller still has the right. If that cannot be checked now, the last result applies."""
        try:
            caller = self.service.authenticator.caller(self.token)
            return caller is not None and caller.may(self.access).allowed
        except ClusterError:
            return True

    async def items(self, follower: LogSubscription) -> AsyncGenerator[FollowedItem | LogEnd | None, None]:
        """Yield new items, up to the end of the log or of the right; None at intervals without new items."""
        period = self.service.settings.follower_check
        following = self.service.logs.follow(self.address, follower, min(_SILENCE, period))
        checked_at = time.monotonic()
        async with contextlib.aclosing(following) as items:
            async for item in items:
                if time.monotonic() > checked_at + period:
                    if not await anyio.to_thread.run_sync(self.is_allowed):
                        yield LogEnd(1008, say(_NOT_ALLOWED))
                        return
                    checked_at = time.monotonic()
                yield item


def followed(
    service: Service, token: str, caller: Caller, text: str, query: LogsQuery, last: LogPositions | None = None
) -> FollowRequest:
    """Check a request to follow a log.

    :param last: positions at which the client resumes.
    :raises Problem: 400, 403, 404, 409.
    :raises NotThere: the pod or container does not exist.
    """
    if query.previous:
        raise Problem(400, say("previous: the previous run has ended and cannot be followed"), error="InvalidRequest")
    item, log_filter = found(service, caller, text, query)
    with service.read_context(caller, item.row.identity.namespace) as reader:
        logs = JobLogs(reader, item.reference, log_filter.query)
        logs.check_container()
    pools = None if caller.pools is None else frozenset(caller.pools)
    is_chinese = current_translation() is not None
    address = LogAddress(
        item.row.identity.namespace, item.reference, log_filter.query.container, pools, is_chinese=is_chinese
    )
    begin = begins_at(log_filter.query, service.server_time())
    selection = LogSelection(log_filter.query.tail, begin, logs.only, log_filter.grep, last)
    access = AccessRequest("get", "logs", item.row.identity.namespace, item.row.pool)
    return FollowRequest(service, token, caller, access, address, selection)


async def follow_by_socket(websocket: WebSocket) -> None:
    """Follow a log: each line is a JSON text frame with pod, container, timestamp and text."""
    try:
        request = await anyio.to_thread.run_sync(_follow_request, websocket)
    except Exception as error:
        await websocket.send_denial_response(answer(problem_for(error, websocket.url.path)))
        return
    await websocket.accept(PROTOCOL if PROTOCOL in websocket.scope["subprotocols"] else None)
    try:
        request.service.logs.enter(request.caller.name)
    except TooManyFollowers as error:
        await _close(websocket, LogEnd(AWAY, str(error)))
        return
    end = await _follow(request, lambda follower: _send_frames(websocket, request, follower), websocket.receive)
    if end is not None:
        await _close(websocket, end)


async def _follow(
    request: FollowRequest, send: Callable[[LogSubscription], Coroutine[Any, Any, LogEnd | None]], receive: Receive
) -> LogEnd | None:
    """Send a log until it ends, or the client disconnects or is too slow, and leave the hub.

    :returns: the end to tell the client; None if it was sent.
    """
    follower = LogSubscription(request.selection)
    try:
        return await _first(send(follower), _disconnected(receive), _cut(follower))
    finally:
        request.service.logs.leave(request.caller.name)


def _follow_request(websocket: WebSocket) -> FollowRequest:
    """Check a WebSocket request, before it is accepted.

    :raises Problem: 400, 401, 403, 404, 409.
    """
    service: Service = websocket.app.state.service
    token = _token(websocket)
    caller = caller_of_token(service, token)
    require_access(caller, AccessRequest("get", "logs"))
    offered = websocket.scope["subprotocols"]
    if offered and PROTOCOL not in offered:
        raise Problem(400, say("the subprotocol {protocol} is not offered", protocol=PROTOCOL))
    check_names((name for name, _ in websocket.query_params.multi_items()), LogsQuery.model_fields)
    try:
        query = LogsQuery.model_validate(dict(websocket.query_params))
    except ValidationError as error:
        raise invalid_query(error) from None
    text = websocket.path_params["jobId"]
    if len(text) > 253:
        raise Problem(404, say("there is no job with such a long name"))
    return followed(service, token, caller, text, query)


def _token(connection: HTTPConnection) -> str:
    """Return the token of the header, else that of the only subprotocol with a token; "" without a valid one."""
    header = connection.headers.get("authorization")
    if header is not None:
        return bearer(header)
    offered = [item for item in connection.scope["subprotocols"] if item.startswith(TOKEN_PROTOCOL)]
    if len(offered) != 1:
        return ""
    encoded = offered[0].removeprefix(TOKEN_PROTOCOL)
    if not _ENCODED.fullmatch(encoded):
        return ""
    try:
        token = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii")
    except ValueError:
        return ""
    return token if token.isprintable() and token == token.strip() else ""


async def _send_frames(websocket: WebSocket, request: FollowRequest, follower: LogSubscription) -> LogEnd | None:
    async with contextlib.aclosing(request.items(follower)) as items:
        async for item in items:
            if isinstance(item, LogEntry):
                await websocket.send_text(item.frame)
            elif isinstance(item, LogEnd):
                return item
    return None


async def _disconnected(receive: Receive) -> None:
    """Return when the client has disconnected. Its messages are ignored."""
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


async def _cut(follower: LogSubscription) -> LogEnd:
    await follower.cut.wait()
    return follower.too_slow()


async def _first(*coroutines: Coroutine[Any, Any, LogEnd | None]) -> LogEnd | None:
    """Return the result of the first coroutine that ends. Cancel the others."""
    tasks = [asyncio.ensure_future(item) for item in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ends = [_result(task) for task in done]
        return next((end for end in ends if end is not None), None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _result(task: asyncio.Future[LogEnd | None]) -> LogEnd | None:
    try:
        return task.result()
    except (OSError, WebSocketDisconnect):
        # The client disconnected while data was being sent.
        return None


async def _close(websocket: WebSocket, end: LogEnd) -> None:
    reason = end.reason.encode()[:_LONGEST_REASON].decode("utf-8", "ignore")
    cut: Callable[[int, str], None] | None = websocket.scope["state"].get("cut")
    if cut is not None:
        # Waiting until the client has read everything might take forever.
        cut(end.code, reason)
    else:
        await websocket.close(end.code, reason)


def last_positions(text: str) -> LogPositions | None:
    """Decode the Last-Event-ID of a client of Server-Sent Events.

    :raises Problem: 400.
    """
    if not text:
        return None
    try:
        if len(text) > _LONGEST_ID:
            raise InvalidPositions(say("it is too long"))
        return parse_positions(text)
    except InvalidPositions as error:
        raise Problem(400, f"Last-Event-ID: {error}", error="InvalidRequest") from None


class LogEvents(Response):
    """A stream of Server-Sent Events. Event ids encode the position of the client. Events other than lines are named
    notice, problem, and ``end``, with code and reason.
    """

    media_type = "text/event-stream"

    def __init__(self, request: FollowRequest) -> None:
        super().__init__(headers=NOT_BUFFERED)
        del self.headers["content-length"]
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; 429 if too many clients are following logs."""
        try:
            self._request.service.logs.enter(self._request.caller.name)
        except TooManyFollowers as error:
            await answer(Problem(429, str(error)))(scope, receive, send)
            return
        scope.setdefault("state", {})[FOLLOWS] = True
        end = await _follow(self._request, lambda follower: self._send(send, follower), receive)
        if end is not None and "cut" in scope["state"]:
            scope["state"]["cut"]()

    async def _send(self, send: Send, follower: LogSubscription) -> None:
        async def put(text: str, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await put("retry: 3000\n\n")
        async with contextlib.aclosing(self._request.items(follower)) as items:
            async for item in items:
                await put(_event_text(item, follower))
        await put("", more=False)


def _event_text(item: FollowedItem | LogEnd | None, follower: LogSubscription) -> str:
    if isinstance(item, LogEntry):
        return f"id: {follower.resume_positions.text()}\ndata: {item.frame}\n\n"
    if isinstance(item, LogNote):
        value = {"pod": item.pod, "message": item.message}
        return event(item.kind, value if item.interruption is None else value | {"interruption": item.interruption})
    if isinstance(item, LogEnd):
        return event("end", {"code": item.code, "reason": item.reason})
    return ":\n\n"
