"""Checks of `job.after` across documents: circles, names of jobs that never end, and misspelt names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.spelling import nearest, suggest_name
from gpuctl.language.workload import Workload

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_Place = tuple[str, str]
Jobs = Mapping[_Place, Sequence[Document]]


class _Entry(NamedTuple):
    """A name in `job.after`, and its position there."""

    name: str
    number: int


def prerequisite_links(documents: Sequence[Document], *, complete: bool) -> Iterator[Diagnostic]:
    """Yield the problems of prerequisites. A name that no document has may be a job in the cluster.

    :param complete: False if documents with errors are missing; similar names are then not reported.
    """
    jobs = _jobs(documents)
    circled: set[_Place] = set()
    for document in documents:
        for number, name in enumerate(prerequisites(document)):
            place, entry = (document.namespace, name), _Entry(name, number)
            if place not in jobs:
                yield from _unknown(document, entry, jobs) if complete else ()
                continue
            yield from _endless(document, entry, jobs[place])
            circle = _circle(document, place, jobs) if place not in circled else None
            if circle is not None:
                circled.update((document.namespace, job) for one in circle for job in _names(one))
                yield _circle_error(document, entry, circle)


def prerequisites(document: Document) -> list[str]:
    """Return the names of the jobs that a document waits for."""
    model = document.model
    return list(model.job.prerequisites) if model.kind == "training" and model.job.after else []


def _jobs(documents: Sequence[Document]) -> dict[_Place, list[Document]]:
    """Return the documents of each job and sweep by namespace and name."""
    found: dict[_Place, list[Document]] = {}
    for document in documents:
        if isinstance(document.model, Workload):
            for name in _names(document):
                found.setdefault((document.namespace, name), []).append(document)
    return found


def _names(document: Document) -> list[str]:
    """Return the name of a job, and that of its sweep."""
    model = document.model
    assert isinstance(model, Workload), "only jobs have names here"
    sweep = model.job.sweep if model.kind == "training" else None
    return list(dict.fromkeys([model.job.name, *([sweep.name] if sweep is not None else [])]))


def _diagnostic(
    document: Document,
    severity: Severity,
    code: str,
    message: Sentence,
    place: _Entry,
    hint: Sentence,
    *others: Related,
) -> Diagnostic:
    """Return a diagnostic at one of the names that a document waits for."""
    model = document.model
    is_list = model.kind == "training" and isinstance(model.job.after, list)
    path = ("job", "after", place.number if is_list else place.name)
    return document.diagnostic(severity, code, message, path, hint, key=not is_list, related=others)


def _unknown(document: Document, entry: _Entry, jobs: Jobs) -> Iterator[Diagnostic]:
    """Warn about a name that looks misspelt, or that exists in another namespace only."""
    near = nearest(entry.name, sorted({name for namespace, name in jobs if namespace == document.namespace}))
    elsewhere = sorted(namespace for namespace, name in jobs if name == entry.name)
    # Runs are often numbered: `train-1` may exist in the cluster, though only `train-2` is here.
    if near is not None and _without_digits(near) != _without_digits(entry.name):
        hint = suggest_name(near)
    elif elsewhere:
        hint = say(
            "a job waits for jobs of its own namespace: `{name}` here is in `{namespace}`",
            name=entry.name,
            namespace=elsewhere[0],
        )
    else:
        return
    message = say(
        "no job of these documents in namespace `{namespace}` is called `{name}`",
        namespace=document.namespace,
        name=entry.name,
    )
    yield _diagnostic(document, WARNING, "GPU430", message, entry, hint)


def _without_digits(name: str) -> str:
    return "".join(character for character in name if not character.isdigit())


def _endless(document: Document, entry: _Entry, found: Sequence[Document]) -> Iterator[Diagnostic]:
    """Report a prerequisite that never ends."""
    for other in found:
        model = other.model
        if model.kind == "training" and model.schedule is None:
            continue
        message = say("`{name}` never ends: it is of kind {kind}", name=entry.name, kind=other.kind)
        hint = say("wait for a training, an array or a sweep, or remove the name")
        if model.kind == "training":
            message = say("`{name}` never ends: it is scheduled, and has many runs", name=entry.name)
            hint = say(
                "schedule this job, with the program of `{name}` in its `init`, or remove the name", name=entry.name
            )
        related = Related(say("the job"), other.span(("job", "name")))
        yield _diagnostic(document, ERROR, "GPU428", message, entry, hint, related)
        return


def _circle(document: Document, first: _Place, jobs: Jobs) -> list[Document] | None:
    """Return the documents of a circle that begins with ``document`` and ``first``; None if they are in no circle."""
    goal = {(document.namespace, name) for name in _names(document)}
    seen: set[_Place] = set()
    todo: list[tuple[_Place, list[Document]]] = [(first, [document])]
    while todo:
        place, way = todo.pop()
        if place in goal:
            return way
        if place in seen:
            continue
        seen.add(place)
        for other in jobs.get(place, ()):
            todo += [((other.namespace, name), [*way, other]) for name in prerequisites(other)]
    return None


def _circle_error(document: Document, entry: _Entry, circle: Sequence[Document]) -> Diagnostic:
    names = [_names(one)[-1] for one in circle]
    if len(circle) == 1:
        message = say("`{name}` waits for itself", name=entry.name)
    else:
        message = say("jobs wait for each other: {names}", names=" -> ".join([*names, names[0]]))
    related = (Related(Sentence(f"`{_names(one)[-1]}`"), one.span(("job", "after"), key=True)) for one in circle[1:])
    return _diagnostic(
        document, ERROR, "GPU428", message, entry, say("remove one of the names: no job can start"), *related
    )
