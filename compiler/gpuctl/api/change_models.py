"""Request bodies and responses of changes in the REST API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue

from gpuctl.api.base_models import ApiModel, Body, DryRunBody
from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.objects.sweep_names import MOST_SWEEP_JOBS

Name = Annotated[str, Field(max_length=253)]
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
"""Example of a plan."""


EXAMPLE = """\
kind: training
version: v0.1
job:
  name: qwen2-7b-sft
environment:
  image: registry.example.com/train:v1
  command: ["python", "train.py"]
resources:
  pool: training-pool
  gpu: 1
"""
"""Example of a complete document."""


class ConfirmedBody(DryRunBody):
    """The body of a change with questions."""

    confirmed: list[str] | None = Field(
        None,
        description="The texts of `questions` and `courtesies` that the user has confirmed. If the plan has other "
        "texts, the answer is 409 with the plan.",
        examples=[[]],
    )


class DocumentsBody(DryRunBody):
    """Documents as a text field."""

    model_config = ConfigDict(json_schema_extra={"example": {"yamlContent": EXAMPLE, "dryRun": True}})

    yaml_content: str = Field(description="The documents.")


class SentFile(Body):
    """A file of documents."""

    name: str = Field(max_length=4096, description="Name of the file in diagnostics.", examples=["jobs/train.yaml"])
    text: str = Field(examples=[EXAMPLE])
    in_directory: bool = Field(
        False, description="True if it was found in a directory: documents of other tools are then skipped with a note."
    )


class SentPlatform(Body):
    """The platform file that belongs to the documents. It is not used; a message reports how it differs from the
    service's.
    """

    name: str = Field(max_length=4096, examples=["platform.yaml"])
    value: dict[str, JsonValue] = Field(examples=[{"labelDomain": "runwhere.ai"}])


class FilesBody(DocumentsBody):
    """Documents in one text or in several files."""

    yaml_content: str = Field("", description="The documents.")
    files: list[SentFile] = Field(default_factory=list)
    platform: SentPlatform | None = None
    overrides: list[Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=list,
        max_length=100,
        description="Fields to override for this run, each as `PATH=VALUE` or `JOB:PATH=VALUE`.",
        examples=[["resources.gpu=8"]],
    )


class ChangesBody(FilesBody, ConfirmedBody):
    """Documents to plan, apply or delete."""


class NamesBody(ConfirmedBody):
    """The names of jobs, pools or quotas to change."""

    names: list[Name] = Field(
        min_length=1,
        # All jobs of a sweep are changed by one plan, with one confirmation.
        max_length=MOST_SWEEP_JOBS,
        description="Names; for jobs also ids, KIND/NAME, or names of pods.",
        examples=[["qwen2-7b-sft"]],
    )


class SubmittedJob(ApiModel):
    """A created job; with status ``validated``, one that would be created. ``jobId`` is null for a pool or quota."""

    model_config = ConfigDict(json_schema_extra={"example": _JOB})

    job_id: str | None
    name: str
    namespace: str | None
    kind: str
    pool: str | None
    status: str
    created_at: str | None
    message: str


_NOTE = "no node has the labels runwhere.ai/pool=trainig-pool (did you mean runwhere.ai/pool=training-pool?)"


class PlanRemarks(ApiModel):
    """Findings of the plan's checks that do not prevent it."""

    notes: list[str] = Field(
        default_factory=list,
        description="Notes that do not stop the request, such as a pool or a Secret that does not exist.",
        examples=[[f"{_NOTE}, which training/qwen2-7b-sft will wait for"]],
    )
    questions: list[str] = Field(
        default_factory=list,
        description="Only in a dry run: what the real request must confirm with `?confirm=true`.",
        examples=[[]],
    )


class Submitted(SubmittedJob, PlanRemarks):
    """The first created job; ``jobs`` has all of them if there were several documents."""

    jobs: list[SubmittedJob] | None = Field(None, description="All jobs, if there were several documents.")
    warnings: list[DocumentWarning] = Field(default_factory=list, description="Diagnostics of the documents.")


class BatchItem(PlanRemarks):
    """A created job of a batch; with ``dryRun`` one that would be created (``jobId`` is null)."""

    job_id: str | None = Field(examples=["task1-1x8k2"])
    name: str = Field(examples=["task1"])
    message: str = Field(examples=["training/task1 is submitted to the pool training-pool"])
    warnings: list[DocumentWarning] = Field(default_factory=list, description="Diagnostics of the entry.")


class BatchFailure(ApiModel):
    """A failed entry of a batch: its index (from 0), the error's name and message."""

    index: int = Field(examples=[1])
    name: str | None = Field(examples=["task2"])
    error: str = Field(examples=["AlreadyExists"])
    message: str = Field(examples=["training/task2 in team-a exists already"])
    details: list[Any] = Field(default_factory=list, examples=[[]])


class Batch(ApiModel):
    """The result of a batch."""

    success: list[BatchItem]
    failed: list[BatchFailure]


class ChangedJob(SubmittedJob):
    """A changed job with the plan; with status ``validated``, one that would be changed."""

    model_config = ConfigDict(json_schema_extra={"example": {**_JOB, "plan": PLAN}})

    plan: PlanAnswer
    warnings: list[DocumentWarning] = Field(default_factory=list, description="Diagnostics of the documents.")


class ShortState(ApiModel):
    """A job and the result of an action on it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"jobId": "qwen2-7b-sft-1x8k2", "status": "paused", "message": "training/qwen2-7b-sft is paused"}
        }
    )

    job_id: str
    status: str
    message: str


class JobState(ShortState):
    """A deleted, paused or resumed job; with status ``validated``, one that would be."""

    plan: PlanAnswer | None = Field(
        None, description="Only in a dry run, and not of a pause: the plan, with the action on each object."
    )
    notes: list[str] | None = Field(
        None,
        description="Only of a deleted job: claims that stay, and jobs that wait for the deleted one.",
        examples=[["evaluate in team-a waits for train, and would not start"]],
    )


class RerunJob(ShortState):
    """A training that runs again under a new id; with status ``validated``, one that would."""

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
