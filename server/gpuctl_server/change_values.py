"""What became of changes, as the REST API tells it: the seeds' fields, with the plan that the command line has."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.plan_answers import FAILED, plan_value
from gpuctl.apply.plan.plan import Plan
from gpuctl.language.masking import redact
from gpuctl_server.others import told_together
from gpuctl_server.problems import Problem

VALIDATED = "validated"
"""The status of what a dry run has checked."""
NOTHING = "nothing is changed"
_WOULD = (r"(^| )(?:is|stays)(?= )", r"\1would be")
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


PLAN: dict[str, JsonValue] = {
    "steps": [
        {
            "action": "replace",
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": "team-a",
            "name": "qwen2-7b-sft",
            "reason": "spec.template cannot be changed",
            "changes": [{"path": "spec.template.spec.containers[0].image", "from": "train:v1", "to": "train:v2"}],
            "verdict": None,
            "victims": [],
            "waits": [],
            "lost": [],
            "dependents": [],
            "unseen": [],
            "running": "running for 3h",
            "finished": None,
            "checkpoint": None,
            "result": "done",
            "error": None,
        }
    ],
    "summary": {"replace": 1},
    "notes": [],
    "questions": [],
    "errors": [],
}
"""An example of a plan."""


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


_NOTE = "no node has the labels runwhere.ai/pool=trainig-pool (did you mean runwhere.ai/pool=training-pool?)"


class PlanRemarks(BaseModel):
    """What the checks of the plan found that does not stand against it."""

    notes: list[str] = Field(
        default_factory=list,
        description="What deserves attention, such as a pool or a Secret that does not exist.",
        examples=[[f"{_NOTE}, which training/qwen2-7b-sft will wait for"]],
    )
    questions: list[str] = Field(
        default_factory=list,
        description="Of a dry run: what the real request has to confirm with `?confirm=true`.",
        examples=[[]],
    )


class Submitted(SubmittedJob, PlanRemarks):
    """What was created: the first, and of several documents all in ``jobs``."""

    jobs: list[SubmittedJob] | None = Field(None, description="All of several documents.")
    warnings: list[DocumentWarning] = Field(default_factory=list, description="Diagnostics of the documents.")


class BatchItem(PlanRemarks):
    """A job of a batch that was created, or with ``dryRun`` would be (``jobId`` is null then)."""

    jobId: str | None = Field(examples=["task1-1x8k2"])  # noqa: N815
    name: str = Field(examples=["task1"])
    message: str = Field(examples=["training/task1 is submitted to the pool training-pool"])
    warnings: list[DocumentWarning] = Field(default_factory=list, description="Diagnostics of the entry.")


class BatchFailure(BaseModel):
    """An entry of a batch that was not: its place (from 0), the error's name and what it says."""

    index: int = Field(examples=[1])
    name: str | None = Field(examples=["task2"])
    error: str = Field(examples=["AlreadyExists"])
    message: str = Field(examples=["training/task2 in team-a exists already"])
    details: list[Any] = Field(default_factory=list, examples=[[]])


class Batch(BaseModel):
    """What became of a batch."""

    success: list[BatchItem]
    failed: list[BatchFailure]


class Dependent(BaseModel):
    """An object that goes with another."""

    kind: str = Field(examples=["Pod"])
    name: str = Field(examples=["qwen2-7b-sft-x7k2p"])


class PlanVictim(BaseModel):
    """A job whose pods would be evicted; of one that may not be seen only how important it is and how long it runs."""

    namespace: str | None = Field(examples=["team-b"])
    job: str | None = Field(examples=["llama3-pretrain"])
    priority: int = Field(examples=[1000])
    pods: list[str] = Field(examples=[["llama3-pretrain-8c4fn"]])
    runtime: str | None = Field(description="For how long they run.", examples=["3h12m"])
    owner: str | None = Field(description="Whose it is: its label `team`, `creator` or `project`.", examples=["anna"])


class PlanWait(BaseModel):
    """What a job's pods would wait for, or may wait for."""

    cause: str = Field(description="`quota`, `queue` or `room`.", examples=["quota"])
    message: str = Field(
        examples=["quota gpu-quota in team-a: asks 8 nvidia.com/gpu, 3 free; held by training/sft (5)"]
    )
    likelihood: float | None = Field(
        description="1 if they wait in any case; null if that depends on the order in which pods come.",
        examples=[1.0],
    )


