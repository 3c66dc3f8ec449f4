"""`recover` through a service: show and confirm here, finish there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuctl.api.plan_answers import Recoveries
from gpuctl.apply.plan.plan import Declined, Step
from gpuctl.apply.run.recovery import Recovery, RecoveryOutcome
from gpuctl.apply.run.recovery_plan import RecoveryProblem
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.usecases.changes.service_plans import ServicePlan, step_of
from gpuctl.usecases.changes.service_requests import changed_error, response_timeout, run_query
from gpuctl.usecases.service.service_client import ServiceClient, ServiceRefusal


@dataclass(frozen=True)
class ServiceOutlook:
    """The printed part of an :class:`~gpuctl.apply.run.recovery_plan.RecoveryPlan`."""

    journals: int
    steps: list[Step]
    fallbacks: dict[Key, Object]
    working: dict[str, str]


@dataclass(frozen=True)
class ServiceRecovery:
    """Interrupted runs from a service; see :class:`~gpuctl.usecases.changes.run_recovery.UnfinishedRecovery`."""

    outlook: ServiceOutlook
    keys: Records
    result: Recovery
    questions: list[str]

    @property
    def plan(self) -> ServicePlan:
        """Return the recovery as a plan that the user confirms."""
        return ServicePlan(recovery=self.outlook.steps, asked=self.questions)


def unfinished_of_service(service: ServiceClient, namespace: str | None) -> ServiceRecovery:
    """Return what killed runs left in a namespace, or in all visible ones."""
    with service.reading() as get:
        return _unfinished(get("/recoveries", namespace=namespace or ""))


def recover_by_service(
    service: ServiceClient, namespace: str | None, run: RunOptions, callbacks: RunCallbacks, found: ServiceRecovery
) -> ServiceRecovery:
    """Finish what killed runs left. The creation of objects has to be confirmed.

    :raises Declined: the user did not confirm.
    :raises ConfirmationMissing: the user cannot be asked.
    """
    if found.questions and not callbacks.confirm(found.plan):
        raise Declined("not confirmed", found.plan)
    callbacks.on_wait("the service is recovering ...")
    query, within = {"namespace": namespace or "", **run_query(run)}, response_timeout(run, checkpoints=0)
    try:
        with service.reading():
            body = {"confirmed": found.questions}
            return _unfinished(service.request("POST", "/recoveries", body, query=query, within=within))
    except ServiceRefusal as error:
        if error.name == "NotConfirmed":
            raise changed_error("more has to be recovered than what was confirmed") from None
        raise


def _unfinished(value: Mapping[str, Any]) -> ServiceRecovery:
    answer = Recoveries.model_validate(value)
    steps, fallbacks = [], {}
    for item in answer.planned:
        step = step_of(item)
        step.shown = None, item.object
        steps.append(step)
        if item.if_refused is not None:
            fallbacks[step.key] = item.if_refused
    results = [
        RecoveryOutcome(Key(item.kind, item.namespace, item.name), item.outcome, item.message)
        for item in answer.recovered
    ]
    problems = [
        RecoveryProblem(item.namespace or "", item.message, item.hint, item.refused) for item in answer.problems
    ]
    outlook = ServiceOutlook(answer.journals, steps, fallbacks, answer.working)
    return ServiceRecovery(outlook, records(Settings()), Recovery(results, problems), answer.questions)
