"""A plan from the REST API, converted into the plan that commands print and confirm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from gpuctl.api.plan_answers import PlanAnswer, PlanStep, PlanVictim, StepFields
from gpuctl.apply.plan.plan import Action, EvictedJob, Plan, Result, Step, Wait
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.gitops.value_change import ValueChange
from gpuctl.objects.api_resources import RESOURCES, Key
from gpuctl.usecases.documents.service_documents import diagnostic_of


@dataclass
class ServicePlan(Plan):
    """A plan made by a service. It has no objects, so the questions computed from them are fields.

    :ivar finished: indexes of steps in the order in which they finished.
    :ivar messages: messages of the service; ``diagnostics``: its warnings about documents.
    :ivar carried_out: False for a plan that was refused or only previewed.
    """

    asked: list[str] = field(default_factory=list)
    polite: list[str] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    carried_out: bool = False

    @property
    def questions(self) -> list[str]:
        """Return the questions of the service's plan."""
        return self.asked

    @property
    def courtesies(self) -> list[str]:
        """Return the courtesies of the service's plan."""
        return self.polite


def plan_of(value: Mapping[str, Any]) -> ServicePlan:
    """Return the plan of a response. Unknown fields are ignored.

    :raises ValueError: a field is missing, or has an unknown value.
    """
    answer = PlanAnswer.model_validate(value)
    others = {*answer.tracked, *answer.lacking}
    return ServicePlan(
        steps=list(map(_step, answer.steps)),
        errors=[text for text in answer.errors if text not in others],
        lacking=answer.lacking,
        tracked=answer.tracked,
        notes=answer.notes,
        set_name=answer.set,
        interrupted=answer.interrupted,
        outage=answer.outage,
        unfinished=answer.unfinished,
        recovery=list(map(_step, answer.recovery)),
        asked=answer.questions,
        polite=answer.courtesies,
        finished=answer.finished,
        messages=answer.messages,
        diagnostics=list(map(diagnostic_of, answer.warnings)),
        carried_out=answer.carried_out,
    )


def step_of(value: StepFields) -> Step:
    """Return a step without its objects.

    :raises ValueError: the kind, action or result is unknown.
    """
    if value.kind not in RESOURCES or value.action not in get_args(Action) or value.result not in get_args(Result):
        raise ValueError(f"{value.action} {value.kind}: {value.result}")
    namespace = value.namespace or ""
    return Step(
        value.action,  # type: ignore[arg-type]
        Key(value.kind, namespace, value.name),
        value.reason or "",
        changes=[FieldOutcome(item["path"], item.get("from"), item.get("to")) for item in value.changes],
        document_changes=[
            ValueChange(item["path"], item.get("from"), item.get("to")) for item in value.document_changes
        ],
        running=value.running,
        finished=value.finished,
        applied_by=value.applied_by,
        checkpoint=value.checkpoint,
        verdict=value.verdict,
        victims=list(map(_victim, value.victims)),
        waits=[Wait(item.cause, item.message, item.likelihood) for item in value.waits],
        lost=[FieldOutcome(item["path"], item.get("from"), item.get("to"), (item["manager"],)) for item in value.lost],
        dependents=[Key(item.kind, namespace, item.name) for item in value.dependents],
        unseen=value.unseen,
        result=value.result,  # type: ignore[arg-type]
        error=value.error,
        shown=(None, None),
    )


def _step(value: PlanStep) -> Step:
    step = step_of(value)
    step.title, step.shared, step.expired = value.title, value.shared, value.expired
    step.shown = value.before, value.after
    return step


def _victim(value: PlanVictim) -> EvictedJob:
    seen = value.job is not None
    return EvictedJob(
        value.namespace or "", value.job or "", value.priority, tuple(value.pods), value.runtime, value.owner, seen
    )
