"""``/command-line``: what `gpuctl --server` asks. Its form is that of gpuctl's own values, of the same version."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path
from pydantic import BaseModel, ConfigDict, Field

from gpuctl_server.access.caller import Caller
from gpuctl_server.command_line import answer_question
from gpuctl_server.routes.common import ServiceOf, api_router, caller_of

router = api_router()


class CommandQuestion(BaseModel):
    """What a use case is asked: where, and with which arguments."""

    model_config = ConfigDict(extra="forbid", strict=True)

    namespace: str | None = Field(None, max_length=63)
    arguments: dict[str, Any] = Field(max_length=20)


@router.post("/command-line/{question}", include_in_schema=False)
def answer(
    service: ServiceOf,
    caller: Annotated[Caller, Depends(caller_of)],
    question: Annotated[str, Path(max_length=63)],
    body: CommandQuestion,
) -> dict[str, Any]:
    """The value of a use case, as whoever asks may see it."""
    return answer_question(service, caller, question, body.namespace, body.arguments)
