"""Changes that the service carries out for the command line: what has to be confirmed is asked here, then sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.apply.operations import Declined
from gpuctl.apply.plan.losses import LostField
from gpuctl.apply.plan.plan import Plan
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, Span
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source, collect
from gpuctl.kube.api_errors import NotPossible
from gpuctl.usecases.change_options import DocumentOptions, InvalidOptions, PlanOptions, RunOptions
from gpuctl.usecases.conversation import Conversation
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.service_client import ServiceClient, ServiceRefusal
from gpuctl.usecases.suspending import PausedJob
from gpuctl.usecases.wire import know

know(LostField)


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


class Refusal(NamedTuple):
    """An error that a use case ended with."""

    status: int
    name: str
    message: str
    hint: str | None


class ToldChange(NamedTuple):
    """What became of a change. ``asks``: nothing yet, the plan has to be confirmed; ``refusal``: why nothing, or not
    all. ``finished`` are the steps in the order in which they were, by their places in the plan; ``said`` what has to
    be known."""

    plan: ToldPlan | None
    asks: bool = False
    refusal: Refusal | None = None
    finished: list[int] = []  # noqa: RUF012 - a named tuple's, never changed
    said: list[str] = []  # noqa: RUF012
    diagnostics: list[Diagnostic] = []  # noqa: RUF012


class ToldPauses(NamedTuple):
    """Jobs that were paused or resumed, and why not all were."""

    jobs: list[PausedJob]
    refusal: Refusal | None


class SentDocuments(NamedTuple):
    """Documents as they are sent: their texts, and how they are compiled."""

    sources: list[Source]
    namespace: str | None
    strict: bool


def apply_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    planning: PlanOptions,
    run: RunOptions,
    conversation: Conversation,
    *,
    preview: bool = False,
) -> Plan:
    """As :func:`gpuctl.usecases.applying.apply_request`, or with ``preview`` as ``preview_request``.

    :raises NotPossible: an option is for a cluster alone.
    :raises InvalidDocuments: there are errors in the documents.
    """
    sent = _sent(documents, planning, run)
    sources = {source.name: source for source in sent.sources}
    arguments = {"documents": sent, "planning": planning}
    if preview:
        told = _told(service, "preview", sources, arguments)
        conversation.diagnosed(told.diagnostics, sources)
        assert told.plan is not None
        return told.plan
    return _changed(service, "changes/apply", {**arguments, "run": run}, conversation, sources)


def change_by_service(
    service: ServiceClient, question: str, conversation: Conversation, namespace: str | None, **arguments: Any
) -> Plan:
    """A change of jobs by name: ``delete-jobs`` or ``rerun-jobs``."""
    return _changed(service, f"changes/{question}", {**arguments, "where": namespace}, conversation, {})


def suspend_by_service(reader: Reader, names: Sequence[str], *, pausing: bool) -> Iterator[PausedJob]:
    """As :func:`gpuctl.usecases.suspending.pause_jobs`, or as ``resume_jobs``."""
    assert reader.service is not None
    told = reader.service.ask("changes/suspend-jobs", ToldPauses, reader.scope, names=list(names), pausing=pausing)
    yield from told.jobs
    if told.refusal is not None:
        raise _error(told.refusal, None)


def _sent(documents: DocumentOptions, planning: PlanOptions, run: RunOptions) -> SentDocuments:
    """:raises InvalidDocuments: they cannot be read."""
    given = {
        "--platform": documents.platform is not None,
        "--set": planning.set_name is not None,
        "--adopt": planning.adopt,
        "--wait": run.wait,
    }
    for option, is_given in given.items():
        if is_given:
            raise NotPossible(f"{option} does not work through the service", _INSTEAD[option])
    found = collect(documents.sources, documents.stdin)
    if any(item.severity is Severity.ERROR for item in found.diagnostics):
        raise InvalidDocuments(found.diagnostics, {source.name: source for source in found.sources})
    if not found.sources:
        raise InvalidOptions("there is no document in what was named")
    return SentDocuments(found.sources, documents.namespace, documents.strict)


_INSTEAD = {
    "--platform": "the service has the platform that it was started with",
    "--set": "a set is applied and pruned with a kubeconfig: name its cluster with --context or --kubeconfig",
    "--adopt": "what others hold is taken over with a kubeconfig: name its cluster with --context or --kubeconfig",
    "--wait": "`gpuctl wait JOB --for=running` waits",
}


def _changed(
    service: ServiceClient,
    question: str,
    arguments: dict[str, Any],
    conversation: Conversation,
    sources: dict[str, Source],
) -> Plan:
    conversation.wait("the service is comparing with the cluster ...")
    told = _told(service, question, sources, {**arguments, "confirmed": []})
    conversation.diagnosed(told.diagnostics, sources)
    if told.asks and told.plan is not None:
        if not conversation.confirm(told.plan):
            raise Declined("not confirmed", told.plan)
        confirmed = [*told.plan.questions, *told.plan.courtesies]
        conversation.wait("the service is changing the cluster ...")
        told = _told(service, question, sources, {**arguments, "confirmed": confirmed})
        if told.asks:
            raise ServiceRefusal(
                409, "Changed", "the cluster has changed: more would be lost than what was confirmed", "run it again"
            )
    assert told.plan is not None
    for text in told.said:
        conversation.say(text)
    for place in told.finished:
        conversation.done(told.plan.steps[place])
    return told.plan


def _told(service: ServiceClient, question: str, sources: dict[str, Source], arguments: dict[str, Any]) -> ToldChange:
    try:
        told = service.ask(question, ToldChange, **arguments)
    except ServiceRefusal as error:
        if error.name == "InvalidDocuments" and error.details:
            raise InvalidDocuments([_diagnostic(item) for item in error.details], sources) from None
        if error.name == "InvalidOptions":
            raise InvalidOptions(error.message) from None
        raise
    if told.refusal is not None:
        raise _error(told.refusal, told.plan)
    return told


def _error(refusal: Refusal, plan: Plan | None) -> ServiceRefusal:
    error = ServiceRefusal(refusal.status, refusal.name, refusal.message, refusal.hint)
    error.plan = plan
    return error


def _diagnostic(value: dict[str, Any]) -> Diagnostic:
    """A diagnostic of :meth:`Diagnostic.to_dict`, whose path stays the text that it is."""
    related = tuple(Related(item["message"], span) for item in value["related"] if (span := _span(item)) is not None)
    path = (value["path"],) if value["path"] else ()
    return Diagnostic(
        Severity(value["severity"]), value["code"], value["message"], _span(value), path, value["hint"], related
    )


def _span(value: dict[str, Any]) -> Span | None:
    if value["file"] is None:
        return None
    return Span(value["file"], value["line"], value["column"], value["endLine"], value["endColumn"])
