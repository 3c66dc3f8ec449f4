"""Prerequisites of a training (`job.after`): jobs of its namespace that must have ended before it starts.

A training that waits is a suspended Job or JobSet. Kueue owns ``spec.suspend`` of jobs in its queues; there an
admission gate holds it back. The service or ``gpuctl apply --wait`` releases the training, once: the time is recorded
on it, so that a later suspension is a pause. Ends of prerequisites are recorded on it as well, because a prerequisite
may be removed by its ttl before the others have ended. Jobs of sweeps that have ended are recorded too, those that
have failed as ``SWEEP/JOB``: `gpuctl rerun` deletes a job before it creates it again, and the other jobs alone may all
have succeeded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from gpuctl.objects.api_resources import TRAININGS, Object, annotations_of, labels_of
from gpuctl.objects.hidden_names import is_hidden
from gpuctl.objects.ownership_metadata import Records, is_controlled
from gpuctl.objects.queueing import is_held, queue_of
from gpuctl.objects.sweep_ends import Outcome, SweepEnds, SweepRecord, read_record, updated_record
from gpuctl.objects.workload_state import end_state

ADMISSION_GATES = "kueue.x-k8s.io/admission-gated-by"
"""Annotation of a job that Kueue does not admit while it names a gate. Source: Kueue 0.19, ``pkg/constants``."""
GATE = "gpuctl/after"
OK, ANY, FAILED = "ok", "any", "failed"
CONDITIONS = (OK, ANY, FAILED)
State = Literal["met", "waiting", "missing", "unmet"]
_JOB_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_LONGEST = 16 * 1024
_MOST_JOBS = 50
"""Number of failed jobs of sweeps that are recorded: with all prerequisites they fit in ``_LONGEST``."""


class Ends(dict[tuple[str, str], "Outcome | None"]):
    """Namespace and name of a job or sweep -> how it ended; None if it has not ended.

    ``sweeps``: namespace and name of a sweep -> the ends of its jobs. ``with_hidden``: the namespaces with jobs whose
    names the caller may not see.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sweeps: dict[tuple[str, str], SweepEnds] = {}
        self.with_hidden: set[str] = set()


class Prerequisite(NamedTuple):
    """A job to wait for, and its state: met, waiting, missing (no such job), or unmet (it ended otherwise).

    ``is_sweep``: it is a sweep. Then ``failed_jobs`` are the jobs that have failed. ``absent_jobs`` do not exist and
    were not seen to end; if only they are left, the state is missing. ``record`` is what to record.

    ``may_be_hidden``: no job that the caller may see has this name, but the namespace has jobs that the caller may not
    see.
    """

    name: str
    condition: str
    state: State
    outcome: Outcome | None = None
    failed_jobs: tuple[str, ...] = ()
    absent_jobs: tuple[str, ...] = ()
    record: SweepRecord = SweepRecord()
    is_sweep: bool = False
    may_be_hidden: bool = False


def prerequisites_of(obj: Object, key: str) -> dict[str, str]:
    """Return the jobs that a training waits for and their conditions, from its annotation ``key``; {} if it is not
    valid.
    """
    if obj["kind"] not in TRAININGS:
        return {}
    found = _mapping(annotations_of(obj).get(key))
    # Users may write any text there, and names are printed.
    return {
        name: condition
        for name, condition in found.items()
        if condition in CONDITIONS and re.fullmatch(_JOB_NAME, name)
    }


def is_waiting(obj: Object, keys: Records) -> bool:
    """Return True if a training has not been released yet. A job that a user has unsuspended does not wait."""
    if keys.released in annotations_of(obj) or not prerequisites_of(obj, keys.after) or end_state(obj):
        return False
    if queue_of(obj) and not is_held(obj):
        return GATE in gates_of(obj)
    return bool((obj.get("spec") or {}).get("suspend"))


