"""``/fit``: the fit of jobs in the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Depends, Query

from gpuctl.api.base_models import LEGAL_NAMESPACE
from gpuctl.api.change_models import FilesBody
from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.fit_answers import FitAnswer, FitPage, fit_jobs
from gpuctl.frontend.document_variant import Variant
from gpuctl.reading.jobs.job_rows import JobFilter
from gpuctl.usecases.documents.service_documents import platform_message
from gpuctl.usecases.fit.fit_documents import FitResult
from gpuctl_server.access.caller import Caller
from gpuctl_server.changes.submissions import compile_to_fit
from gpuctl_server.http.merged_answers import merge_hidden
from gpuctl_server.http.request_bodies import body_of, files_of, sources_of
from gpuctl_server.limits.shared_answers import MaxAge
from gpuctl_server.lookups.fit_requests import fit_documents, fit_waiting_jobs, listed_jobs
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import (
    EMPTY_IS_NONE,
    LARGEST_PAGE,
    KindFilter,
    ListAge,
    NamespaceOfDocuments,
    Page,
    PoolFilter,
    Profile,
    names_in,
    page_of,
)
from gpuctl_server.routes.routers import mirror_router

router = mirror_router()
Holders = Annotated[
    int | None, Query(ge=0, le=10_000, description="Maximum number of entries of `heldBy`. Default: all.")
]


@router.post(
    "/fit", responses={200: {"model": FitAnswer}}, openapi_extra=body_of(FilesBody, "The documents themselves.")
)
def fit(
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("get", "plans"))],
    body: Annotated[FilesBody, Depends(files_of)],
    namespace: NamespaceOfDocuments = None,
    suggest: Annotated[
        bool, Query(description="Search for the smallest changes with which jobs would fit. At most 20 documents.")
    ] = False,
    strict: Annotated[bool, Query(description="Reject documents with warnings.")] = False,
    holders: Holders = None,
    profile: Profile = None,
    maxAge: ListAge = 0,  # noqa: N803
) -> dict[str, Any]:
    """Check if all pods of each job would fit at once, and which pods they would preempt. Writes nothing."""
    variant = Variant(profile, tuple(body.overrides))
    found = compile_to_fit(service, caller, sources_of(body), namespace, strict=strict, variant=variant)
    result = fit_documents(service, caller, found, suggest=suggest, list_age=maxAge)
    beside = body.platform
    message = "" if beside is None else platform_message(beside.value, beside.name, service.platform)
    answer = _answer(result, [message] if message else [])
    return {**answer, "jobs": _shortened(answer["jobs"], holders)}


@router.get("/fit", responses={200: {"model": FitPage}})
def fit_waiting(
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("get", "jobs"))],
    namespace: Annotated[
        str | None, Query(max_length=63, description="Only jobs of this namespace."), LEGAL_NAMESPACE, EMPTY_IS_NONE
    ] = None,
    kind: KindFilter = "",
    pool: PoolFilter = "",
    name: Annotated[
        str,
        Query(
            max_length=8192,
            description="Only jobs with these ids or names, or with pods of these names, separated by commas.",
        ),
    ] = "",
    holders: Holders = None,
    page: Page = 1,
    pageSize: Annotated[  # noqa: N803
        int | None, Query(alias="pageSize", ge=1, le=LARGEST_PAGE, description="Items per page. Default: all.")
    ] = None,
    maxAge: MaxAge = 0,  # noqa: N803
) -> dict[str, Any]:
    """Check the fit of each job whose pods are waiting for a node."""

    def compute() -> dict[str, Any]:
        return _answer(fit_waiting_jobs(service, caller, namespace), [])

    found: dict[str, Any] = service.shared_answers.find(caller, ("fit", namespace), maxAge, compute)
    jobs = found["jobs"]
    if kind or pool or name:
        wanted = listed_jobs(service, JobFilter(pool, kind, ""), names_in(name) if name else None)
        jobs = [job for job in jobs if (job["namespace"], job["name"]) in wanted]
    some = page_of(jobs, page, pageSize or len(jobs))
    return {**found, "total": len(jobs), "jobs": _shortened(some, holders)}


def _shortened(jobs: Iterable[dict[str, Any]], holders: int | None) -> list[dict[str, Any]]:
    """Return jobs with a limited number of holders of the scarce resource; None: all."""
    return [{**job, "heldBy": job["heldBy"][:holders]} for job in jobs]


def _answer(result: FitResult, messages: list[str]) -> dict[str, Any]:
    answer = FitAnswer(
        jobs=fit_jobs(result.jobs, result.suggestions).jobs,
        notes=result.notes,
        warnings=list(map(DocumentWarning.of, result.diagnostics)),
        messages=messages,
    )
    told: dict[str, Any] = merge_hidden(answer.as_json())
    return told
