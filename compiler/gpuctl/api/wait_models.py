"""Waiting for jobs: the requests and the results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from gpuctl.api.base_models import LEGAL_NAMESPACE, ApiModel, Body
from gpuctl.reading.jobs.wait_until import LONGEST_WAIT, MOST_JOBS, WaitResult

Condition = Literal["running", "ready", "done", "deleted", "started"]


class WaitedName(Body):
    """A job to wait for."""

    job: str = Field(
        max_length=253,
        description="Id of the job, its name, or the name of one of its pods.",
        examples=["qwen2-7b-sft"],
    )
    namespace: Annotated[str, Field(max_length=63), LEGAL_NAMESPACE] = Field(
        "", description="Namespace of the job; required if the name is ambiguous."
    )
    kind: str = Field(
        "", max_length=63, description="Kind of the job; required if jobs of several kinds have the name."
    )
    job_id: str = Field(
        "",
        max_length=253,
        description="The job's id of an earlier response: if it differs, the job was created again since.",
    )


class JobsWaitQuestion(Body):
    """Jobs to wait for, the condition, and the time limit."""

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
        description="Maximum time until the response, seconds.",
        examples=[30],
    )
    limit: float | None = Field(
        None,
        ge=0,
        description="Seconds, over all requests, after which a job is late; null: never.",
        examples=[600],
    )
    waited: float = Field(
        0, ge=0, description="Part of `limit` that earlier requests have waited, seconds.", examples=[120]
    )


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
    """The results of waiting for jobs."""

    items: list[WaitItem]

    @classmethod
    def of(cls, results: Iterable[WaitResult]) -> WaitAnswer:
        """Return the results, as ``wait -o json`` prints them."""
        return cls(items=[WaitItem(**wait_fields(result)) for result in results])


class WaitedItem(WaitItem):
    """A job for which the wait has ended."""

    index: int = Field(description="The index of the job in `jobs`, from 0.", examples=[0])
    outcome: Literal["met", "late", "failed", "gone", "never"] = Field(
        description="`late`: not in time. `gone`: deleted. `never`: jobs of this kind do not have the condition.",
        examples=["met"],
    )
    cause: str | None = Field(description="The cause why it is late or has failed; null if unknown.", examples=[None])


class JobsWaitAnswer(ApiModel):
    """The jobs for which the wait has ended; repeat the request for the others."""

    items: list[WaitedItem]
    message: str | None = Field(
        description="The condition for which the other jobs are waited for; null if there are no others.",
        examples=["waiting until done: training/eval: Running"],
    )


def wait_fields(result: WaitResult) -> dict[str, Any]:
    """Return the fields of :class:`WaitItem`."""
    identity, status = result.identity, result.status
    return {
        "name": identity.name if identity else result.name,
        "namespace": identity.namespace if identity else None,
        "kind": identity.kind if identity else None,
        "condition": result.condition,
        "met": result.met,
        "message": result.message,
        "status": status.word if status else None,
        "reason": (status.reason if status else None) or None,
    }
