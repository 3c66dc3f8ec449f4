"""``/fit``: whether jobs would find room."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query

from gpuctl.answers.fit_answers import fit_answer
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.frontend.source import Source
from gpuctl_server.access.caller import Caller
from gpuctl_server.models.question_models import FitAnswer
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
) -> dict[str, Any]:
    """Of each job, whether all its pods would find room at once, and whom they would evict. Changes nothing."""
    found = compile_to_fit(service, caller, [Source(NAME, body.yamlContent)], namespace)
    with service.weighing(caller) as reader:
        result = found.fit(take_snapshot(reader.scope.session))
    answer: dict[str, Any] = told_together({**fit_answer(result.jobs), "notes": result.notes})
    return answer
