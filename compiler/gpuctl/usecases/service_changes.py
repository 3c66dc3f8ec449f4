"""Changes that the service carries out for the command line: what has to be confirmed is asked here, then sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.apply.plan.overwritten_foreign_fields import LostField
from gpuctl.apply.plan.plan import Declined, Plan
from gpuctl.apply.run.options import RunCallbacks, RunOptions
from gpuctl.apply.state.takeover import Claims
from gpuctl.frontend.diagnostics import Diagnostic, in_source_order
from gpuctl.frontend.source import Source
from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.service_client import Refusal, ServiceClient, ServiceRefusal, error_of
from gpuctl.usecases.service_documents import GatheredDocuments, gather, refuse_options, worded
from gpuctl.usecases.service_waits import wait_until_running_by_service
from gpuctl.usecases.suspending import PausedJob
from gpuctl.usecases.wire import know

know(LostField)
know(Claims)


@dataclass
class ToldPlan(Plan):
    """A plan as the service tells it: without the objects, which the questions rest on, so these are told as well."""

    asked: list[str] = field(default_factory=list)
    polite: list[str] = field(default_factory=list)

    @property
    def questions(self) -> list[str]:
        """As :attr:`Plan.questions`."""
        return self.asked

    @property
    def courtesies(self) -> list[str]:
        """As :attr:`Plan.courtesies`."""
        return self.polite


class ToldChange(NamedTuple):
    """What became of a change. ``asks``: nothing yet, the plan has to be confirmed; ``refusal``: why nothing, or not
    all. ``finished`` are the steps in the order in which they were, by their places in the plan; ``said`` what has to
    be known, ``platform`` that the one beside the documents is not used."""

    plan: ToldPlan | None
    asks: bool = False
    refusal: Refusal | None = None
    finished: list[int] = []  # noqa: RUF012 - a named tuple's, never changed
    said: list[str] = []  # noqa: RUF012
    diagnostics: list[Diagnostic] = []  # noqa: RUF012
    platform: str = ""


class ToldPauses(NamedTuple):
    """Jobs that were paused or resumed, and why not all were."""

    jobs: list[PausedJob]
    refusal: Refusal | None


def apply_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    planning: PlanOptions,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    preview: bool = False,
) -> Plan:
    """Apply documents through a service as :func:`gpuctl.usecases.applying.apply_request`; ``preview`` only plans.

    :raises NeedsKubeconfig: an option is for a cluster alone.
    :raises InvalidDocuments: there are errors in the documents.
    """
    refuse_options({"--rollback": run.rollback})
    found = gather(documents, planning)
    arguments = {"documents": found.sent, "planning": planning}
    if preview:
        told = _told(service, "preview", found.sources, {**arguments, "checkpoint": run.checkpoint})
        _tell(told, callbacks, found)
        assert told.plan is not None
        return told.plan
    plan = _changed(service, "changes/apply", {**arguments, "run": run}, callbacks, found)
    if run.wait and all(step.result == "done" for step in plan.steps):
        wait_until_running_by_service(service, plan, run.timeout, callbacks.wait)
    return plan


def delete_by_service(
    service: ServiceClient, documents: DocumentOptions, callbacks: RunCallbacks, **arguments: Any
) -> Plan:
    """As :func:`gpuctl.usecases.deleting.delete_documents`."""
    found = gather(documents)
    return _changed(service, "changes/delete-documents", {"documents": found.sent, **arguments}, callbacks, found)


def change_by_service(service: ServiceClient, question: str, callbacks: RunCallbacks, **arguments: Any) -> Plan:
    """A change of what is named: ``delete-jobs``, ``rerun-jobs``, ``delete-pools`` or ``delete-quotas``."""
    return _changed(service, f"changes/{question}", arguments, callbacks)


def roll_back_by_service(
    service: ServiceClient,
    callbacks: RunCallbacks,
    place: dict[str, Any],
    planning: PlanOptions,
    run: RunOptions,
    *,
    preview: bool = False,
) -> Plan:
    """Apply an earlier document of a job through a service; ``preview`` only plans.

    :param place: ``name``, ``where`` and ``to``: the job, its namespace and the revision, as far as they were given.
    :raises NeedsKubeconfig: an option is for a cluster alone.
    """
    refuse_options({"--adopt": planning.adopt})
    arguments = {**place, "planning": planning}
    if preview:
        told = _told(service, "preview-rollback", {}, {**arguments, "checkpoint": run.checkpoint})
        _tell(told, callbacks, None)
        assert told.plan is not None
        return told.plan
    plan = _changed(service, "changes/rollback", {**arguments, "run": run}, callbacks)
    if run.wait and all(step.result == "done" for step in plan.steps):
        wait_until_running_by_service(service, plan, run.timeout, callbacks.wait)
    return plan


def suspend_by_service(
    reader: Reader, names: Sequence[str], *, pausing: bool, checkpoint: bool = True, confirmed: bool = False
) -> Iterator[PausedJob]:
    """As :func:`gpuctl.usecases.suspending.pause_jobs`, or as ``resume_jobs``.

    :param confirmed: others may be evicted by what is resumed.
    """
    assert reader.service is not None
    arguments = {"names": list(names), "pausing": pausing, "checkpoint": checkpoint, "confirmed": confirmed}
    told = reader.service.ask("changes/suspend-jobs", ToldPauses, reader.scope, **arguments)
    yield from told.jobs
    if told.refusal is not None:
        raise error_of(told.refusal, None)


def _changed(
    service: ServiceClient,
    question: str,
    arguments: dict[str, Any],
    callbacks: RunCallbacks,
    found: GatheredDocuments | None = None,
) -> Plan:
    sources = {} if found is None else found.sources
    callbacks.wait("the service is comparing with the cluster ...")
    told = _told(service, question, sources, {**arguments, "confirmed": []})
    _tell(told, callbacks, found)
    if told.asks and told.plan is not None:
        if not callbacks.confirm(told.plan):
            raise Declined("not confirmed", told.plan)
        confirmed = [*told.plan.questions, *told.plan.courtesies]
        callbacks.wait("the service is changing the cluster ...")
        told = _told(service, question, sources, {**arguments, "confirmed": confirmed})
        if told.asks:
            raise ServiceRefusal(
                409, "Changed", "the cluster has changed: more would be lost than what was confirmed", "run it again"
            )
    for text in told.said:
        callbacks.say(text)
    plan = told.plan
    if plan is not None:
        for place in told.finished:
            callbacks.done(plan.steps[place])
    if told.refusal is not None:
        raise error_of(told.refusal, plan)
    assert plan is not None
    return plan


def _tell(told: ToldChange, callbacks: RunCallbacks, found: GatheredDocuments | None) -> None:
    """What is to be known before a plan is confirmed: of the documents, and of the platform beside them."""
    if found is not None:
        callbacks.diagnosed(in_source_order([*found.notes, *told.diagnostics]), found.sources)
    if told.platform:
        callbacks.say(told.platform)


def _told(service: ServiceClient, question: str, sources: dict[str, Source], arguments: dict[str, Any]) -> ToldChange:
    try:
        with worded(sources):
            return service.ask(question, ToldChange, **arguments)
    except ConnectionFailed as error:
        if question == "preview" or not error.sent:
            raise
        raise ConnectionFailed(
            f"{error.message}; whether the service has carried it out is not known",
            "run the same command again when the service answers: what it has begun is finished, and nothing is done "
            "twice",
        ) from None
