"""``/jobs/{jobId}/...``: answers from the current state of the cluster, read from the API server; and waiting for
jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from pydantic import Field

from gpuctl.api.base_models import Body
from gpuctl.api.job_cause_answers import WhyAnswer, why_answer
from gpuctl.api.job_detail_answers import JobDetails, JobTimeline, job_details, job_timeline
from gpuctl.api.job_history import JobDocuments, JobRevision
from gpuctl.api.wait_models import JobsWaitAnswer, JobsWaitQuestion, WaitAnswer, WaitedName
from gpuctl.apply.state.past_documents import LARGEST
from gpuctl.reading.jobs.wait_until import LONGEST_WAIT
from gpuctl.usecases.queries.one_job import describe_job, explain_job, job_history
from gpuctl_server.access.caller import Caller
from gpuctl_server.changes.job_changes import JobRef
from gpuctl_server.changes.job_revisions import job_documents, job_revision
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import merge_hidden
from gpuctl_server.http.request_bodies import json_body_of, parsed_body
from gpuctl_server.lookups.job_lookups import check_rights, find_job
from gpuctl_server.lookups.job_waits import wait_for_first, wait_for_one
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE, MaxListAge
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import JobId, ListAge, NamespaceOfJob
from gpuctl_server.routes.routers import mirror_router, run_waiting

router = mirror_router()
Reads = Annotated[Caller, Depends(allowed("get", "jobs"))]


class WaitQuestion(Body):
    """The condition to wait for, and a timeout."""

    condition: Literal["running", "ready", "done", "deleted"] = Field(examples=["done"])
    timeout: float = Field(LONGEST_WAIT, ge=0, le=LONGEST_WAIT, description="Maximum wait, seconds.", examples=[30])


@router.get("/jobs/{jobId}/why", responses={200: {"model": WhyAnswer}})
def why(service: ServiceOf, caller: Reads, job: JobId, namespace: NamespaceOfJob = None) -> dict[str, Any]:
    """Return the cause of a job's state with numbers and evidence, what was ruled out, and what to do."""
    item = find_job(service, caller, "get", "jobs", job, namespace)
    with service.simulation_context(caller, item.row.identity.namespace) as reader:
        return _merged(why_answer(explain_job(reader, item.reference)).as_json())


@router.get("/jobs/{jobId}/timeline", responses={200: {"model": JobTimeline}})
def timeline(service: ServiceOf, caller: Reads, job: JobId, namespace: NamespaceOfJob = None) -> dict[str, Any]:
    """Return the timeline of a job: the stages of its pods, the conditions of its workload, and its events."""
    item = find_job(service, caller, "get", "jobs", job, namespace)
    with service.simulation_context(caller, item.row.identity.namespace) as reader:
        return _merged(job_timeline(job_history(reader, item.reference)).as_json())


@router.get("/jobs/{jobId}/details", responses={200: {"model": JobDetails}})
def details(
    service: ServiceOf,
    caller: Reads,
    job: JobId,
    namespace: NamespaceOfJob = None,
    timeline: Annotated[
        bool, Query(description="False: no timeline, conditions and events; `GET /jobs/{jobId}/timeline` has them.")
    ] = True,
    maxAge: ListAge = 0,  # noqa: N803
) -> dict[str, Any]:
    """Return the full description of a job: pods, timeline, addresses, events, and the reason for which it waits."""
    item = find_job(service, caller, "get", "jobs", job, namespace)
    max_age = MaxListAge(READ_ONLY_AGE, before=maxAge)
    with service.simulation_context(caller, item.row.identity.namespace, max_age) as reader:
        found = job_details(describe_job(reader, item.reference), reader.scope.notes)
    if not timeline:
        found = found.model_copy(update={"timeline": [], "conditions": [], "events": None})
    return _merged(found.as_json())


@router.get("/jobs/{jobId}/history", response_model=JobDocuments)
def history(service: ServiceOf, caller: Reads, job: JobId, namespace: NamespaceOfJob = None) -> JobDocuments:
    """List the applied documents of a job, newest first: user, time, commit, and the changes of each one. The history
    of a deleted job is found by its name.
    """
    return job_documents(service, caller, JobRef(job, namespace))


@router.get("/jobs/{jobId}/history/{revision}", response_model=JobRevision)
def revision(
    service: ServiceOf,
    caller: Reads,
    job: JobId,
    revision: Annotated[int, Path(ge=1, le=LARGEST, description="Number of the revision.")],
    namespace: NamespaceOfJob = None,
) -> JobRevision:
    """Return an applied document of a job, with credentials masked."""
    return job_revision(service, caller, JobRef(job, namespace), revision)


@router.post("/jobs/wait", responses={200: {"model": JobsWaitAnswer}}, openapi_extra=json_body_of(JobsWaitQuestion))
async def wait_for_several(
    service: ServiceOf, caller: Reads, question: Annotated[JobsWaitQuestion, Depends(parsed_body(JobsWaitQuestion))]
) -> dict[str, Any]:
    """Wait until at least one of several jobs meets the condition or can no longer meet it. Send another request for
    the others.
    """
    return await run_waiting(service, wait_for_first, service, caller, question)


@router.post("/jobs/{jobId}/wait", responses={200: {"model": WaitAnswer}}, openapi_extra=json_body_of(WaitQuestion))
async def wait(
    service: ServiceOf,
    caller: Reads,
    question: Annotated[WaitQuestion, Depends(parsed_body(WaitQuestion))],
    job: JobId,
    namespace: NamespaceOfJob = None,
) -> dict[str, Any]:
    """Wait until a job is running, ready, done or deleted, or until it can no longer be."""
    try:
        await check_rights(caller, lambda: find_job(service, caller, "get", "jobs", job, namespace))
    except Problem as problem:
        # A deleted job meets the condition at once. A job that the caller may not see gets the same answer.
        if problem.status != 404 or question.condition != "deleted":
            raise
    name = WaitedName(job=job, namespace=namespace or "")
    return await run_waiting(service, wait_for_one, service, caller, name, question.condition, question.timeout)


def _merged(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer in which all jobs that the caller may not see are merged into one."""
    told: dict[str, Any] = merge_hidden(answer)
    return told
