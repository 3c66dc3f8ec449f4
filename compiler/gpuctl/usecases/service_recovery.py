"""``recover`` by the service: what killed runs left is shown here, confirmed, and finished there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.apply.plan.plan import Declined, Step
from gpuctl.apply.run.options import RunCallbacks, RunOptions
from gpuctl.apply.run.recovery import Recovered, Recovery
from gpuctl.apply.run.recovery_plan import RecoveryProblem
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.usecases.service_changes import ToldPlan
from gpuctl.usecases.service_client import Refusal, ServiceClient, error_of


class ToldFallback(NamedTuple):
    """The object that is created where the server refuses the new one."""

    key: Key
    object: Object | None


class ToldOutlook(NamedTuple):
    """As :class:`~gpuctl.apply.run.recovery_plan.Outlook`; ``journals`` is how many there are."""

    journals: int
    steps: list[Step]
    fallbacks: list[ToldFallback]
    working: dict[str, str]


class ToldRecovery(NamedTuple):
    """What killed runs left and what became of it; ``asks``: nothing was done, as more has to be confirmed."""

    outlook: ToldOutlook
    results: list[Recovered]
    problems: list[RecoveryProblem]
    questions: list[str]
    asks: bool = False
    refusal: Refusal | None = None


@dataclass(frozen=True)
class SeenOutlook:
    """What is shown of an :class:`~gpuctl.apply.run.recovery_plan.Outlook`."""

    journals: int
    steps: list[Step]
    fallbacks: dict[Key, Object]
    working: dict[str, str]


@dataclass(frozen=True)
class UnfinishedThere:
    """As :class:`~gpuctl.usecases.recovering.Unfinished`, as the service tells it."""

    outlook: SeenOutlook
    keys: Records
    result: Recovery
    questions: list[str]

    @property
    def plan(self) -> ToldPlan:
        """It as a plan, for whoever has to confirm it."""
        return ToldPlan(recovery=self.outlook.steps, asked=self.questions)


def look_by_service(service: ServiceClient, namespace: str | None) -> UnfinishedThere:
    """As :func:`gpuctl.usecases.recovering.look_at_unfinished`."""
    return _unfinished(service.ask_about(namespace, "recoveries", ToldRecovery))


def recover_by_service(
    service: ServiceClient, namespace: str | None, run: RunOptions, callbacks: RunCallbacks, found: UnfinishedThere
) -> UnfinishedThere:
    """As :func:`gpuctl.usecases.recovering.recover`.

    :raises Declined: somebody said no.
    :raises Unasked: nobody can be asked.
    """
    if found.questions and not callbacks.confirm(found.plan):
        raise Declined("not confirmed", found.plan)
    callbacks.wait("the service is recovering ...")
    told = service.ask("changes/recover", ToldRecovery, where=namespace, run=run, confirmed=found.questions)
    if told.asks:
        raise error_of(
            Refusal(409, "Changed", "more has to be recovered than what was confirmed", "run it again"), None
        )
    if told.refusal is not None:
        raise error_of(told.refusal, None)
    return _unfinished(told)


def _unfinished(told: ToldRecovery) -> UnfinishedThere:
    outlook = told.outlook
    fallbacks = {item.key: item.object for item in outlook.fallbacks if item.object is not None}
    seen = SeenOutlook(outlook.journals, outlook.steps, fallbacks, outlook.working)
    result = Recovery(told.results, told.problems)
    return UnfinishedThere(seen, records(Settings()), result, told.questions)
