"""Namespaces that a plan would create: a document must name them, or the user must request it."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.apply_request import MaySee
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.backend import shared_objects
from gpuctl.backend.lowering_context import Context, Lowered
from gpuctl.hints import CREATE_NAMESPACE
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import nearest, suggest_before
from gpuctl.objects.api_resources import RESOURCES, Key


def undeclared_namespaces(
    session: Session, steps: Iterable[Step], lowered: Iterable[Lowered], sees: MaySee
) -> list[str]:
    """Return errors for namespaces that would be created though no document names them. A similar namespace is
    suggested if the user may see jobs in it.

    ``-n`` and the context are typed by hand: a typing error would run jobs in a namespace without quota. The steps of
    the namespaces that are created get the kind of the document as their reason.
    """
    absent = {step.key.name: step for step in steps if step.key.kind == "Namespace" and step.action == "create"}
    if not absent:
        return []
    for item in lowered:
        for name in _named(item) & absent.keys():
            absent.pop(name).reason = say("named by a document of kind {kind}", kind=item.document.kind)
    return [_refusal(session, name, sees) for name in sorted(absent)]


def add_set_namespace(
    session: Session, plan: Plan, name: str, settings: Settings, sees: MaySee, *, create: bool
) -> None:
    """Create the namespace of a set's Secret if ``create``, else report an error if it does not exist."""
    key = Key("Namespace", "", name)
    namespace = shared_objects.namespace(Context(settings), name)
    if namespace is None or any(step.key == key for step in plan.steps):
        return
    if if_allowed(lambda: session.get(key), {}) is not None:
        return
    if create:
        reason = say("holds the Secret of the set")
        plan.steps.insert(0, Step("create", key, reason, desired=namespace, method="apply", shared=True))
    else:
        plan.errors.append(_refusal(session, name, sees))


def _named(item: Lowered) -> set[str]:
    """Return the namespaces that an object's document names itself. (Of a shared object only one document is known.)"""
    if item.document.is_workload:
        return {item.document.namespace} if item.document.names_namespace else set()
    metadata = item.object["metadata"]
    return {metadata["name"] if item.object["kind"] == "Namespace" else metadata.get("namespace", "")}


def _refusal(session: Session, name: str, sees: MaySee) -> str:
    close = nearest(name, [other for other in _names(session) if sees(other, "")])
    return say(
        "there is no namespace {name}, and no document names it: {hint}",
        name=name,
        hint=suggest_before(close, say("{hint}", hint=CREATE_NAMESPACE)),
    )


def _names(session: Session) -> list[str]:
    return [item["metadata"]["name"] for item in if_allowed(lambda: session.list_metadata(RESOURCES["Namespace"]), [])]
