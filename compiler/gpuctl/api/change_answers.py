"""JSON of paused and resumed jobs."""

from __future__ import annotations

from pydantic import Field

from gpuctl.acts.pause_writes import PauseResult
from gpuctl.api.base_models import ApiModel
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.reading.jobs.job_objects import Job, job_id


class PausedJobAnswer(ApiModel):
    """The result of pausing or resuming a job. The status of a dry run is ``validated``."""

    job_id: str = Field(examples=["qwen2-7b-sft-1x8k2"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    status: str = Field(examples=["paused"])
    changed: bool = Field(description="False if the job already had this state.", examples=[True])
    message: str = Field(examples=["is paused; its pod ends"])


class PausedJobs(ApiModel):
    """Jobs that were paused or resumed."""

    items: list[PausedJobAnswer]
    plan: PlanAnswer | None = Field(
        None, description="Only in a dry run of a resume: the plan, with the action on each object."
    )


def paused_job(job: Job, result: PauseResult) -> PausedJobAnswer:
    """Return the result of pausing or resuming a job."""
    return PausedJobAnswer.taken_from(
        result,
        job_id=job_id(job),
        name=job.identity.name,
        namespace=result.key.namespace,
        kind=job.identity.kind,
    )
