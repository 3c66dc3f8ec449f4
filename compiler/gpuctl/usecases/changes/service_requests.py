"""A change as a request to the REST API. Its questions are confirmed here, and the confirmation is sent with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gpuctl.apply.plan.plan import Declined, Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.frontend.diagnostics import in_source_order
from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.usecases.changes.service_plans import ServicePlan, plan_of
from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from gpuctl.usecases.documents.service_documents import GatheredDocuments, compiler_errors
from gpuctl.usecases.service.service_client import MARGIN, RESPONSE_TIMEOUT, ServiceClient, ServiceRefusal


class _Answer(NamedTuple):
    plan: ServicePlan
    refusal: ServiceRefusal | None = None


@dataclass(frozen=True)
class ServiceChange:
    """A POST request whose response is a plan.

    :param within: maximum duration of the response, seconds.
    :param found: the documents in the body; None without documents.
    :param part: the field of the response that contains the plan; "" if the response is the plan.
    """

    service: ServiceClient
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    within: float = RESPONSE_TIMEOUT
    found: GatheredDocuments | None = None
    part: str = ""

    def plan(self, callbacks: RunCallbacks) -> Plan:
        """Return the plan without changing anything; a plan that cannot be carried out has errors.

        :raises InvalidDocuments: the documents have errors.
        """
        plan, refusal = self._answer(self.body)
        self._report(plan, callbacks, is_first=True)
        if refusal is not None and not plan.obstacles:
            raise refusal
        return plan

    def preview(self, callbacks: RunCallbacks) -> Plan:
        """Return the plan of a dry run."""
        return replace(self, body={**self.body, "dryRun": True}).plan(callbacks)

    def carry_out(self, callbacks: RunCallbacks) -> Plan:
        """Carry out the plan after its questions are confirmed.

        :raises InvalidDocuments: the documents have errors.
        :raises Declined: the user did not confirm.
        """
        callbacks = callbacks.without_repeats()
        callbacks.on_wait("the service is comparing with the cluster ...")
        plan, refusal = self._changed([])
        self._report(plan, callbacks, is_first=True)
        if refusal is not None and refusal.name == "NotConfirmed":
            if not callbacks.confirm(plan):
                raise Declined("not confirmed", plan)
            callbacks.on_wait("the service is changing the cluster ...")
            plan, refusal = self._changed([*plan.questions, *plan.courtesies])
            if refusal is not None and refusal.name == "NotConfirmed":
                raise changed_error("more would be lost than what was confirmed")
            self._report(plan, callbacks)
        for place in plan.finished:
            callbacks.on_step_done(plan.steps[place])
        if refusal is not None and not plan.carried_out:
            raise refusal
        return plan

    def _changed(self, confirmed: list[str]) -> _Answer:
        try:
            return self._answer({**self.body, "confirmed": confirmed})
        except ConnectionFailed as error:
            if not error.sent:
                raise
            raise ConnectionFailed(
                f"{error.message}; it is unknown whether the service has carried it out",
                "run the same command again when the service answers: what it has begun is finished, and nothing is "
                "done twice",
            ) from None

    def _answer(self, body: Mapping[str, Any]) -> _Answer:
        with compiler_errors({} if self.found is None else self.found.sources), self.service.reading():
            try:
                value = self.service.request("POST", self.path, body, query=self.query, within=self.within)
                return _Answer(plan_of(value[self.part] if self.part else value))
            except ServiceRefusal as refusal:
                if "plan" not in refusal.answer:
                    raise
                refusal.plan = plan_of(refusal.answer["plan"])
                return _Answer(refusal.plan, refusal)

    def _report(self, plan: ServicePlan, callbacks: RunCallbacks, *, is_first: bool = False) -> None:
        if is_first and self.found is not None:
            callbacks.on_diagnostics(in_source_order([*self.found.notes, *plan.diagnostics]), self.found.sources)
        for text in plan.messages:
            callbacks.on_message(text)


def changed_error(text: str) -> ServiceRefusal:
    """Return the error for a plan that has changed since it was confirmed."""
    return ServiceRefusal(409, "Changed", f"the cluster has changed: {text}", "run it again")


def planning_query(planning: PlanOptions) -> dict[str, str]:
    """Return the options of a plan as query parameters; defaults are left out."""
    return {
        "queue": flag(planning.queue),
        "strategy": planning.strategy or "",
        "relower": flag(planning.relower),
        "noProbe": flag(planning.no_probe),
        "createNamespace": flag(planning.create_namespace),
        "createOnly": flag(planning.create_only),
    }


def run_query(run: RunOptions) -> dict[str, str]:
    """Return the options of a run as query parameters; defaults are left out."""
    return {
        "timeout": "" if run.timeout == RunOptions.timeout else f"{run.timeout:g}",
        "force": flag(run.force),
        "checkpoint": "" if run.checkpoint else "false",
    }


def response_timeout(run: RunOptions, checkpoints: int = 1) -> float:
    """Return the seconds to wait for the response to a change: a little more than the service itself waits.

    :param checkpoints: number of jobs that save checkpoints one after another.
    """
    saving = checkpoints * LONGEST_BY_SERVICE if run.checkpoint else 0.0
    return min(run.timeout, LONGEST_BY_SERVICE) + saving + MARGIN


def flag(value: bool) -> str:
    """Return a boolean query parameter; "" for False, the default."""
    return "true" if value else ""
