"""``/jobs``, changes: create, update, delete, pause, resume, rerun, scale, roll back."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Query
from pydantic import ConfigDict, Field
from starlette.responses import JSONResponse, Response

from gpuctl.api.base_models import DryRunBody
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
from gpuctl_server.changes import job_batches, job_changes, job_creation, job_pausing, named_job_changes
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.job_changes import JobRef
from gpuctl_server.changes.job_creation import SubmitRequest
from gpuctl_server.changes.job_revisions import roll_back
from gpuctl_server.http.request_bodies import body_of, documents_of, json_body_of, parsed_body
from gpuctl_server.routes.creation_answers import creation_response, dry_run_response
from gpuctl_server.routes.dependencies import NAMES, Names, change_of, names_of, only_confirmed, only_dry_run
from gpuctl_server.routes.query_parameters import (
    Checkpoint,
    Failed,
    Force,
    JobId,
    NamespaceOfJob,
    Nodes,
    NoProbe,
    Profile,
    Queue,
    ServiceStrategy,
    Timeout,
)
from gpuctl_server.routes.routers import write_router

router = write_router()

CreateDocuments = Annotated[ChangeRequest, Depends(change_of("create", "jobs", documents_of))]
UpdateDocuments = Annotated[ChangeRequest, Depends(change_of("update", "jobs", documents_of))]
UpdateNamed = Annotated[ChangeRequest, Depends(change_of("update", "jobs", names_of))]
PauseNamed = Annotated[ChangeRequest, Depends(change_of("update", "jobs", names_of, confirms=False))]
DeleteNamed = Annotated[ChangeRequest, Depends(change_of("delete", "jobs", names_of))]
UpdateOne = Annotated[ChangeRequest, Depends(change_of("update", "jobs", only_dry_run))]
PauseOne = Annotated[ChangeRequest, Depends(change_of("update", "jobs", only_dry_run, confirms=False))]
DeleteOne = Annotated[ChangeRequest, Depends(change_of("delete", "jobs", only_dry_run, confirms=False))]
RollBackOne = Annotated[ChangeRequest, Depends(change_of("update", "jobs", only_confirmed))]
Documents = Annotated[DocumentsBody, Depends(documents_of)]
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


class BatchBody(DryRunBody):
    """Documents that are created independently of each other."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"yamlContents": [EXAMPLE, EXAMPLE.replace("qwen2-7b-sft", "task1")]}}
    )

    yaml_contents: list[str] = Field(
        min_length=1, max_length=job_batches.MOST, description="The documents of each entry."
    )


batch_of = parsed_body(BatchBody)


@router.post(
    "/jobs",
    status_code=201,
    response_model=Submitted,
    responses=dry_run_response(Submitted),
    openapi_extra=_DOCUMENTS,
)
def create(
    change: CreateDocuments,
    body: Documents,
    key: Key = None,
    queue: Queue = False,
    profile: Profile = None,
) -> Response:
    """Create what documents describe. If an object already exists, the answer is 409. With ``dryRun`` documents are
    only checked.
    """
    submitted = job_creation.create(change, SubmitRequest(body.yaml_content, key, queue, profile))
    if not change.dry_run:
        job_changes.await_listed(change.service, (made.job_id for made in submitted.jobs or [submitted]))
    is_one_job = submitted.job_id is not None and submitted.jobs is None
    return creation_response(submitted, f"/jobs/{submitted.job_id}" if is_one_job else None, is_checked=change.dry_run)


@router.post(
    job_batches.PATH,
    status_code=201,
    response_model=Batch,
    responses=dry_run_response(Batch),
    openapi_extra=json_body_of(BatchBody),
)
def create_batch(
    change: Annotated[ChangeRequest, Depends(change_of("create", "jobs", batch_of))],
    body: Annotated[BatchBody, Depends(batch_of)],
    key: Key = None,
    queue: Queue = False,
) -> Batch | JSONResponse:
    """Create the documents of each entry independently. Failed entries have an error. With ``dryRun`` they are only
    checked.
    """
    batch = job_batches.create_each(change, body.yaml_contents, key, queue=queue)
    return JSONResponse(batch.model_dump(by_alias=True), 200) if change.dry_run else batch


