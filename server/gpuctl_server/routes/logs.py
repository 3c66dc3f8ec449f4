"""``/jobs/{jobId}/logs``: what the pods of a job print, and go on to print."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from starlette.responses import JSONResponse

from gpuctl_server.access.caller import Caller
from gpuctl_server.log_values import LogsValue, present_logs
from gpuctl_server.problems import Problem
from gpuctl_server.routes.common import ServiceOf, allowed, api_router, bearer
from gpuctl_server.routes.following_logs import PROTOCOL, LogEvents, follow_by_socket, followed, last_marks
from gpuctl_server.routes.logs_query import LogsQuery, found

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "logs"))]
JobId = Annotated[
    str, Path(alias="jobId", max_length=253, description="A job's id, its name, or the name of one of its pods.")
]
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
    """What the pods of a job have printed, in the order of time."""
    if query.follow:
        if _EVENTS not in request.headers.get("accept", ""):
            text = f"follow: it takes a WebSocket (subprotocol {PROTOCOL}), or `Accept: {_EVENTS}`"
            raise Problem(400, text, error="InvalidRequest")
        token = bearer(request.headers.get("authorization", ""))
        last = last_marks(request.headers.get("last-event-id", ""))
        return LogEvents(followed(service, token, caller, job, query, last))
    item, choice = found(service, caller, job, query)
    # Made here and not on the event loop: there may be a hundred thousand lines.
    return JSONResponse(present_logs(service, item, choice))


router.add_api_websocket_route("/jobs/{jobId}/logs", follow_by_socket)
