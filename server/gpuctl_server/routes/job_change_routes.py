"""``/jobs``, changes: create, update, delete, pause, resume, rerun, scale, roll back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Query
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import JSONResponse, Response

from gpuctl.api.change_answers import PausedJobs
from gpuctl.api.change_models import (
    EXAMPLE,
    Batch,
    ChangedJob,
    DocumentsBody,
    JobState,
    RerunJob,
    Submitted,
)
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.apply.state.past_documents import LARGEST
from gpuctl.usecases.changes import named_trainings
from gpuctl_server import job_batches, job_changes, job_creation, job_pausing, named_jobs
from gpuctl_server.job_changes import JobRef
from gpuctl_server.job_creation import SubmitRequest
from gpuctl_server.job_revisions import roll_back, run_again
from gpuctl_server.request_bodies import body_of, documents_of, parsed_body
from gpuctl_server.routes.common import (
    BASE,
    NAMES,
    Checkpoint,
    Confirm,
    Confirmed,
    DryRun,
    Failed,
    Force,
    Names,
    Nodes,
    NoProbe,
    OnlyDryRun,
    Profile,
    Queue,
    ServiceStrategy,
    Timeout,
    Writer,
    dry_run_response,
    write_router,
    writer,
)

router = write_router()

Creates = Annotated[Writer, Depends(writer("create", "jobs"))]
Updates = Annotated[Writer, Depends(writer("update", "jobs"))]
Deletes = Annotated[Writer, Depends(writer("delete", "jobs"))]
Documents = Annotated[DocumentsBody, Depends(documents_of)]
JobId = Annotated[str, InPath(max_length=253, description="Id of a job, its name, or the name of one of its pods.")]
Namespace = Annotated[
    str | None, Query(max_length=63, description="Namespace of the job; required if the name exists in several.")
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Unique key of this request. A repeated request returns what the first one has created.",
    ),
]

_DOCUMENTS = body_of(DocumentsBody, "The documents themselves.")


class BatchBody(BaseModel):
    """Documents that are created independently of each other."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"yamlContents": [EXAMPLE, EXAMPLE.replace("qwen2-7b-sft", "task1")]}},
    )

    yamlContents: list[Annotated[str, StringConstraints()]] = Field(  # noqa: N815 - as the body has it
        min_length=1, max_length=job_batches.MOST, description="The documents of each entry."
    )
    dryRun: bool = Field(False, description="Check only; nothing is written.")  # noqa: N815


@router.post(
    "/jobs",
    status_code=201,
    response_model=Submitted,
    responses=dry_run_response(Submitted),
    openapi_extra=_DOCUMENTS,
)
def create(
    writer: Creates,
    body: Documents,
    key: Key = None,
    confirm: Confirm = False,
    queue: Queue = False,
    profile: Profile = None,
    dry_run: DryRun = False,
) -> Response:
    """Create what documents describe. If an object already exists, the answer is 409. With ``dryRun`` documents are
    only checked.
    """
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm)
    submitted = job_creation.create(change, SubmitRequest(body.yamlContent, key, queue, profile))
    if change.dry_run:
        return JSONResponse(_submitted(submitted), 200)
    job_changes.await_listed(change.service, (job.jobId for job in submitted.jobs or [submitted]))
    headers = (
        {"Location": f"{BASE}/jobs/{submitted.jobId}"} if submitted.jobId is not None and submitted.jobs is None else {}
    )
    return JSONResponse(_submitted(submitted), 201, headers)


@router.post(
    job_batches.PATH,
    status_code=201,
    response_model=Batch,
    responses=dry_run_response(Batch),
    openapi_extra=body_of(BatchBody, "The same fields."),
)
def create_batch(
    writer: Creates,
    body: Annotated[BatchBody, Depends(parsed_body(BatchBody))],
    key: Key = None,
    confirm: Confirm = False,
    queue: Queue = False,
    dry_run: DryRun = False,
) -> Batch | JSONResponse:
    """Create the documents of each entry independently. Failed entries have an error. With ``dryRun`` they are only
    checked.
    """
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm)
    batch = job_batches.create_each(change, body.yamlContents, key, queue=queue)
    return JSONResponse(batch.model_dump(by_alias=True), 200) if change.dry_run else batch