def gates_of(obj: Object) -> list[str]:
    """Return the admission gates of a job."""
    return [gate for gate in annotations_of(obj).get(ADMISSION_GATES, "").split(",") if gate]


def _other_gates(obj: Object) -> str:
    return ",".join(gate for gate in gates_of(obj) if gate != GATE)


def as_released(objects: Iterable[Object]) -> list[Object]:
    """Return lowered objects with waiting trainings in their released form, whose pods can be counted."""
    return [_without_gate(obj) if GATE in gates_of(obj) else obj for obj in objects]


def _without_gate(obj: Object) -> Object:
    annotations = {key: value for key, value in annotations_of(obj).items() if key != ADMISSION_GATES}
    spec = {key: value for key, value in obj["spec"].items() if key != "suspend"}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}, "spec": spec}


def judge(obj: Object, ends: Ends, keys: Records) -> list[Prerequisite]:
    """Return the prerequisites of a training with their states.

    :param ends: the jobs and sweeps of its namespace; see :func:`ends_of`.
    """
    seen, namespace = _mapping(annotations_of(obj).get(keys.ended_before)), obj["metadata"].get("namespace") or ""
    found = []
    for name, condition in prerequisites_of(obj, keys.after).items():
        exists, outcome = (namespace, name) in ends, ends.get((namespace, name))
        if not exists and seen.get(name) in (OK, FAILED):
            exists, outcome = True, "ok" if seen[name] == OK else "failed"
        sweep = ends.sweeps.get((namespace, name))
        if sweep is not None:
            found.append(_judge_sweep(name, condition, outcome, sweep, seen))
            continue
        record = read_record(seen.get(_record_key(name)))
        state = _state(condition, outcome, exists=exists)
        may_be_hidden = not exists and namespace in ends.with_hidden
        found.append(Prerequisite(name, condition, state, outcome, record=record, may_be_hidden=may_be_hidden))
    return found


def _judge_sweep(
    name: str, condition: str, outcome: Outcome | None, ends: SweepEnds, seen: Mapping[str, Any]
) -> Prerequisite:
    """Return a sweep with its state.

    :param outcome: how the jobs ended that exist; None if one has not.
    :param seen: the record of the training that waits.
    """
    record = updated_record(read_record(seen.get(_record_key(name))), ends)
    failed, absent = _failed_jobs(name, ends, record, seen), record.absent(ends.jobs, name)
    if absent:
        left: State = "waiting" if outcome is None else "missing"
        return Prerequisite(name, condition, left, None, failed, absent, record, is_sweep=True)
    if failed and outcome == "ok":
        outcome = "failed"
    state = _state(condition, outcome, exists=True)
    return Prerequisite(name, condition, state, outcome, failed, (), record, is_sweep=True)


def _record_key(sweep: str) -> str:
    """Return the key of a sweep's record in the annotation: no job has this name."""
    return f"{sweep}/*"


