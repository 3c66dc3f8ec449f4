"""Trainings that a GitOps controller created from built manifests, under names with a hash, and that an apply finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpuctl.apply.plan.decision_inputs import DecisionOptions
from gpuctl.apply.plan.lost_work import ended_word
from gpuctl.apply.plan.object_decision import joined_to_set
from gpuctl.apply.plan.overwritten_foreign_fields import lost_fields
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.compare import compare
from gpuctl.apply.state.live_state import COMPANIONS
from gpuctl.backend.lowering_context import Lowered
from gpuctl.frontend.document import Document
from gpuctl.hints import JobHint
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object, key_of, labels_of
from gpuctl.objects.embedded_document import is_same_document
from gpuctl.objects.hashed_names import CHANGEABLE, hashed_name, hashed_name_of, spec_digest
from gpuctl.objects.ownership_metadata import Records, is_controlled, is_ours
from gpuctl.objects.recreated_objects import carried_over
from gpuctl.objects.workload_state import end_state


class HashedTraining(NamedTuple):
    """A document's training that exists under a name with a hash, and not under its own name.

    ``wanted`` is its key under its own name. ``live`` is the newest generation, ``beside`` are its Service and
    hostfile, ``older`` the earlier generations. ``equal``: the newest was made from an equal document.
    """

    document: Document
    wanted: Key
    live: Object
    beside: list[Object]
    older: list[Object]
    equal: bool


def find_hashed_trainings(
    lowered: Iterable[Lowered], live: Mapping[Key, Object], keys: Records, *, relower: bool = False
) -> list[HashedTraining]:
    """Return the trainings of the documents that exist only under names with a hash."""
    generations: dict[tuple[str, str], list[Object]] = {}
    beside: dict[tuple[str, str], list[Object]] = {}
    for key, obj in live.items():
        generation = hashed_name_of(obj) if is_ours(obj) and not is_controlled(obj) else ""
        if generation and key.kind in CHANGEABLE and labels_of(obj).get(keys.job_type) == "training":
            generations.setdefault((key.namespace, labels_of(obj)["app"]), []).append(obj)
        elif generation and key.kind in COMPANIONS:
            beside.setdefault((key.namespace, generation), []).append(obj)
    parts: dict[int, list[Object]] = {}
    for item in lowered if generations else ():
        if not item.shared and item.document.is_workload:
            parts.setdefault(id(item.document), []).append(item.object)
    found = []
    for item in lowered if generations else ():
        wanted = key_of(item.object)
        there = generations.get((wanted.namespace, wanted.name), [])
        if item.shared or wanted.kind not in CHANGEABLE or not there or wanted in live:
            continue
        *older, newest = sorted(there, key=_age)
        name = newest["metadata"]["name"]
        equal = not _is_leaving(newest) and (
            name == hashed_name(wanted.name, spec_digest(parts[id(item.document)]))
            or (not relower and is_same_document(item.object, newest, keys.document))
        )
        found.append(
            HashedTraining(item.document, wanted, newest, beside.get((wanted.namespace, name), []), older, equal)
        )
    return found


def _age(obj: Object) -> tuple[bool, str, str]:
    metadata = obj["metadata"]
    return not _is_leaving(obj), metadata.get("creationTimestamp") or "", metadata["name"]


def _is_leaving(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def keep_steps(built: HashedTraining, title: str, options: DecisionOptions) -> list[Step]:
    """Return the steps for a training that a controller made from an equal document, and for its Service and hostfile.

    They keep their names: all of them join the set that is applied, and are taken over together.
    """
    job, namespace = built.wanted.name, built.wanted.namespace
    ended = end_state(built.live)
    reason = (
        say("{ended}; {command} runs it again", ended=ended_word(ended), command=JobHint("rerun", job, namespace))
        if ended
        else say("made from an equal document by `build`")
    )
    first = Step("unchanged", key_of(built.live), reason, live=built.live, title=title)
    others = [Step("unchanged", key_of(obj), live=obj, title=title) for obj in built.beside]
    return [
        joined_to_set(step, obj, options)
        for step, obj in zip([first, *others], [built.live, *built.beside], strict=True)
    ]


def replace_hashed(
    built: HashedTraining, steps: dict[Key, Step], plan: Plan, keys: Records, dry_run: Callable[[Object], Object | None]
) -> None:
    """Turn the creation under the job's own name into a replacement of the controller's objects.

    :param dry_run: returns the object as the server would create it; None if the server is not asked.
    """
    step = steps.get(built.wanted)
    for other in built.older:
        plan.notes.append(
            say(
                "{object} is an older one of {job}/{name}, and is not changed",
                object=key_of(other),
                job=built.document.kind,
                name=built.wanted.name,
            )
        )
    if step is None or step.action != "create" or step.desired is None:
        return
    step.action, step.live = "replace", built.live
    step.reason = say(
        "replaces {name}, which was created from a manifest of `build`", name=built.live["metadata"]["name"]
    )
    step.desired = carried_over(step.desired, built.live, keys)
    if built.live["kind"] == built.wanted.kind:
        step.changes = compare(built.wanted.kind, step.desired, built.live).changes
    answer = dry_run(step.desired)
    # Without the server's answer its defaults cannot be distinguished from fields that were set through a controller.
    if answer is not None:
        step.lost = lost_fields(built.live, step.desired, answer, {change.path for change in step.changes})
    for obj in built.beside:
        key = key_of(obj)
        reason = say("{job} no longer has it", job=step.title)
        steps[key] = Step("delete", key, reason, live=obj, method="delete", title=step.title, companion_of=built.wanted)