@router.post("/jobs/delete", response_model=PlanAnswer, openapi_extra=NAMES)
def delete_jobs(
    change: DeleteNamed,
    body: Names,
    namespace: NamespaceOfJob = None,
    checkpoint: Checkpoint = True,
    force: Force = False,
    timeout: Timeout = RunOptions.timeout,
) -> PlanAnswer:
    """Delete jobs, and wait until they are gone."""
    run = change.run_options(timeout, force=force, checkpoint=checkpoint)
    return named_job_changes.delete_named_jobs(change, body.names, namespace, run)


@router.post("/jobs/rerun", response_model=PlanAnswer, openapi_extra=NAMES)
def rerun_jobs(
    change: UpdateNamed,
    body: Names,
    namespace: NamespaceOfJob = None,
    failed: Failed = False,
    queue: Queue = False,
    timeout: Timeout = RunOptions.timeout,
) -> PlanAnswer:
    """Run finished trainings again. A deleted training must be the only one named, and must be confirmed."""
    run = change.run_options(timeout, queue=queue)
    return named_job_changes.rerun_named_jobs(change, body.names, namespace, run, failed=failed)


@router.post("/jobs/run", response_model=PlanAnswer, openapi_extra=NAMES)
def run_jobs(
    change: UpdateNamed,
    body: Names,
    namespace: NamespaceOfJob = None,
    queue: Queue = False,
    timeout: Timeout = RunOptions.timeout,
) -> PlanAnswer:
    """Start a run of each of some scheduled trainings now."""
    run = change.run_options(timeout, queue=queue)
    return named_job_changes.change_named_jobs(change, named_trainings.START_RUN, body.names, namespace, run)


@router.post("/jobs/scale", response_model=PlanAnswer, openapi_extra=NAMES)
def scale_jobs(
    change: UpdateNamed,
    body: Names,
    nodes: Nodes,
    namespace: NamespaceOfJob = None,
    checkpoint: Checkpoint = True,
    queue: Queue = False,
    timeout: Timeout = RunOptions.timeout,
) -> PlanAnswer:
    """Change the number of nodes of elastic trainings. A change that restarts running work must be confirmed."""
    run = change.run_options(timeout, queue=queue, checkpoint=checkpoint)
    return named_job_changes.change_named_jobs(change, named_trainings.scale(nodes), body.names, namespace, run)


@router.post("/jobs/pause", response_model=PausedJobs, response_model_exclude_unset=True, openapi_extra=NAMES)
def pause_jobs(
    change: PauseNamed,
    body: Names,
    namespace: NamespaceOfJob = None,
    checkpoint: Checkpoint = True,
) -> PausedJobs:
    """Pause jobs one after another: end their pods and keep the jobs. An error has the jobs that were paused before it
    in ``items``.
    """
    return named_job_changes.pause_named_jobs(change, body.names, namespace, checkpoint=checkpoint)


@router.post("/jobs/resume", response_model=PausedJobs, response_model_exclude_unset=True, openapi_extra=NAMES)
def resume_jobs(
    change: UpdateNamed,
    body: Names,
    namespace: NamespaceOfJob = None,
) -> PausedJobs:
    """Resume paused jobs. Preempting pods of other jobs must be confirmed."""
    return named_job_changes.resume_named_jobs(change, body.names, namespace)


@router.put("/jobs/{jobId}", response_model=ChangedJob, openapi_extra=_DOCUMENTS)
def change_job(
    change: UpdateDocuments,
    job: JobId,
    body: Documents,
    namespace: NamespaceOfJob = None,
    queue: Queue = False,
    profile: Profile = None,
    checkpoint: Checkpoint = True,
) -> ChangedJob:
    """Apply the changed document of a job. A change that ends running work must be confirmed."""
    ref = JobRef(job, namespace)
    return job_changes.change_job(change, ref, body.yaml_content, checkpoint=checkpoint, queue=queue, profile=profile)