def _failed_jobs(sweep: str, ends: SweepEnds, record: SweepRecord, seen: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the jobs of a sweep that have failed, and those that had failed when they were last seen."""
    names = (key.removeprefix(f"{sweep}/") for key in seen if key.startswith(f"{sweep}/"))
    recorded = {name for name in names if re.fullmatch(_JOB_NAME, name) and record.may_have(name, sweep)}
    failed = {name for name, outcome in ends.jobs.items() if outcome == "failed"}
    return tuple(sorted(failed | recorded - ends.jobs.keys()))


def _state(condition: str, outcome: Outcome | None, *, exists: bool) -> State:
    if not exists:
        return "missing"
    if outcome is None:
        return "waiting"
    return "met" if is_met(condition, outcome) else "unmet"


def is_met(condition: str, outcome: Outcome | None) -> bool:
    """Return True if a prerequisite that ended this way meets a condition; None: it has not ended."""
    return outcome is not None and condition in (ANY, outcome)


def ends_of(mains: Iterable[Object], keys: Records) -> Ends:
    """Return how the trainings among some main objects ended, and the sweeps: a sweep has failed if a job of it has.

    Objects that are being deleted do not count; of two generations of a job, the newer one does.
    """
    newest: dict[tuple[str, str], Object] = {}
    for obj in sorted(mains, key=lambda item: item["metadata"].get("creationTimestamp") or ""):
        is_training = obj["kind"] in TRAININGS and not is_controlled(obj)
        name = labels_of(obj).get("app")
        if is_training and name and keys.job_type in labels_of(obj) and not obj["metadata"].get("deletionTimestamp"):
            newest[obj["metadata"].get("namespace") or "", name] = obj
    found = Ends()
    for (namespace, name), obj in newest.items():
        outcome = outcome_of(obj)
        found[namespace, name] = outcome
        if is_hidden(name):
            found.with_hidden.add(namespace)
        if keys.sweep in labels_of(obj):
            sweep = labels_of(obj)[keys.sweep]
            ends = found.sweeps.setdefault((namespace, sweep), SweepEnds(sweep))
            ends.add(name, outcome, obj, keys.sweep_size)
    for place, ends in found.sweeps.items():
        found[place] = outcome_of_all([*ends.jobs.values(), *([found[place]] if place in found else [])])
    return found


def outcome_of_all(outcomes: Collection[Outcome | None]) -> Outcome | None:
    """Return how some jobs ended together: failed if one has; None if one has not ended."""
    return None if None in outcomes else "failed" if "failed" in outcomes else "ok"


def outcome_of(obj: Object) -> Outcome | None:
    """Return how a training ended; None if it has not."""
    ended = end_state(obj)
    return None if ended is None else "failed" if ended == "failed" else "ok"


def release_patch(obj: Object, states: Iterable[Prerequisite], keys: Records, now: str) -> Object | None:
    """Return the patch that releases a waiting training, or records the prerequisites that have ended; None if nothing
    has changed.

    A paused training stays suspended until it is resumed.

    :param now: RFC 3339 time to record.
    """
    states, known = list(states), annotations_of(obj)
    before = _mapping(known.get(keys.ended_before))
    seen = {name: outcome for name, outcome in before.items() if "/" not in name}
    seen |= {one.name: one.outcome for one in states if one.outcome}
    failed = [f"{one.name}/{job}" for one in states for job in one.failed_jobs]
    seen |= dict.fromkeys(failed[:_MOST_JOBS], FAILED)
    for one in states:
        more = {**seen, _record_key(one.name): one.record.as_json()}
        seen = more if one.record.size and len(json.dumps(more)) <= _LONGEST else seen
    record = json.dumps(seen, sort_keys=True)
    annotations: dict[str, Any] = {keys.ended_before: record} if seen or before else {}
    if not all(one.state == "met" for one in states):
        return {"metadata": {"annotations": annotations}} if seen != before else None
    annotations[keys.released] = now
    if GATE in gates_of(obj):
        annotations[ADMISSION_GATES] = _other_gates(obj) or None
    patch: Object = {"metadata": {"annotations": annotations}}
    if not queue_of(obj) and keys.paused not in known:
        patch["spec"] = {"suspend": False}
    return patch


def _mapping(text: str | None) -> dict[str, Any]:
    """Return a JSON object; {} for any other text, which a user may have written."""
    if not text or len(text) > _LONGEST:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def keep_released(desired: Object, live: Object, keys: Records) -> None:
    """Change a desired object, which is about to change or replace a live one, so that a training that does not wait
    does not begin to wait. Gates of other tools stay as they are on the live one.
    """
    if not prerequisites_of(desired, keys.after) or is_waiting(live, keys):
        return
    annotations = annotations_of(desired)
    annotations.pop(ADMISSION_GATES, None)
    if others := _other_gates(live):
        annotations[ADMISSION_GATES] = others
    annotations[keys.released] = annotations_of(live).get(keys.released) or live["metadata"]["creationTimestamp"]
