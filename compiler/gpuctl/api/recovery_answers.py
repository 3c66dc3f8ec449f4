"""Interrupted runs: what a recovery would do, what it did, and what it could not do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.plan_steps import StepFields, step_value
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.step_diff import before_and_after
from gpuctl.apply.run.recovery import Recovery, RecoveryOutcome
from gpuctl.apply.run.recovery_plan import RecoveryPlan, RecoveryProblem
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import Records


class RecoveryStep(StepFields):
    """A step of a recovery."""

    object: dict[str, Any] | None = Field(None, description="The whole object that is created.", examples=[None])
    if_refused: dict[str, Any] | None = Field(
        None, description="The object to create if `object` is rejected.", examples=[None]
    )


class RecoveredObject(ApiModel):
    """The recovery of an object after an interrupted run."""

    kind: str = Field(examples=["Job"])
    api_version: str = Field(examples=["batch/v1"])
    namespace: str = Field(examples=["team-a"])
    name: str = Field(examples=["qwen2-7b-sft"])
    outcome: str = Field(examples=["restored"])
    message: str = Field(examples=["job.batch/qwen2-7b-sft is created again"])


class ProblemFields(ApiModel):
    """An object that could not be recovered, and the reason, in the form of ``-o json``."""

    namespace: str | None = Field(examples=["team-a"])
    message: str = Field(examples=["the journal of a run cannot be read"])
    hint: str | None = Field(examples=[None])


class RecoveryFailure(ProblemFields):
    """An object that could not be recovered, and the reason."""

    refused: bool = Field(True, description="True if gpuctl decided so; false after a failure of the cluster.")


class RecoveryFields(ApiModel):
    """Fields of every response about interrupted runs."""

    planned: list[RecoveryStep] = Field(
        description="Steps like those of a plan. A step that creates an object also has `object`, and `ifRefused`, "
        "which is tried if `object` is refused.",
    )
    recovered: list[RecoveredObject]
    problems: list[ProblemFields]


class RecoveryOutput(RecoveryFields):
    """``recover -o json``. ``error``: why nothing was done."""

    error: str | None = None


class Recoveries(RecoveryFields):
    """Interrupted runs: the planned steps, the recovered objects, and the failures."""

    problems: list[RecoveryFailure]  # type: ignore[assignment]
    questions: list[str] = Field(examples=[["job.batch/qwen2-7b-sft in team-a is created again"]])
    journals: int = Field(0, description="Number of interrupted runs.", examples=[1])
    working: dict[str, str] = Field(
        {}, description="Namespace -> user whose run may still be active in it.", examples=[{"team-a": "anna"}]
    )


def recoveries(plan: RecoveryPlan, result: Recovery, questions: Iterable[str], keys: Records) -> Recoveries:
    """Return the answer about interrupted runs, masked.

    :param result: what was recovered, and the problems.
    :param questions: the questions that must be confirmed before.
    """
    return Recoveries(
        planned=[_planned(step, keys, plan.fallbacks.get(step.key)) for step in plan.steps],
        recovered=[_recovered(item) for item in result.results],
        problems=[_problem(problem) for problem in result.problems],
        questions=[redact(text) for text in questions],
        journals=len(plan.journals),
        working=plan.working,
    )


def output_value(found: Recoveries, error: str | None = None) -> dict[str, Any]:
    """Return the answer in the form of ``-o json``. ``error``: why nothing was done."""
    output = RecoveryOutput.model_validate(found)
    if error is not None:
        output.error = error
    value = output.as_json()
    for step in value["planned"]:
        for name in ("object", "ifRefused"):
            if step.get(name) is None:
                step.pop(name, None)
    return value


def _planned(step: Step, keys: Records, old: Object | None) -> RecoveryStep:
    """Return a step of a recovery with the object that it creates, and the fallback if that is refused."""
    objects = {}
    if step.action == "create":
        objects["object"] = before_and_after(step, keys)[1]
        if old is not None:
            objects["if_refused"] = before_and_after(Step("create", step.key, desired=old), keys)[1]
    return RecoveryStep(**step_value(step), **objects)


def _recovered(item: RecoveryOutcome) -> RecoveredObject:
    return RecoveredObject(
        kind=item.key.kind,
        apiVersion=item.key.resource.api_version,
        namespace=item.key.namespace,
        name=item.key.name,
        outcome=item.outcome,
        message=item.message,
    )


def _problem(problem: RecoveryProblem) -> RecoveryFailure:
    message = redact(problem.message)
    return RecoveryFailure(namespace=problem.namespace, message=message, hint=problem.hint, refused=problem.refused)


def recovery_code(found: Recoveries) -> int:
    """Return the exit code of a recovery: 0, 1 if something was not recovered, 3 if the cluster failed."""
    if any(not problem.refused for problem in found.problems):
        return 3
    return 1 if found.problems or any(item.outcome == "failed" for item in found.recovered) else 0
