"""Notes on changed sweeps: values that run again because their job loses its number, and jobs that are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.plan import Plan
from gpuctl.backend.lowering_context import Lowered
from gpuctl.hints import JobHint, Phrase
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import TRAINING_FORMS, Object, key_of, labels_of
from gpuctl.objects.label_names import MANAGED_BY, MANAGER, SWEEP, SWEEP_VALUES, sweep_values
from gpuctl.objects.ownership_metadata import is_controlled
from gpuctl.objects.sweep_names import number_in_sweep

_FEW = 5
_Place = tuple[str, str, frozenset[tuple[str, str]]]


def note_changed_sweeps(session: Session, plan: Plan, request: ApplyRequest) -> None:
    """Add notes on the changed sweeps of the documents."""
    left = [] if request.offline else list(_jobs_left(session, plan, request.lowered, request.settings))
    _note_moved_values(plan, request.settings, [obj for jobs in left for obj in jobs.objects.values()])
    for jobs in left:
        plan.notes.append(_left(jobs.sweep, jobs.namespace, list(jobs.objects)))


class _JobsLeft(NamedTuple):
    """Jobs in the cluster that the document of their sweep no longer yields, and that stay.

    :param objects: by the names of the jobs, in the order of their numbers.
    """

    sweep: str
    namespace: str
    objects: dict[str, Object]


def _note_moved_values(plan: Plan, settings: Settings, left: Iterable[Object]) -> None:
    """Add a note for each job that takes over the values of a job which this plan replaces, deletes or leaves."""
    former: dict[_Place, str] = {}
    for obj in (*(step.live for step in plan.steps if step.live is not None and step.deletes), *left):
        place = _place(obj, settings)
        if place is not None:
            former[place] = labels_of(obj).get("app", obj["metadata"]["name"])
    moved: dict[tuple[str, str], list[str]] = {}
    for step in plan.steps:
        if step.desired is None or step.action not in ("create", "replace"):
            continue
        place = _place(step.desired, settings)
        before, name = former.get(place) if place is not None else None, labels_of(step.desired).get("app", "")
        if place is not None and before is not None and before != name:
            values = sweep_values(step.desired, settings.label(SWEEP_VALUES))
            shown = shorten(", ".join(f"{key}={value}" for key, value in values.items()))
            text = say(
                "{job} in {namespace} has the values of the former {former}, and starts anew: {values}",
                job=name,
                namespace=place[0],
                former=before,
                values=shown,
            )
            moved.setdefault(place[:2], []).append(text)
    for (namespace, sweep), texts in sorted(moved.items()):
        plan.notes += texts[:_FEW]
        if len(texts) > _FEW:
            plan.notes.append(
                say(
                    "{jobs} more jobs of the sweep {sweep} in {namespace} start anew this way",
                    jobs=len(texts) - _FEW,
                    sweep=sweep,
                    namespace=namespace,
                )
            )
        plan.notes.append(
            say(
                "the jobs of the sweep {sweep} keep their numbers if new combinations are appended to `include`, or, "
                "without `include`, new values to the first parameter",
                sweep=sweep,
            )
        )


def _place(obj: Object, settings: Settings) -> _Place | None:
    """Return the namespace, the sweep and the values of a job; None if it is not in a sweep."""
    sweep = labels_of(obj).get(settings.label(SWEEP))
    values = sweep_values(obj, settings.label(SWEEP_VALUES))
    return (obj["metadata"].get("namespace", ""), sweep, frozenset(values.items())) if sweep and values else None


def _jobs_left(session: Session, plan: Plan, lowered: Iterable[Lowered], settings: Settings) -> Iterator[_JobsLeft]:
    """Yield the jobs left of each sweep that has any."""
    sweeps: dict[tuple[str, str], set[str]] = {}
    for document in {id(item.document): item.document for item in lowered}.values():
        if document.first is not None:
            sweeps.setdefault((document.namespace, document.written_name), set()).add(document.name)
    planned = {step.key for step in plan.steps}
    # A sweep without a live job is new.
    known = {
        (step.key.namespace, labels_of(step.live).get(settings.label(SWEEP)))
        for step in plan.steps
        if step.live is not None
    }
    for (namespace, sweep), names in sorted(sweeps.items()):
        if (namespace, sweep) not in known:
            continue
        scope = Scope(session, namespace)
        labels = f"{MANAGED_BY}={MANAGER},{settings.label(SWEEP)}={sweep}"
        found = [obj for kind in sorted(TRAINING_FORMS) for obj in scope.all_if_allowed(kind, labels=labels) or []]
        left = {
            labels_of(obj).get("app", ""): obj
            for obj in found
            if key_of(obj) not in planned and not is_controlled(obj) and not obj["metadata"].get("deletionTimestamp")
        }
        if gone := sorted(left.keys() - names - {""}, key=lambda name: (len(name), name)):
            yield _JobsLeft(sweep, namespace, {name: left[name] for name in gone})


def _left(sweep: str, namespace: str, names: Sequence[str]) -> str:
    listed = " ".join(names)
    numbers = [number_in_sweep(name, sweep) for name in names]
    first, last = numbers[0], numbers[-1]
    # Labels may contain any number.
    if len(names) > _FEW and first is not None and numbers == list(range(first, first + len(names))):
        listed = f"{sweep}-{{{first}..{last}}}"
    several = len(names) > 1
    shown = say("{names:list}", names=list(names)) if len(names) <= _FEW else say("{names:few}", names=list(names))
    each = say("`DELETE /jobs/{{jobId}}` of each") if several else say("`DELETE /jobs/{{jobId}}` of it")
    removes = Phrase(str(JobHint("delete", listed, namespace)), each)
    them = say("they stay") if several else say("it stays")
    return say(
        "the sweep {sweep} in {namespace} no longer has {jobs}: {they} until {command}",
        sweep=sweep,
        namespace=namespace,
        jobs=shown,
        they=them,
        command=removes,
    )
