"""Plans of ``apply``, ``create``, ``delete``, ``diff`` and other commands, before and after they are carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.error_meanings import UNDETERMINED
from gpuctl.api.plan_steps import PlanStep, StepFields, step_value
from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.plan.step_diff import before_and_after
from gpuctl.language.masking import redact
from gpuctl.objects.ownership_metadata import Records

FAILED = frozenset({"failed", "restored", "rolled-back"})
"""Results of steps that failed or were undone."""
SIGNALLED = 128


class PlanFields(ApiModel):
    """Fields of every plan."""

    steps: list[StepFields]
    summary: dict[str, int] = Field(
        description="Action -> number of objects.", examples=[{"replace": 1, "unchanged": 2}]
    )
    notes: list[str] = Field(examples=[["the job starts anew"]])


class PlannedSet(ApiModel):
    """The set of the documents of a plan; null without one."""

    set: str | None


class PlanOutput(PlanFields, PlannedSet):
    """``apply -o json`` and similar output. ``error``: why nothing, or not everything, was done."""

    recovery: list[StepFields] = Field([])
    error: str | None = None


class PlanAnswer(PlanFields):
    """A plan: the action on each object. ``questions`` need confirmation, ``errors`` prevent the plan."""

    steps: list[PlanStep]  # type: ignore[assignment]
    questions: list[str] = Field(examples=[["training/qwen2-7b-sft runs: it is ended, and starts again"]])
    errors: list[str] = Field(examples=[[]])
    set: str | None = Field(
        None, description="The name of the set of the documents; null without one.", examples=[None]
    )
    recovery: list[PlanStep] = Field([], description="Steps that first complete or undo an interrupted run.")
    courtesies: list[str] = Field(
        [],
        description="Running work that the request names and ends. It needs no confirmation unless the request has "
        "`confirmed`.",
        examples=[[]],
    )
    tracked: list[str] = Field([], description="The part of `errors` about objects of Argo CD or Flux.", examples=[[]])
    lacking: list[str] = Field([], description="The part of `errors` about missing rights.", examples=[[]])
    can_queue: bool = Field(
        False, description="The `errors` are full quotas: with `queue` the jobs are created, and wait for room."
    )
    finished: list[int] = Field(
        [], description="Indexes of the finished steps, in the order in which they finished.", examples=[[0]]
    )
    carried_out: bool = Field(False, description="The plan was carried out; `result` of each step has its outcome.")
    outage: bool = Field(False, description="True if steps failed because of an outage of the cluster.")
    interrupted: int = Field(0, description="The signal that stopped the run; 0 without any.", examples=[0])
    unfinished: bool = Field(False, description="A journal remains: `POST /recoveries` finishes the run.")
    messages: list[str] = Field([], description="Messages of the run.", examples=[[]])
    warnings: list[DocumentWarning] = Field([], description="Diagnostics of the documents.")


def plan_value(plan: Plan, *, error: str | None = None) -> dict[str, Any]:
    """Return a plan in the form of ``-o json``, masked. ``error``: why nothing, or not everything, was done."""
    return PlanOutput(**output_fields(plan, error=error)).as_json()


def output_fields(plan: Plan, *, error: str | None) -> dict[str, Any]:
    """Return the fields of :class:`PlanOutput`, masked."""
    value = {**_fields(plan, step_value), "set": plan.set_name}
    if plan.recovery:
        value["recovery"] = [step_value(step) for step in plan.recovery]
    return value if error is None else {**value, "error": error}


def answer_value(plan: Plan, keys: Records | None = None) -> dict[str, Any]:
    """Return the fields of :class:`PlanAnswer`, masked.

    :param keys: the annotation and label keys of gpuctl to remove from the objects before and after; None: omit the
    objects.
    """

    def shown(step: Step) -> dict[str, Any]:
        value = step_value(step)
        if keys is not None and step.action in WRITING:
            value["before"], value["after"] = before_and_after(step, keys)
        return value

    return {
        **_fields(plan, shown),
        "questions": [redact(text) for text in plan.questions],
        "errors": [redact(text) for text in plan.obstacles],
        "set": plan.set_name,
        "recovery": [shown(step) for step in plan.recovery],
        "courtesies": [redact(text) for text in plan.courtesies],
        "tracked": [redact(text) for text in plan.tracked],
        "lacking": [redact(text) for text in plan.lacking],
        "can_queue": plan.can_queue,
        "outage": plan.outage,
        "interrupted": plan.interrupted,
        "unfinished": plan.unfinished,
    }


def _fields(plan: Plan, value_of: Callable[[Step], dict[str, Any]]) -> dict[str, Any]:
    return {
        "steps": [value_of(step) for step in plan.steps],
        "summary": plan.summary,
        "notes": [redact(note) for note in plan.notes],
    }


def preview_code(plan: Plan) -> int:
    """Return the exit code of a plan that was not carried out: 0, 1 if it has obstacles, 3 if a right is missing."""
    return 1 if plan.errors or plan.tracked else 3 if plan.lacking else 0


def difference_code(plan: Plan) -> int:
    """Return the exit code of a comparison: 0 no differences, 1 differences, 2 undetermined.

    Missing rights and objects that a GitOps controller tracks prevent an apply, but no comparison.
    """
    if plan.errors:
        return UNDETERMINED
    return 1 if plan.writes or plan.recovery else 0


def result_code(plan: Plan) -> int:
    """Return the exit code of a plan that was carried out: 0, 1 if not completely, 3 if the cluster failed.

    After an interrupt it is that of a shell: 130 after Ctrl-C, 143 after SIGTERM.
    """
    if any(step.result in FAILED for step in plan.steps):
        return 3 if plan.outage else 1
    if plan.interrupted:
        return SIGNALLED + plan.interrupted
    return 1 if any(step.result == "not-run" for step in plan.steps) else 0
