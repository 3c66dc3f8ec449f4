"""Waiting for jobs: the requests and the results."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuctl.api.base_models import ApiModel, Body
from gpuctl.reading.wait_until import LONGEST_WAIT, MOST_JOBS

Condition = Literal["running", "ready", "done", "deleted", "started"]


class WaitedName(Body):
    """A job that is waited for."""

    job: str = Field(
        max_length=253,
        description="A jobId, a job's name, or the name of one of its pods.",
        examples=["qwen2-7b-sft"],
    )
    namespace: str = Field("", max_length=63, description="Where the job is.")
    kind: str = Field("", max_length=63, description="Its kind, if jobs of several kinds have the name.")
    job_id: str = Field(
        "", max_length=253, description="The id that the job had before: with another one it was made again since."
    )


class JobsWaitQuestion(Body):
    """Several jobs, the condition that they are waited for, and for how long."""

    jobs: list[WaitedName] = Field(
        min_length=1, max_length=MOST_JOBS, examples=[[{"job": "qwen2-7b-sft"}, {"job": "eval"}]]
    )
    condition: Condition = Field(
        examples=["done"],
        description="`started`: all pods are ready, or the job needs none, as it has finished or is paused.",
    )
    timeout: float = Field(
        LONGEST_WAIT,
        ge=0,
        le=LONGEST_WAIT,
        description="Seconds until this request is answered at the latest.",
        examples=[30],
    )
    limit: float | None = Field(
        None,
        ge=0,
        description="Seconds after which a job is late, in all requests together; without it never.",
        examples=[600],
    )
    waited: float = Field(0, ge=0, description="Seconds of `limit` that earlier requests have waited.", examples=[120])


class WaitItem(ApiModel):
    """The result of waiting for a job."""

    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str | None = Field(examples=["team-a"])
    kind: str | None = Field(examples=["training"])
    condition: str = Field(examples=["done"])
    met: bool = Field(examples=[True])
    message: str = Field(examples=["training/qwen2-7b-sft has succeeded"])
    status: str | None = Field(examples=["succeeded"])
    reason: str | None = Field(examples=[None])


class WaitAnswer(ApiModel):
    """``gpuctl wait -o json``."""

    items: list[WaitItem]


class WaitedItem(WaitItem):
    """A job for which there is nothing more to wait."""

    index: int = Field(description="The place of the job in `jobs`, from 0.", examples=[0])
    outcome: Literal["met", "late", "failed", "gone", "never"] = Field(
        description="`late`: not in time. `gone`: deleted. `never`: a job of its kind has no such condition.",
        examples=["met"],
    )
    cause: str | None = Field(description="Why it is late or has failed, where that is known.", examples=[None])


class JobsWaitAnswer(ApiModel):
    """The jobs for which there is nothing more to wait; ask again for the others."""

    items: list[WaitedItem]
    message: str | None = Field(
        description="The condition that is waited for in the other jobs; null if there are none.",
        examples=["waiting until done: training/eval: Running"],
    )
