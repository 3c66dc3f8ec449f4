"""``/fit``: whether jobs would find room."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field

from gpuctl.answers.fit_answers import fit_answer
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.compilation import Compilation
from gpuctl.frontend.source import Source
from gpuctl.language.job import Workload
from gpuctl.usecases.fit_documents import compile_for_fit
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Wish
from gpuctl_server.lookups import demand
from gpuctl_server.routes.common import ServiceOf, allowed, api_router

router = api_router()
Previews = Annotated[Caller, Depends(allowed("get", "plans"))]


class FitQuestion(BaseModel):
    """Documents, as one stream of YAML."""

    model_config = ConfigDict(extra="forbid", strict=True)

    yamlContent: str = Field(examples=["kind: training\nversion: v0.1\njob:\n  name: qwen2-7b-sft\n..."])  # noqa: N815
    namespace: str | None = Field(None, max_length=63, description="Of jobs that name none.", examples=["team-a"])


@router.post("/fit")
def fit(question: FitQuestion, service: ServiceOf, caller: Previews) -> dict[str, Any]:
    """Of each job, whether all its pods would find room at once, and whom they would evict. Changes nothing."""
    documents = compile_for_fit(
        Source("yamlContent", question.yamlContent),
        platform=service.settings.platform,
        namespace=question.namespace or service.namespace,
    )
    _demand_all(caller, documents.compilation)
    with service.weighing(caller) as reader:
        result = documents.fit(take_snapshot(reader.scope.session))
    return {**fit_answer(result.jobs), "notes": result.notes}


def _demand_all(caller: Caller, compilation: Compilation) -> None:
    """See that every job is for a namespace and a pool of theirs.

    :raises Problem: 403.
    """
    for document in compilation.documents:
        if isinstance(document.model, Workload):
            demand(caller, Wish("get", "plans", document.namespace, document.model.resources.pool))