@router.delete("/jobs/{jobId}", response_model=JobState, response_model_exclude_unset=True)
def delete(
    change: DeleteOne,
    job: JobId,
    namespace: NamespaceOfJob = None,
    force: Force = False,
    checkpoint: Checkpoint = True,
) -> JobState:
    """Delete a job, without waiting until its pods are gone."""
    return job_changes.delete_job(change, JobRef(job, namespace), force=force, checkpoint=checkpoint)


@router.post("/jobs/{jobId}/pause", response_model=JobState, response_model_exclude_unset=True)
def pause(
    change: PauseOne,
    job: JobId,
    namespace: NamespaceOfJob = None,
    checkpoint: Checkpoint = True,
) -> JobState:
    """Pause a job: end its pods, which frees its GPUs, and keep the job."""
    return job_pausing.pause_job(change, JobRef(job, namespace), checkpoint=checkpoint)


@router.post("/jobs/{jobId}/resume", response_model=JobState, response_model_exclude_unset=True)
def resume(
    change: UpdateOne,
    job: JobId,
    namespace: NamespaceOfJob = None,
) -> JobState:
    """Resume a paused job. Preempting pods of other jobs must be confirmed."""
    return job_pausing.resume_job(change, JobRef(job, namespace))


@router.post("/jobs/{jobId}/rerun", response_model=RerunJob)
def rerun(
    change: UpdateOne,
    job: JobId,
    namespace: NamespaceOfJob = None,
    failed: Failed = False,
    queue: Queue = False,
) -> RerunJob:
    """Run a finished training again. A deleted training is created from its last document, which must be confirmed."""
    return named_job_changes.rerun_job(change, JobRef(job, namespace), queue=queue, failed=failed)


@router.post("/jobs/{jobId}/run", response_model=PlanAnswer)
def run(
    change: UpdateOne,
    job: JobId,
    namespace: NamespaceOfJob = None,
    queue: Queue = False,
) -> PlanAnswer:
    """Start a run of a scheduled training now."""
    return named_job_changes.change_named_jobs(
        change, named_trainings.START_RUN, [job], namespace, change.run_options(queue=queue)
    )


@router.post("/jobs/{jobId}/scale", response_model=PlanAnswer)
def scale(
    change: UpdateOne,
    job: JobId,
    nodes: Nodes,
    namespace: NamespaceOfJob = None,
    checkpoint: Checkpoint = True,
    queue: Queue = False,
) -> PlanAnswer:
    """Change the number of nodes of an elastic training. A change that restarts running work must be confirmed."""
    run = change.run_options(queue=queue, checkpoint=checkpoint)
    return named_job_changes.change_named_jobs(change, named_trainings.scale(nodes), [job], namespace, run)


@router.post("/jobs/{jobId}/rollback", response_model=ChangedJob)
def rollback(
    change: RollBackOne,
    job: JobId,
    namespace: NamespaceOfJob = None,
    to: Annotated[
        int | None,
        Query(
            ge=1,
            le=LARGEST,
            description="Revision of the history. Default: the newest one that differs from the current document.",
        ),
    ] = None,
    queue: Queue = False,
    strategy: ServiceStrategy = None,
    no_probe: NoProbe = False,
    checkpoint: Checkpoint = True,
    force: Force = False,
    timeout: Timeout = RunOptions.timeout,
) -> ChangedJob:
    """Apply an earlier document of a job again. This must be confirmed. The job may have been deleted."""
    planning = PlanOptions(strategy=strategy, no_probe=no_probe, queue=queue)
    run = change.run_options(timeout, force=force, checkpoint=checkpoint)
    return roll_back(change, JobRef(job, namespace), to, planning, run)
