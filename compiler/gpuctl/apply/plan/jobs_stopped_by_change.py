"""Which running jobs a change of documents ends, and which finished trainings it runs again.

Decided as a plan does, with the old documents for what is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Literal, NamedTuple

from gpuctl.apply.plan.decision_inputs import DecisionOptions, PendingDecision, Target
from gpuctl.apply.plan.object_decision import decide, decide_with_answer
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.planner import title_of
from gpuctl.apply.state.managed_fields import fields_of
from gpuctl.backend.canonical_form import canonical
from gpuctl.backend.lowering_context import Lowered
from gpuctl.capacity.demand import is_object_of, owns
from gpuctl.capacity.pod_requests import amounts
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, Object, key_of
from gpuctl.objects.ownership_metadata import records, stamp
from gpuctl.objects.workload_state import age

Manner = Literal["replaced", "kept", "removed"]


class StoppedJob(NamedTuple):
    """A running job that a change ends.

    ``manner``: ``replaced`` by an apply; ``kept`` by an apply, for its document did not change, and replaced by a
    controller that applies manifests; ``removed`` with its document, by pruning. ``reason`` names the fields.
    ``since`` is when the first of its ``pods`` started (RFC 3339, "" when nobody says), ``runtime`` how long ago that
    was when the snapshot was taken. ``gpus`` are those of its pods together.
    """

    kind: str
    namespace: str
    name: str
    manner: Manner
    reason: str
    since: str
    runtime: str
    pods: int
    gpus: int


class RerunTraining(NamedTuple):
    """A finished training that a change runs again.

    ``manner``: ``replaced`` by an apply; ``kept`` by an apply, and made anew by a controller that applies manifests.
    ``reason`` names the fields. ``condition`` is the type of the condition that ended it (``Complete``, ``Failed``),
    ``since`` when that was (RFC 3339, "" if unknown), ``ago`` how long before the snapshot was taken.
    """

    kind: str
    namespace: str
    name: str
    manner: Manner
    reason: str
    condition: str
    since: str
    ago: str


def stopped_jobs(before: Compilation | None, after: Compilation | None, snapshot: Snapshot) -> list[StoppedJob]:
    """The jobs of ``before`` that run in a snapshot, and do not outlive the change to ``after``, by namespace and name.

    What the cluster has is taken to be what ``before`` says.
    """
    old, new = _workloads(before), _workloads(after)
    found = []
    for place, item in sorted(old.items(), key=lambda pair: pair[0]):
        pods = [pod for pod in snapshot.pods if owns(item.object, pod) and _has_running_containers(pod)]
        outcome = _outcome(item, new.get(place), after.settings if after is not None else None) if pods else None
        if outcome is not None:
            assert before is not None, "it has a workload"
            found.append(_stopped_job(item, *outcome, pods, before.settings, snapshot))
    return found


def rerun_trainings(before: Compilation | None, after: Compilation | None, snapshot: Snapshot) -> list[RerunTraining]:
    """The trainings of ``before`` that have finished in a snapshot and run again by the change to ``after``, by
    namespace and name. One whose document goes does not run again.
    """
    old, new = _workloads(before), _workloads(after)
    taken = datetime.fromisoformat(snapshot.taken_at.replace("Z", "+00:00"))
    found = []
    for place, item in sorted(old.items(), key=lambda pair: pair[0]):
        end = next((entry for entry in snapshot.finished if is_object_of(item.object, entry)), None)
        if end is None or place not in new or after is None or new[place].document.kind != item.document.kind:
            continue
        outcome = _outcome(item, new[place], after.settings, end["condition"])
        if outcome is not None:
            since = end.get("since", "")
            _, namespace, name = key_of(item.object)
            found.append(
                RerunTraining(item.document.kind, namespace, name, *outcome, end["condition"], since, age(since, taken))
            )
    return found


def _workloads(compilation: Compilation | None) -> dict[tuple[str, str], Lowered]:
    lowered: Iterable[Lowered] = compilation.lowered if compilation is not None else ()
    return {key_of(item.object)[1:]: item for item in lowered if item.object["kind"] in WORKLOADS}


def _has_running_containers(pod: Object) -> bool:
    """Whether a pod has containers that run: one that waits for its image loses nothing."""
    return "node" in pod and pod.get("phase", "Running") == "Running"


def _outcome(
    old: Lowered, new: Lowered | None, settings: Settings | None, condition: str | None = None
) -> tuple[Manner, str] | None:
    """:param condition: the type of the condition that ended the old one; None: it runs."""
    if new is None or settings is None:
        return "removed", "its document goes"
    if new.document.kind != old.document.kind:
        return "removed", f"the name becomes that of a job of kind {new.document.kind}"
    same = canonical(old.document) == canonical(new.document)
    if old.object["kind"] != new.object["kind"]:
        return "kept" if same else "replaced", f"was a {old.object['kind']}"
    options = DecisionOptions(records(settings), relower=True, rolling=settings.is_rolling)
    step = _step(old, new, same, options)
    if step.action != "replace":
        return None
    is_kept = _step(old, new, same, replace(options, relower=False), condition).action != "replace"
    return "kept" if is_kept else "replaced", step.reason


def _step(old: Lowered, new: Lowered, same: bool, options: DecisionOptions, condition: str | None = None) -> Step:
    """What an apply of the new document does to the old one's object."""
    live, desired = (stamp(item.object, options.keys, None) for item in (old, new))
    # Every live object has one; which it is plays no part.
    live["metadata"]["uid"] = ""
    if condition is not None:
        live["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    found = decide(Target(desired, False, title_of(new.document), same), live, options)
    return (
        decide_with_answer(found, None, options, fields_of(old.object)) if isinstance(found, PendingDecision) else found
    )


def _stopped_job(
    item: Lowered, manner: Manner, reason: str, pods: list[Object], settings: Settings, snapshot: Snapshot
) -> StoppedJob:
    _, namespace, name = key_of(item.object)
    since = min((pod["startTime"] for pod in pods if pod.get("startTime")), default="")
    taken = datetime.fromisoformat(snapshot.taken_at.replace("Z", "+00:00"))
    gpus = sum(
        amount for pod in pods for key, amount in amounts(pod["requests"]).items() if key in settings.gpu_resources
    )
    return StoppedJob(
        item.document.kind, namespace, name, manner, reason, since, age(since or None, taken), len(pods), int(gpus)
    )