@router.post("/jobs/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_jobs(
    writer: Deletes,
    body: Names,
    namespace: Namespace = None,
    confirm: Confirm = False,
    checkpoint: Checkpoint = True,
    force: Force = False,
    timeout: Timeout = RunOptions.timeout,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Delete jobs, and wait until they are gone."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm, confirmed=body.confirmed)
    run = change.run_options(timeout, force=force, checkpoint=checkpoint)
    return named_jobs.delete_named_jobs(change, body.names, namespace, run)


@router.post("/jobs/rerun", response_model=PlanAnswer, openapi_extra=NAMES)
def rerun_jobs(
    writer: Updates,
    body: Names,
    namespace: Namespace = None,
    confirm: Confirm = False,
    failed: Failed = False,
    queue: Queue = False,
    timeout: Timeout = RunOptions.timeout,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Run finished trainings again. A deleted training must be the only one named, and must be confirmed."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm, confirmed=body.confirmed)
    run = change.run_options(timeout, queue=queue)
    return named_jobs.rerun_named_jobs(change, body.names, namespace, run, failed=failed)


@router.post("/jobs/run", response_model=PlanAnswer, openapi_extra=NAMES)
def run_jobs(
    writer: Updates,
    body: Names,
    namespace: Namespace = None,
    confirm: Confirm = False,
    queue: Queue = False,
    timeout: Timeout = RunOptions.timeout,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Start a run of each of some scheduled trainings now."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm, confirmed=body.confirmed)
    run = change.run_options(timeout, queue=queue)
    return named_jobs.change_named_jobs(change, named_trainings.START_RUN, body.names, namespace, run)


@router.post("/jobs/scale", response_model=PlanAnswer, openapi_extra=NAMES)
def scale_jobs(
    writer: Updates,
    body: Names,
    nodes: Nodes,
    namespace: Namespace = None,
    confirm: Confirm = False,
    checkpoint: Checkpoint = True,
    queue: Queue = False,
    timeout: Timeout = RunOptions.timeout,
    dry_run: DryRun = False,
) -> PlanAnswer:
    """Change the number of nodes of elastic trainings. A change that restarts running work must be confirmed."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm, confirmed=body.confirmed)
    run = change.run_options(timeout, queue=queue, checkpoint=checkpoint)
    return named_jobs.change_named_jobs(change, named_trainings.scale(nodes), body.names, namespace, run)


@router.post("/jobs/pause", response_model=PausedJobs, openapi_extra=NAMES)
def pause_jobs(
    writer: Updates,
    body: Names,
    namespace: Namespace = None,
    checkpoint: Checkpoint = True,
    dry_run: DryRun = False,
) -> PausedJobs:
    """Pause jobs one after another: end their pods and keep the jobs. An error has the jobs that were paused before it
    in ``items``.
    """
    change = writer.change(dry_run=body.dryRun or dry_run)
    return named_jobs.pause_named_jobs(change, body.names, namespace, checkpoint=checkpoint)


@router.post("/jobs/resume", response_model=PausedJobs, openapi_extra=NAMES)
def resume_jobs(
    writer: Updates,
    body: Names,
    namespace: Namespace = None,
    confirm: Confirm = False,
    dry_run: DryRun = False,
) -> PausedJobs:
    """Resume paused jobs. Preempting pods of other jobs must be confirmed."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm, confirmed=body.confirmed)
    return named_jobs.resume_named_jobs(change, body.names, namespace)


@router.put("/jobs/{jobId}", response_model=ChangedJob, openapi_extra=_DOCUMENTS)
def change(
    writer: Updates,
    jobId: JobId,  # noqa: N803 - as the path has it
    body: Documents,
    namespace: Namespace = None,
    confirm: Confirm = False,
    queue: Queue = False,
    profile: Profile = None,
    checkpoint: Checkpoint = True,
    dry_run: DryRun = False,
) -> ChangedJob:
    """Apply the changed document of a job. A change that ends running work must be confirmed."""
    change = writer.change(dry_run=body.dryRun or dry_run, confirm=confirm)
    ref = JobRef(jobId, namespace)
    return job_changes.change_job(change, ref, body.yamlContent, checkpoint=checkpoint, queue=queue, profile=profile)


@router.delete("/jobs/{jobId}", response_model=JobState, response_model_exclude_unset=True)
def delete(
    writer: Deletes,
    jobId: JobId,  # noqa: N803
    dry_run: OnlyDryRun,
    namespace: Namespace = None,
    force: Force = False,
    checkpoint: Checkpoint = True,
) -> JobState:
    """Delete a job, without waiting until its pods are gone."""
    change = writer.change(dry_run=dry_run)
    return job_changes.delete_job(change, JobRef(jobId, namespace), force=force, checkpoint=checkpoint)


@router.post("/jobs/{jobId}/pause", response_model=JobState, response_model_exclude_unset=True)
def pause(
    writer: Updates,
    jobId: JobId,  # noqa: N803
    dry_run: OnlyDryRun,
    namespace: Namespace = None,
    checkpoint: Checkpoint = True,
) -> JobState:
    """Pause a job: end its pods, which frees its GPUs, and keep the job."""
    return job_pausing.pause_job(writer.change(dry_run=dry_run), JobRef(jobId, namespace), checkpoint=checkpoint)


@router.post("/jobs/{jobId}/resume", response_model=JobState, response_model_exclude_unset=True)
def resume(
    writer: Updates,
    jobId: JobId,  # noqa: N803
    dry_run: OnlyDryRun,
    namespace: Namespace = None,
    confirm: Confirm = False,
) -> JobState:
    """Resume a paused job. Preempting pods of other jobs must be confirmed."""
    return job_pausing.resume_job(writer.change(dry_run=dry_run, confirm=confirm), JobRef(jobId, namespace))


@router.post("/jobs/{jobId}/rerun", response_model=RerunJob)
def rerun(
    writer: Updates,
    jobId: JobId,  # noqa: N803
    dry_run: OnlyDryRun,
    namespace: Namespace = None,
    confirm: Confirm = False,
    failed: Failed = False,
    queue: Queue = False,
) -> RerunJob:
    """Run a finished training again. A deleted training is created from its last document, which must be confirmed."""
    change = writer.change(dry_run=dry_run, confirm=confirm)
    return run_again(change, JobRef(jobId, namespace), queue=queue, failed=failed)


@router.post("/jobs/{jobId}/run", response_model=PlanAnswer)
def run(
    writer: Updates,
    jobId: JobId,  # noqa: N803
    dry_run: OnlyDryRun,
    namespace: Namespace = None,
    confirm: Confirm = False,
    queue: Queue = False,
) -> PlanAnswer:
    """Start a run of a scheduled training now."""
    change = writer.change(dry_run=dry_run, confirm=confirm)
    return named_jobs.change_named_jobs(
        change, named_trainings.START_RUN, [jobId], namespace, change.run_options(queue=queue)
    )


@router.post("/jobs/{jobId}/scale", response_model=PlanAnswer)
def scale(
    writer: Updates,
    jobId: JobId,  # noqa: N803
    dry_run: OnlyDryRun,
    nodes: Nodes,
    namespace: Namespace = None,
    confirm: Confirm = False,
    checkpoint: Checkpoint = True,
    queue: Queue = False,
) -> PlanAnswer:
    """Change the number of nodes of an elastic training. A change that restarts running work must be confirmed."""
    change = writer.change(dry_run=dry_run, confirm=confirm)
    run = change.run_options(queue=queue, checkpoint=checkpoint)
    return named_jobs.change_named_jobs(change, named_trainings.scale(nodes), [jobId], namespace, run)


@router.post("/jobs/{jobId}/rollback", response_model=ChangedJob)
def rollback(
    writer: Updates,
    jobId: JobId,  # noqa: N803
    body: Confirmed,
    namespace: Namespace = None,
    to: Annotated[
        int | None,
        Query(
            ge=1,
            le=LARGEST,
            description="Revision of the history. Default: the newest one that differs from the current document.",
        ),
    ] = None,
    confirm: Confirm = False,
    queue: Queue = False,
    strategy: ServiceStrategy = None,
    no_probe: NoProbe = False,
    checkpoint: Checkpoint = True,
    force: Force = False,
    timeout: Timeout = RunOptions.timeout,
) -> ChangedJob:
    """Apply an earlier document of a job again. This must be confirmed. The job may have been deleted."""
    change = writer.change(dry_run=body.dryRun, confirm=confirm, confirmed=body.confirmed)
    planning = PlanOptions(strategy=strategy, no_probe=no_probe, queue=queue)
    run = change.run_options(timeout, force=force, checkpoint=checkpoint)
    return roll_back(change, JobRef(jobId, namespace), to, planning, run)


def _submitted(submitted: Submitted) -> dict[str, Any]:
    value = submitted.model_dump(by_alias=True)
    return value if submitted.jobs is not None else {key: item for key, item in value.items() if key != "jobs"}
