"""``/jobs/{jobId}/logs``: the output of a job's pods, once or as a stream."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.responses import StreamingResponse

from gpuctl.api.log_models import LogsValue
from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.tokens import bearer
from gpuctl_server.http.content_negotiation import JSON
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.lookups.log_responses import logs_answer, present_events
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.log_follow_routes import (
    NOT_BUFFERED,
    PROTOCOL,
    LogEvents,
    follow_by_socket,
    followed,
    last_positions,
)
from gpuctl_server.routes.log_query import LogsQuery, found
from gpuctl_server.routes.query_parameters import JobId
from gpuctl_server.routes.routers import api_router

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "logs"))]
_EVENTS = "text/event-stream"
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            _EVENTS: {
                "schema": {"type": "string"},
                "example": 'id: AQE...\ndata: {"pod": "p", "container": "main", "timestamp": "...", "text": "..."}\n\n',
            }
        }
    }
}


@router.get("/jobs/{jobId}/logs", response_model=LogsValue, responses=_STREAM)
def logs(request: Request, service: ServiceOf, caller: Reads, job: JobId, query: Annotated[LogsQuery, Query()]) -> Any:
    """Return the output of a job's pods, ordered by time."""
    if query.follow:
        if _EVENTS not in request.headers.get("accept", ""):
            text = say(
                "follow: use a WebSocket (subprotocol {protocol}) or `Accept: {type}`", protocol=PROTOCOL, type=_EVENTS
            )
            raise Problem(400, text, error="InvalidRequest")
        token = bearer(request.headers.get("authorization", ""))
        last = last_positions(request.headers.get("last-event-id", ""))
        return LogEvents(followed(service, token, caller, job, query, last))
    item, log_filter = found(service, caller, job, query)
    accepted = request.headers.get("accept", "")
    if _EVENTS in accepted and JSON not in accepted:
        events = present_events(service, caller, item, log_filter)
        # An error before the first lines can still be answered with a status.
        return StreamingResponse(chain([next(events)], events), media_type=_EVENTS, headers=NOT_BUFFERED)
    return logs_answer(service, caller, item, log_filter)


router.add_api_websocket_route("/jobs/{jobId}/logs", follow_by_socket)
