"""The running jobs that a change of documents ends, and the finished trainings that it runs again.

The decision is that of a plan, with the old documents in place of the live objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.decision_inputs import DecisionOptions, PendingDecision, Target
from gpuctl.apply.plan.object_decision import decide, decide_with_answer
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.plan_draft import title_of
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.state.managed_fields import fields_of
from gpuctl.backend.canonical_form import canonical
from gpuctl.backend.lowering_context import Lowered
from gpuctl.capacity.pods.demand import is_object_of, owns
from gpuctl.capacity.snapshot.pod_requests import amounts, total_of
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.gitops.restarts import differing_fields
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, Key, Object, key_of
from gpuctl.objects.hashed_names import CHANGEABLE, spec_digest
from gpuctl.objects.ownership_metadata import stamp
from gpuctl.objects.timestamps import age, parse_timestamp

Manner = Literal["replaced", "kept", "removed"]


class StoppedJob(NamedTuple):
    """A running job that a change ends.

    ``manner``: ``replaced`` by an apply; ``kept`` by an apply because its document did not change, or only its queue,
    but replaced by a controller that applies manifests; ``removed`` with its document, by pruning. ``reason`` names the
    fields. ``since`` is the start of its first pod (RFC 3339, "" if unknown), ``runtime`` its age at the time of the
    snapshot. ``gpus`` is the sum over its ``pods``.
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

    ``manner``: ``replaced`` by an apply; ``kept`` by an apply, but recreated by a controller that applies manifests.
    ``reason`` names the fields. ``condition`` is the type of the condition that ended it (``Complete``, ``Failed``).
    ``since`` is the time of that condition (RFC 3339, "" if unknown), ``ago`` its age at the time of the snapshot.
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
    """Return the jobs of ``before`` that run in a snapshot and that the change to ``after`` ends, by namespace and
    name.

    The cluster is assumed to be in the state of ``before``.
    """
    old, new, recreated = _workloads(before), _workloads(after), recreated_in_git(before, after)
    found = []
    for place, item in sorted(old.items(), key=lambda pair: pair[0]):
        pods = [pod for pod in snapshot.pods if owns(item.object, pod) and _has_running_containers(pod)]
        settings = after.settings if after is not None else None
        outcome = _outcome(item, new.get(place), settings, recreated) if pods else None
        if outcome is not None:
            assert before is not None, "it has a workload"
            found.append(_stopped_job(item, *outcome, pods, before.settings, snapshot))
    return found


def rerun_trainings(before: Compilation | None, after: Compilation | None, snapshot: Snapshot) -> list[RerunTraining]:
    """Return the trainings of ``before`` that have finished in a snapshot and that the change to ``after`` runs again.

    They are sorted by namespace and name. A training whose document is removed does not run again.
    """
    old, new, recreated = _workloads(before), _workloads(after), recreated_in_git(before, after)
    taken = parse_timestamp(snapshot.taken_at).timestamp()
    found = []
    for place, item in sorted(old.items(), key=lambda pair: pair[0]):
        end = next((entry for entry in snapshot.finished if is_object_of(item.object, entry)), None)
        if end is None or place not in new or after is None or new[place].document.kind != item.document.kind:
            continue
        outcome = _outcome(item, new[place], after.settings, recreated, end["condition"])
        if outcome is not None:
            since = end.get("since", "")
            _, namespace, name = key_of(item.object)
            found.append(
                RerunTraining(item.document.kind, namespace, name, *outcome, end["condition"], since, age(since, taken))
            )
    return found


def recreated_in_git(old: Compilation | None, new: Compilation | None) -> frozenset[Key]:
    """Return the trainings whose manifests get another name in git, so that new pods are created."""
    before, after = _digests(old), _digests(new)
    return frozenset(key for key, value in after.items() if before.get(key, value) != value)


def _digests(compilation: Compilation | None) -> dict[Key, str]:
    objects: dict[int, list[Object]] = {}
    mains: dict[Key, int] = {}
    for item in compilation.lowered if compilation is not None else ():
        objects.setdefault(id(item.document), []).append(item.object)
        if item.object["kind"] in CHANGEABLE:
            mains[key_of(item.object)] = id(item.document)
    return {key: spec_digest(objects[document]) for key, document in mains.items()}


def _workloads(compilation: Compilation | None) -> dict[tuple[str, str], Lowered]:
    lowered: Iterable[Lowered] = compilation.lowered if compilation is not None else ()
    return {key_of(item.object)[1:]: item for item in lowered if item.object["kind"] in WORKLOADS}


def _has_running_containers(pod: Object) -> bool:
    """Return True if a pod has running containers: a pod that waits for its image loses no work."""
    return "node" in pod and pod.get("phase", "Running") == "Running"


def _outcome(
    old: Lowered,
    new: Lowered | None,
    settings: Settings | None,
    recreated: Collection[Key],
    condition: str | None = None,
) -> tuple[Manner, str] | None:
    """Return how an apply of the new document affects the old object, and why; None if it leaves it alone.

    :param recreated: the trainings that a controller recreates, as of :func:`recreated_in_git`.
    :param condition: the type of the condition that ended the old job; None if it runs.
    """
    if new is None or settings is None:
        return "removed", say("its document is removed")
    if new.document.kind != old.document.kind:
        return "removed", say("its name is used by a job of kind {kind}", kind=new.document.kind)
    same = canonical(old.document) == canonical(new.document)
    if old.object["kind"] != new.object["kind"]:
        return "kept" if same else "replaced", say("was a {kind}", kind=old.object["kind"])
    relowered = ApplyRequest(settings=settings, planning=PlanOptions(relower=True))
    step = _step(old, new, same, DecisionOptions(relowered, settings.is_rolling))
    if step.action != "replace":
        # An apply leaves a running job in its queue, and does not change the pods of a finished one.
        return ("kept", differing_fields(old.object, new.object)) if key_of(new.object) in recreated else None
    options = DecisionOptions(ApplyRequest(settings=settings), settings.is_rolling)
    is_kept = _step(old, new, same, options, condition).action != "replace"
    return "kept" if is_kept else "replaced", step.reason


def _step(old: Lowered, new: Lowered, same: bool, options: DecisionOptions, condition: str | None = None) -> Step:
    """Return what an apply of the new document does to the old document's object."""
    live, desired = (stamp(item.object, options.keys, None) for item in (old, new))
    # Every live object has a uid; its value does not matter here.
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
    taken = parse_timestamp(snapshot.taken_at).timestamp()
    gpus = sum(total_of(amounts(pod["requests"]), settings.gpu_resources) for pod in pods)
    return StoppedJob(
        item.document.kind, namespace, name, manner, reason, since, age(since or None, taken), len(pods), int(gpus)
    )
