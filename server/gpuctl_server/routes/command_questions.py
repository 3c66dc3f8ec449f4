"""``/command-line``: what `gpuctl --server` asks. Its form is that of gpuctl's own values, of the same version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Action, Wish
from gpuctl_server.command_changes import CHANGES, preview, preview_rollback
from gpuctl_server.command_line import QUESTIONS, CommandQuestion, answer_question
from gpuctl_server.command_removals import REMOVALS, recoveries
from gpuctl_server.lookups import decided, demand
from gpuctl_server.routes.common import (
    ServiceOf,
    any_caller,
    api_router,
    touched_by,
    write_router,
)
from gpuctl_server.submissions import parsed

router = api_router()
writes = write_router()
Asks = Annotated[Caller, Depends(any_caller)]
Question = Annotated[str, Path(max_length=63)]
_LOOKS: dict[str, Callable[..., Any]] = {
    **QUESTIONS,
    "preview": preview,
    "preview-rollback": preview_rollback,
    "recoveries": recoveries,
}
_CHANGES: dict[str, Callable[..., Any]] = {**CHANGES, **REMOVALS}
_ACTIONS: dict[str, Action] = {
    "apply": "create",
    "delete-jobs": "delete",
    "rerun-jobs": "update",
    "rollback": "update",
    "suspend-jobs": "update",
}
"""Change -> what it takes, where the rest of it is not known yet."""


class QuestionBody(BaseModel):
    """What a use case is asked: where, and with which arguments."""

    model_config = ConfigDict(extra="forbid", strict=True)

    namespace: str | None = Field(None, max_length=63)
    arguments: dict[str, Any] = Field(max_length=20)


async def question_of(request: Request) -> QuestionBody:
    """The body of a question; it is read once it is known who asks."""
    return await parsed(QuestionBody, request)


async def may_change(caller: Asks, question: Question) -> Caller:
    """Somebody who may do what is asked for to jobs at least somewhere."""
    action = _ACTIONS.get(question)
    if action is not None:
        await decided(caller, lambda: demand(caller, Wish(action, "jobs")))
    return caller


Posted = Annotated[QuestionBody, Depends(question_of)]


@router.post("/command-line/{question}", include_in_schema=False)
def look(service: ServiceOf, caller: Asks, question: Question, body: Posted) -> dict[str, Any]:
    """The value of a use case that changes nothing, as whoever asks may see it."""
    asking = CommandQuestion(question, body.namespace, body.arguments)
    return answer_question(service, caller, asking, _LOOKS)


@writes.post("/command-line/changes/{question}", include_in_schema=False)
def change(
    request: Request,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(may_change)],
    question: Question,
    body: Posted,
) -> dict[str, Any]:
    """What became of a change."""
    asking = CommandQuestion(question, body.namespace, body.arguments)
    return answer_question(service, caller, asking, _CHANGES, touched_by(request))
