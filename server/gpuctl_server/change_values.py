"""What became of changes, as the REST API tells it: the seeds' fields, with the plan that the command line has."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gpuctl.answers.advice import for_rest, reworded
from gpuctl.answers.plan_answers import FAILED, plan_value
from gpuctl.apply.plan.plan import Plan
from gpuctl.language.masking import redact
from gpuctl_server.problems import Problem

_JOB: dict[str, JsonValue] = {
    "jobId": "qwen2-7b-sft-1x8k2",
    "name": "qwen2-7b-sft",
    "namespace": "team-a",
    "kind": "training",
    "pool": "training-pool",
    "status": "pending",
    "createdAt": "2024-06-01T10:00:00Z",
    "message": "training/qwen2-7b-sft is submitted to the pool training-pool",
}


class SubmittedJob(BaseModel):
    """A job that was created, or (status ``validated``) would be. Of a pool or quota ``jobId`` is null."""

    model_config = ConfigDict(json_schema_extra={"example": _JOB})

    jobId: str | None  # noqa: N815 - as the answer has it
    name: str
    namespace: str | None
    kind: str
    pool: str | None
    status: str
    createdAt: str | None  # noqa: N815
    message: str


class Submitted(SubmittedJob):
    """What was created: the first, and of several documents all in ``jobs``."""

    jobs: list[SubmittedJob] | None = Field(None, description="All of several documents.")
    warnings: list[dict[str, Any]] = Field(default_factory=list, description="Diagnostics of the documents.")


class BatchItem(BaseModel):
    """A job of a batch that was created."""

    model_config = ConfigDict(json_schema_extra={"example": {"jobId": "task1-1x8k2", "name": "task1"}})

    jobId: str | None  # noqa: N815
    name: str


class BatchFailure(BaseModel):
    """An entry of a batch that was not: its place (from 0), the error's name and what it says."""

    index: int
    name: str | None
    error: str
    message: str
    details: list[Any] = Field(default_factory=list)


class Batch(BaseModel):
    """What became of a batch."""

    success: list[BatchItem]
    failed: list[BatchFailure]


class PlanAnswer(BaseModel):
    """A plan: what is done to each object. ``questions`` have to be confirmed, ``errors`` stand against it."""

    model_config = ConfigDict(extra="allow")

    steps: list[dict[str, Any]]
    summary: dict[str, int]
    notes: list[str]
    questions: list[str]
    errors: list[str]


class ChangedJob(SubmittedJob):
    """A job that was changed, or (status ``validated``) would be, with the plan."""

    plan: PlanAnswer
    warnings: list[dict[str, Any]] = Field(default_factory=list)


class JobState(BaseModel):
    """A job that is deleted, paused or resumed."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"jobId": "qwen2-7b-sft-1x8k2", "status": "paused", "message": "training/qwen2-7b-sft is paused"}
        }
    )

    jobId: str  # noqa: N815
    status: str
    message: str


class RerunJob(JobState):
    """A training that runs again, under an id of its own."""

    plan: PlanAnswer


class Recoveries(BaseModel):
    """What killed runs left: what will be done about it, what was, and what could not be."""

    planned: list[dict[str, Any]]
    recovered: list[dict[str, Any]]
    problems: list[dict[str, Any]]
    questions: list[str]


def full_plan(plan: Plan) -> dict[str, Any]:
    """A plan with what has to be confirmed, and what stands against it."""
    value = {
        **plan_value(plan),
        "questions": [redact(text) for text in plan.questions],
        "errors": [redact(text) for text in plan.obstacles],
    }
    for step in value["steps"]:
        step["reason"] = reworded(step["reason"], for_rest)
    return {**value, **{name: reworded(value[name], for_rest) for name in ("notes", "questions", "errors")}}


def see_that_all_was_done(plan: Plan) -> None:
    """See that a plan was carried out to its end.

    :raises Problem: 409, or 503 where the cluster failed, or the service ends.
    """
    wrong = [step for step in plan.steps if step.result in FAILED]
    left = [step for step in plan.steps if step.result == "not-run"]
    if not wrong and not left:
        return
    away = plan.outage or plan.interrupted
    text = "; ".join(for_rest(redact(step.error)) for step in (*wrong, *left) if step.error)
    if plan.interrupted and not wrong:
        text = text or "the service ends, and this was not begun any more"
    hint = "`POST /recoveries` finishes what was begun" if plan.unfinished else None
    raise Problem(
        503 if away else 409,
        text or "not everything was done",
        error="ServiceUnavailable" if away else "NotApplied",
        details=full_plan(plan)["steps"],
        hint=hint,
    )
