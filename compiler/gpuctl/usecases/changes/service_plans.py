"""A plan from the REST API, converted into the plan that commands print and confirm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.api.plan_steps import step_of
from gpuctl.apply.plan.plan import Plan
from gpuctl.frontend.diagnostics import Diagnostic
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


_COMMON = frozenset(field.name for field in fields(ServicePlan)) & frozenset(PlanAnswer.model_fields)


def plan_of(value: Mapping[str, Any]) -> ServicePlan:
    """Return the plan of a response. Unknown fields are ignored.

    :raises ValueError: a field is missing, or has an unknown value.
    """
    answer = PlanAnswer.model_validate(value)
    others = {*answer.tracked, *answer.lacking}
    return ServicePlan(
        **{
            **{name: getattr(answer, name) for name in _COMMON},
            "steps": [step_of(step, step.before, step.after) for step in answer.steps],
            "errors": [text for text in answer.errors if text not in others],
            "set_name": answer.set,
            "recovery": [step_of(step, step.before, step.after) for step in answer.recovery],
            "asked": answer.questions,
            "polite": answer.courtesies,
            "diagnostics": list(map(diagnostic_of, answer.warnings)),
        }
    )
