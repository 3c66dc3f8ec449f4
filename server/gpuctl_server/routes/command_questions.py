"""``/command-line``: what `gpuctl --server` asks. Its form is that of gpuctl's own values, of the same version."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from gpuctl_server.access.caller import Caller
from gpuctl_server.command_line import QUESTIONS, CommandQuestion, answer_question
from gpuctl_server.routes.common import (
    ServiceOf,
    any_caller,
    api_router,
)
from gpuctl_server.submissions import parsed

router = api_router()
Asks = Annotated[Caller, Depends(any_caller)]
Question = Annotated[str, Path(max_length=63)]


class QuestionBody(BaseModel):
    """What a use case is asked: where, and with which arguments."""

    model_config = ConfigDict(extra="forbid", strict=True)

    namespace: str | None = Field(None, max_length=63)
    arguments: dict[str, Any] = Field(max_length=20)


async def question_of(request: Request) -> QuestionBody:
    """The body of a question; it is read once it is known who asks."""
    return await parsed(QuestionBody, request)


Posted = Annotated[QuestionBody, Depends(question_of)]


@router.post("/command-line/{question}", include_in_schema=False)
def look(service: ServiceOf, caller: Asks, question: Question, body: Posted) -> dict[str, Any]:
    """The value of a use case that changes nothing, as whoever asks may see it."""
    asking = CommandQuestion(question, body.namespace, body.arguments)
    return answer_question(service, caller, asking, QUESTIONS)
