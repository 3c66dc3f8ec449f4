"""``/fit``: whether jobs would find room."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query

from gpuctl.api.fit_answers import fit_answer
from gpuctl.api.question_models import FitAnswer
from gpuctl.frontend.source import Source
from gpuctl_server.access.caller import Caller
from gpuctl_server.command_fits import judged
from gpuctl_server.others import told_together
from gpuctl_server.routes.common import ServiceOf, allowed, api_router
from gpuctl_server.submissions import NAME, DocumentsBody, body_of, compile_to_fit, documents_of

router = api_router()


@router.post(
    "/fit", responses={200: {"model": FitAnswer}}, openapi_extra=body_of(DocumentsBody, "The documents themselves.")
)
def fit(
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("get", "plans"))],
    body: Annotated[DocumentsBody, Depends(documents_of)],
    namespace: Annotated[str | None, Query(max_length=63, description="Of jobs that name none.")] = None,
    suggest: Annotated[
        bool, Query(description="Find the smallest changes with which jobs that do not fit would, of 20 documents.")
    ] = False,
) -> dict[str, Any]:
    """Of each job, whether all its pods would find room at once, and whom they would evict. Changes nothing."""
    found = compile_to_fit(service, caller, [Source(NAME, body.yamlContent)], namespace)
    result = judged(service, caller, found, suggest=suggest)
    answer: dict[str, Any] = told_together({**fit_answer(result.jobs, result.suggestions), "notes": result.notes})
    return answer
