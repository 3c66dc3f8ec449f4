"""``/auth``: the rights of the caller."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends

from gpuctl.api.auth_models import RightAnswer, RightQuestion
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import ACTIONS, RESOURCES, AccessRequest
from gpuctl_server.http.request_bodies import json_body_of, parsed_body
from gpuctl_server.routes.dependencies import any_caller
from gpuctl_server.routes.query_parameters import unknown_value
from gpuctl_server.routes.routers import api_router

router = api_router()


@router.post("/auth/check", response_model=RightAnswer, openapi_extra=json_body_of(RightQuestion))
def check(
    caller: Annotated[Caller, Depends(any_caller)],
    question: Annotated[RightQuestion, Depends(parsed_body(RightQuestion))],
) -> dict[str, Any]:
    """Check if the caller may do something. All routes use the same decision."""
    for field, value, known in (("resource", question.resource, RESOURCES), ("action", question.action, ACTIONS)):
        if value not in known:
            raise unknown_value(field, value, known)
    action = next(action for action in ACTIONS if action == question.action)
    decision = caller.may(AccessRequest(action, question.resource, question.namespace, question.pool))
    return {"allowed": decision.allowed, "message": decision.message}