class PlanStep(BaseModel):
    """What is done to an object. What is secret is masked."""

    model_config = ConfigDict(extra="forbid")

    action: str = Field(description="create, update, replace, delete, unchanged and others.", examples=["replace"])
    apiVersion: str = Field(examples=["batch/v1"])  # noqa: N815
    kind: str = Field(examples=["Job"])
    namespace: str | None = Field(examples=["team-a"])
    name: str = Field(examples=["qwen2-7b-sft"])
    reason: str | None = Field(examples=["spec.template cannot be changed"])
    changes: list[dict[str, Any]] = Field(
        description="Of each field that changes `path`, `from` and `to`.",
        examples=[[{"path": "spec.template.spec.containers[0].image", "from": "app:v1", "to": "app:v2"}]],
    )
    verdict: str | None = Field(description="Whether its pods find room.", examples=["fits"])
    victims: list[PlanVictim] = Field(description="Whose pods its own would evict.")
    waits: list[PlanWait] = Field(description="What its pods would wait for.", examples=[[]])
    lost: list[dict[str, Any]] = Field(
        description="Fields of somebody else's that are overwritten: as in `changes`, with `manager`.",
        examples=[[{"path": "spec.parallelism", "from": 4, "to": 2, "manager": "kubectl-edit"}]],
    )
    dependents: list[Dependent] = Field(description="What goes with it.")
    unseen: list[str] = Field(description="Kinds that may not be looked through for dependents.", examples=[[]])
    running: str | None = Field(
        description="How long the work that ends has been running; null if no work ends.", examples=["running for 3h"]
    )
    finished: str | None = Field(
        description="When the training that runs again, or is pruned, finished; null for all others.",
        examples=["finished 21d ago (Complete): runs again; its pods and logs are deleted"],
    )
    appliedBy: str | None = Field(  # noqa: N815
        description="Who applied the job last that ends or runs again; null if that is the caller, or unknown.",
        examples=["anna"],
    )
    checkpoint: str | None = Field(
        description="How what runs saves its progress before it ends; null where nothing runs, or has no checkpoint.",
        examples=["python save.py (at most 2m)"],
    )
    result: str = Field(description="`planned`, until it is carried out.", examples=["planned"])
    error: str | None = Field(examples=[None])


class PlanAnswer(BaseModel):
    """A plan: what is done to each object. ``questions`` have to be confirmed, ``errors`` stand against it."""

    model_config = ConfigDict(extra="allow")

    steps: list[PlanStep]
    summary: dict[str, int] = Field(description="Action -> objects.", examples=[{"replace": 1, "unchanged": 2}])
    notes: list[str] = Field(examples=[["the job starts anew"]])
    questions: list[str] = Field(examples=[["training/qwen2-7b-sft runs: it is ended, and starts again"]])
    errors: list[str] = Field(examples=[[]])


class ChangedJob(SubmittedJob):
    """A job that was changed, or (status ``validated``) would be, with the plan."""

    model_config = ConfigDict(json_schema_extra={"example": {**_JOB, "plan": PLAN}})

    plan: PlanAnswer
    warnings: list[DocumentWarning] = Field(default_factory=list, description="Diagnostics of the documents.")


class ShortState(BaseModel):
    """A job that was acted on, under its id."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"jobId": "qwen2-7b-sft-1x8k2", "status": "paused", "message": "training/qwen2-7b-sft is paused"}
        }
    )

    jobId: str  # noqa: N815
    status: str
    message: str


class JobState(ShortState):
    """A job that is deleted, paused or resumed, or (status ``validated``) would be."""

    plan: PlanAnswer | None = Field(None, description="Of a dry run: what would be done to which objects.")


class RerunJob(ShortState):
    """A training that runs again, under an id of its own, or (status ``validated``) would."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "jobId": "qwen2-7b-sft-9k3fw",
                "status": "pending",
                "message": "training/qwen2-7b-sft runs again",
                "plan": PLAN,
            }
        }
    )

    plan: PlanAnswer


class RecoveredObject(BaseModel):
    """What became of an object that a killed run had left."""

    kind: str = Field(examples=["Job"])
    apiVersion: str = Field(examples=["batch/v1"])  # noqa: N815
    namespace: str = Field(examples=["team-a"])
    name: str = Field(examples=["qwen2-7b-sft"])
    outcome: str = Field(examples=["restored"])
    message: str = Field(examples=["job.batch/qwen2-7b-sft is created again"])


class RecoveryFailure(BaseModel):
    """What could not be recovered, and why."""

    namespace: str | None = Field(examples=["team-a"])
    message: str = Field(examples=["the journal of a run cannot be read"])
    hint: str | None = Field(examples=[None])


class Recoveries(BaseModel):
    """What killed runs left: what will be done about it, what was, and what could not be."""

    planned: list[dict[str, Any]] = Field(
        description="Steps as those of a plan; of what is created also `object`, and `ifRefused` what is tried then.",
        examples=[[{"action": "create", "apiVersion": "batch/v1", "kind": "Job", "name": "qwen2-7b-sft"}]],
    )
    recovered: list[RecoveredObject]
    problems: list[RecoveryFailure]
    questions: list[str] = Field(examples=[["job.batch/qwen2-7b-sft in team-a is created again"]])


def intended(said: str) -> str:
    """Return what was done as what would be done: ``it is paused`` -> ``it would be paused; nothing is changed``."""
    return f"{re.sub(*_WOULD, said, count=1)}; {NOTHING}"


def full_plan(plan: Plan) -> dict[str, Any]:
    """A plan with what has to be confirmed, and what stands against it."""
    value = {
        **plan_value(plan),
        "questions": [redact(text) for text in plan.questions],
        "errors": [redact(text) for text in plan.obstacles],
    }
    told: dict[str, Any] = told_together(value)
    return told


def see_that_all_was_done(plan: Plan) -> None:
    """See that a plan was carried out to its end.

    :raises Problem: 409, or 503 where the cluster failed, or the service ends.
    """
    wrong = [step for step in plan.steps if step.result in FAILED]
    left = [step for step in plan.steps if step.result == "not-run"]
    if not wrong and not left:
        return
    away = plan.outage or plan.interrupted
    text = "; ".join(redact(step.error) for step in (*wrong, *left) if step.error)
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
