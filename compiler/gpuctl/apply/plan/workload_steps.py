"""Steps that change a workload: a patch, a rolling update, or a replacement by a new object."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuctl.apply.plan.decision_inputs import (
    DecisionOptions,
    DecisionRefused,
    Target,
    WorkloadFacts,
    ignored_fields,
    metadata_changes,
    reason_of,
    reason_without_changes,
    with_carried_fields,
    without_records,
)
from gpuctl.apply.plan.lost_work import ended_word
from gpuctl.apply.plan.overwritten_foreign_fields import lost_fields
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.compare import Comparison, FieldOutcome, compare, in_place_paths
from gpuctl.apply.state.field_paths import is_pod_metadata, is_within, steps_of
from gpuctl.apply.state.managed_fields import fields_of, held_by_others
from gpuctl.hints import ADOPT_FIELDS, OR_RELOWER, JobHint
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import QUEUE_LABEL, QUEUE_PRIORITY_LABEL, SERVICES, Object, annotations_of, labels_of
from gpuctl.objects.elastic_jobs import node_count, starts_with_other_size
from gpuctl.objects.ownership_metadata import is_ours
from gpuctl.objects.prerequisites import ADMISSION_GATES, is_waiting, keep_released, prerequisites_of
from gpuctl.objects.queueing import is_defaulted, is_held, is_paused, queue_of
from gpuctl.objects.workload_state import end_state


def workload_step(
    target: Target, live: Object, options: DecisionOptions, compared: Comparison, knowledge: WorkloadFacts
) -> Step:
    """Return the step that makes a live workload the wanted one.

    A patch changes what can change while its pods run; anything else is a rolling update or a replacement.
    """
    kind, desired = target.key.kind, target.desired
    changes, metadata = compared.changes, metadata_changes(compared, options)
    waits = is_waiting(live, options.keys)
    if waits and prerequisites_of(live, options.keys.after) != prerequisites_of(desired, options.keys.after):
        return replacement(target, live, options, [*changes, *metadata], say("waits for other jobs"), knowledge)
    # Kueue's webhook refuses to add a gate, and to change some labels.
    refused = set() if waits else {ADMISSION_GATES}
    queue = _lasting_queue(desired, live)
    is_other_queue = queue is not None and not is_defaulted(live, desired)
    moves = is_other_queue and _may_move(live, options)
    fixed = {QUEUE_LABEL: queue} if queue is not None and not moves else {}
    fixed |= _lasting_priority(desired, live)
    metadata = [change for change in metadata if steps_of(change.path)[-1] not in refused | fixed.keys()]
    as_is = target._replace(desired=_with_labels(desired, fixed)) if fixed else target
    in_place = ("spec.replicas",) if kind in SERVICES else in_place_paths(live)
    changes = _effective(changes, live, in_place)
    if not moves and all(change.path in in_place for change in changes):
        # A new gpuctl version alone is not written.
        if not changes and all(change.path.endswith(f"[{options.keys.lowered_by}]") for change in metadata):
            step = Step("unchanged", target.key, live=live, desired=as_is.desired, title=target.title)
            return _hint(step, live, queue if is_other_queue else None)
        return _patch_step(as_is, live, options, changes, metadata)
    shown = without_records(metadata, options)
    # Kueue's webhook refuses another queue, and another pod of a StatefulSet.
    if options.rolling and kind in SERVICES and not moves and not (kind == "StatefulSet" and queue_of(live)):
        return _rolling_step(as_is, live, options, shown, knowledge)
    differing = changes or [change for change in metadata if steps_of(change.path)[-1] == QUEUE_LABEL]
    return replacement(target, live, options, [*changes, *shown], reason_of(differing), knowledge)


def _effective(changes: list[FieldOutcome], live: Object, in_place: Collection[str]) -> list[FieldOutcome]:
    """Return the changes without those that have no effect after the job has ended.

    Only `gpuctl rerun` creates pods from its template again, and it uses the object's own labels and annotations.
    """
    if end_state(live) and all(change.path in in_place or is_pod_metadata(change.path) for change in changes):
        return [change for change in changes if not is_pod_metadata(change.path)]
    return changes


def _hint(step: Step, live: Object, queue: str | None) -> Step:
    ended = end_state(live)
    if ended:
        step.reason = say(
            "{ended}; {command} runs it again",
            ended=ended_word(ended),
            command=JobHint("rerun", step.key.name, step.key.namespace),
        )
    elif queue is not None and not is_held(live):
        where = say("in Kueue's queue {queue}", queue=queue) if queue else say("in no queue of Kueue")
        step.reason = say("stays {where} as long as it runs{option}", where=where, option=OR_RELOWER)
    return step


def _lasting_queue(desired: Object, live: Object) -> str | None:
    """Return the queue that a live job cannot leave; None if its queue may change, or is as wanted.

    Kueue's webhook refuses to move a training that is not suspended, or a service with ready pods. A job that gpuctl
    holds back must not start.
    """
    if labels_of(live).get(QUEUE_LABEL) == labels_of(desired).get(QUEUE_LABEL):
        return None
    fixed = live["kind"] in SERVICES or is_held(live) or not (live.get("spec") or {}).get("suspend")
    return labels_of(live).get(QUEUE_LABEL, "") if fixed else None


def _may_move(live: Object, options: DecisionOptions) -> bool:
    """Return True if a job may be replaced to move it into another queue. A service has no progress to lose."""
    if live["kind"] in SERVICES:
        return True
    return options.request.planning.relower and not is_held(live) and not end_state(live)


def _lasting_priority(desired: Object, live: Object) -> dict[str, str]:
    """Return the label of the WorkloadPriorityClass, with its live value or "", if it cannot become the wanted one.

    Kueue's webhook refuses to remove it, and to add it to a job that runs.
    """
    have, want = (labels_of(obj).get(QUEUE_PRIORITY_LABEL, "") for obj in (live, desired))
    suspended = bool((live.get("spec") or {}).get("suspend"))
    changeable = have == want or (bool(want) and (bool(have) or suspended))
    return {} if changeable else {QUEUE_PRIORITY_LABEL: have}


def _with_labels(desired: Object, fixed: Mapping[str, str]) -> Object:
    """Return the wanted object with labels of the live one; "" removes a label."""
    labels = {key: value for key, value in {**labels_of(desired), **fixed}.items() if value or key not in fixed}
    return {**desired, "metadata": {**desired["metadata"], "labels": labels}}


def _patch_step(
    target: Target,
    live: Object,
    options: DecisionOptions,
    changes: list[FieldOutcome],
    metadata: list[FieldOutcome],
) -> Step:
    known = options.keys.hash in annotations_of(live)
    patch: Object = {"metadata": {"uid": live["metadata"]["uid"]}}
    carried = with_carried_fields(target, live, options, again=False)
    keep_released(carried, live, options.keys)
    wanted = carried["metadata"]
    for part in ("labels", "annotations"):
        values = dict(wanted.get(part) or {})
        values.update(dict.fromkeys(_removed(metadata, part)))
        patch["metadata"][part] = values
    if changes:
        fields = {change.path.removeprefix("spec."): change.new for change in changes}
        patch["spec"] = fields
    shown = [*changes, *without_records(metadata, options)]
    return Step(
        "update",
        target.key,
        target.because(reason_of(shown) if shown else reason_without_changes(known=known)),
        desired=patch,
        live=live,
        method="patch",
        changes=shown,
        title=target.title,
        claims=target.claims,
    )


def _rolling_step(
    target: Target, live: Object, options: DecisionOptions, metadata: list[FieldOutcome], knowledge: WorkloadFacts
) -> Step:
    """Return the step that changes the live object: fields of other managers stay, or are conflicts."""
    desired = with_carried_fields(target, live, options)
    adopted = options.keys.hash not in annotations_of(live)
    compared = compare(
        target.key.kind,
        knowledge.answer or desired,
        live,
        ours=knowledge.ours,
        others=held_by_others(live, adopted=adopted),
        stated=desired,
        ignored=() if is_paused(live, options.keys) else ignored_fields(target, live, options),
    )
    # A change of the number of replicas is confirmed elsewhere.
    compared.conflicts.pop("spec.replicas", None)
    held = compared.held
    if held and not (options.request.planning.adopt or options.request.compare):
        raise DecisionRefused(say("{object}: {error}; {hint}", object=target.key, error=held, hint=ADOPT_FIELDS))
    obj = {**live, **compared.merged}
    changes = [*compare(target.key.kind, obj, live, ours=fields_of(live)).changes, *metadata]
    return Step(
        "update",
        target.key,
        target.because(
            say(
                "rolling: {fields}{held}",
                fields=reason_of(changes),
                held=say("; takes over fields of other managers: {held}", held=held) if held else "",
            )
        ),
        desired=_with_metadata(obj, desired, metadata),
        live=live,
        method="put",
        changes=changes,
        title=target.title,
        claims=target.claims,
    )


def _with_metadata(live: Object, desired: Object, changes: list[FieldOutcome]) -> Object:
    """Return a live object with the wanted labels and annotations, and without those that the changes remove."""
    sent = without_server_fields(live)
    metadata = sent["metadata"]
    for part in ("labels", "annotations"):
        gone = _removed(changes, part)
        old = {key: value for key, value in (metadata.get(part) or {}).items() if key not in gone}
        metadata[part] = {**old, **(desired["metadata"].get(part) or {})}
    return sent


def without_server_fields(live: Object) -> Object:
    """Return a live object in the form in which it is sent."""
    passing = ("managedFields", "resourceVersion", "generation", "creationTimestamp")
    metadata = {key: value for key, value in live["metadata"].items() if key not in passing}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}


def _removed(metadata: list[FieldOutcome], part: str) -> list[str]:
    gone = [change.path for change in metadata if change.new is None]
    return [steps_of(path)[-1] for path in gone if is_within(path, f"metadata.{part}")]


def replacement(
    target: Target,
    live: Object,
    options: DecisionOptions,
    changes: list[FieldOutcome],
    reason: str,
    knowledge: WorkloadFacts,
) -> Step:
    desired = with_carried_fields(target, live, options)
    if starts_with_other_size(live, desired):
        sizes = {"nodes": node_count(desired), "have": node_count(live)}
        reason = clauses(reason, say("starts with {nodes} nodes instead of {have}", **sizes))
    lost = lost_fields(
        live,
        desired,
        knowledge.answer,
        {change.path for change in changes},
        adopted=options.keys.hash not in annotations_of(live),
        same=knowledge.same,
    )
    return Step(
        "replace",
        target.key,
        reason if is_ours(live) else say("is not gpuctl's; {reason}", reason=reason),
        desired=desired,
        live=live,
        method="post",
        changes=changes,
        lost=lost,
        title=target.title,
    )
