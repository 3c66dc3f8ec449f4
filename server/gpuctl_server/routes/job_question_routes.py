"""``/jobs/{jobId}/...``: what rests on the very moment, and is asked of the cluster itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from pydantic import Field

from gpuctl.api.base_models import Body
from gpuctl.api.job_answers import wait_answer
from gpuctl.api.job_cause_answers import WhyAnswer, why_answer
from gpuctl.api.job_detail_answers import JobDetails, JobTimeline, job_details, job_timeline
from gpuctl.api.job_history import JobDocuments, JobRevision
from gpuctl.api.wait_models import JobsWaitAnswer, JobsWaitQuestion, WaitAnswer
from gpuctl.apply.state.past_documents import LARGEST
from gpuctl.reading.wait_until import LONGEST_WAIT
from gpuctl.usecases.job_queries import wait_for_jobs
from gpuctl.usecases.one_job import describe_job, explain_job, job_history
from gpuctl_server.access.caller import Caller
from gpuctl_server.http_problems import Problem
from gpuctl_server.job_changes import JobRef
from gpuctl_server.job_lookups import decided, find_job
from gpuctl_server.job_revisions import job_documents, job_revision
from gpuctl_server.job_waits import wait_for_jobs as wait_for_the_first
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.redaction import merge_hidden
from gpuctl_server.routes.common import ServiceOf, allowed, api_router, run_waiting
from gpuctl_server.service_context import Service
from gpuctl_server.submissions import json_body_of, parsed_body

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "jobs"))]
JobId = Annotated[str, Path(max_length=253, description="A jobId, a job's name, or the name of one of its pods.")]
Namespace = Annotated[str, Query(max_length=63, description="Where the job is.")]
Where = Annotated[str | None, Query(max_length=63, description="Where the job is, if its name is in several.")]


class WaitQuestion(Body):
    """The condition to wait for, and a limit in seconds."""

    condition: Literal["running", "ready", "done", "deleted"] = Field(examples=["done"])
    timeout: float = Field(LONGEST_WAIT, ge=0, le=LONGEST_WAIT, description="Seconds.", examples=[30])


@router.get("/jobs/{jobId}/why", responses={200: {"model": WhyAnswer}})
def why(service: ServiceOf, caller: Reads, jobId: JobId, namespace: Namespace = "") -> dict[str, Any]:  # noqa: N803
    """The cause of a job's state with its numbers and evidence, what was ruled out, and what helps."""
    item = find_job(service, caller, "get", "jobs", jobId, namespace or None)
    with service.simulation_context(caller, item.row.identity.namespace) as reader:
        return _told(why_answer(explain_job(reader, item.reference)).as_json())


@router.get("/jobs/{jobId}/timeline", responses={200: {"model": JobTimeline}})
def timeline(service: ServiceOf, caller: Reads, jobId: JobId, namespace: Namespace = "") -> dict[str, Any]:  # noqa: N803
    """The history of a job: the stages of its pods, the conditions of its workload, and its events."""
    item = find_job(service, caller, "get", "jobs", jobId, namespace or None)
    with service.simulation_context(caller, item.row.identity.namespace) as reader:
        return _told(job_timeline(job_history(reader, item.reference)).as_json())


@router.get("/jobs/{jobId}/details", responses={200: {"model": JobDetails}})
def details(service: ServiceOf, caller: Reads, jobId: JobId, namespace: Namespace = "") -> dict[str, Any]:  # noqa: N803
    """The full description of a job: its pods, timeline, addresses and events, and the cause that keeps it waiting."""
    item = find_job(service, caller, "get", "jobs", jobId, namespace or None)
    with service.simulation_context(caller, item.row.identity.namespace) as reader:
        detail = describe_job(reader, item.reference)
        return _told(job_details(detail, reader.scope.notes).as_json())


@router.get("/jobs/{jobId}/history", response_model=JobDocuments)
def history(service: ServiceOf, caller: Reads, jobId: JobId, namespace: Where = None) -> JobDocuments:  # noqa: N803
    """Which documents of a job were applied, the newest first: by whom, when, from which commit, and what each changed.
    A job that has gone has its history still, by its name."""
    return job_documents(service, caller, JobRef(jobId, namespace))


@router.get("/jobs/{jobId}/history/{revision}", response_model=JobRevision)
def revision(
    service: ServiceOf,
    caller: Reads,
    jobId: JobId,  # noqa: N803
    revision: Annotated[int, Path(ge=1, le=LARGEST, description="Its number.")],
    namespace: Where = None,
) -> JobRevision:
    """One of the documents of a job that were applied, without its credentials."""
    return job_revision(service, caller, JobRef(jobId, namespace), revision)


@router.post("/jobs/wait", responses={200: {"model": JobsWaitAnswer}}, openapi_extra=json_body_of(JobsWaitQuestion))
async def wait_for_several(
    service: ServiceOf, caller: Reads, question: Annotated[JobsWaitQuestion, Depends(parsed_body(JobsWaitQuestion))]
) -> dict[str, Any]:
    """Wait until the first of several jobs are in a condition, or cannot be. Ask again for the others."""
    return await run_waiting(service, wait_for_the_first, service, caller, question)


@router.post("/jobs/{jobId}/wait", responses={200: {"model": WaitAnswer}}, openapi_extra=json_body_of(WaitQuestion))
async def wait(
    service: ServiceOf,
    caller: Reads,
    question: Annotated[WaitQuestion, Depends(parsed_body(WaitQuestion))],
    jobId: JobId,  # noqa: N803 - as the path has it
    namespace: Namespace = "",
) -> dict[str, Any]:
    """Wait until a job runs, is ready, done or deleted, or until it can no longer become so."""
    try:
        item: ListedJob | None = await decided(
            caller, lambda: find_job(service, caller, "get", "jobs", jobId, namespace or None)
        )
    except Problem as problem:
        # What is gone already is not waited for; what may not be seen is answered like it.
        if problem.status != 404 or question.condition != "deleted":
            raise
        item = None
    return await run_waiting(service, _waited, service, caller, item, jobId, question)


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer in which those whom somebody may not see are one."""
    told: dict[str, Any] = merge_hidden(answer)
    return told


def _waited(
    service: Service, caller: Caller, item: ListedJob | None, text: str, question: WaitQuestion
) -> dict[str, Any]:
    def tell(_: str) -> None:
        if service.change_slots.is_ending():
            raise Problem(503, "the service is being stopped")

    if item is None:
        # Nothing that may be seen has the name: the mirror says so without asking.
        with service.read_context(caller) as reader:
            return wait_answer(wait_for_jobs(reader, [text], "deleted", 0, tell))
    with service.simulation_context(caller, item.row.identity.namespace) as reader:
        return _told(wait_answer(wait_for_jobs(reader, [item.reference], question.condition, question.timeout, tell)))
