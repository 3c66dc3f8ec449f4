"""Whom the pods of a plan would evict, and for what its jobs would wait: what ``fit`` says of it, before it is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import CheckOptions, MaySee, may_see_all
from gpuctl.apply.plan.creation_order import creates_workload, sequential_groups
from gpuctl.apply.plan.plan import EvictedJob, Plan, Step, Wait
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.earliest_start_text import describe_opening
from gpuctl.capacity.exhaustive_search import DEPENDS
from gpuctl.capacity.fit_with_queues import assumed_defaults
from gpuctl.capacity.job_fit import Fit, Victim, fit
from gpuctl.capacity.partial_starts import describe_partial_start
from gpuctl.capacity.pod_requests import pod_requests
from gpuctl.capacity.shortage import format_units
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.capacity.verdicts import STARTS
from gpuctl.kube.api_errors import ApiError, ClusterError, if_allowed
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Object
from gpuctl.objects.label_names import owner_of
from gpuctl.objects.ownership_metadata import Records, job_title
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.workload_state import age

_VOLUMES = frozenset(
    {"claims", "volumes", "storage_classes", "csi_nodes", "attachments", "csi_drivers", "storage_capacities"}
)
_SENT = ("post", "put", "apply", "labels")


class _Class(NamedTuple):
    value: int
    preempts: bool


def add_fit_results(session: Session, plan: Plan, options: CheckOptions) -> None:
    """Write into the plan's steps what becomes of their pods, whom they would evict and for what they would wait, and
    into its ``confirm`` what has to be asked.

    Reads the cluster's nodes and pods only for plans that make pods with GPUs, in a queue, or such as may evict others.
    What cannot be known is a note: this never stops an apply.
    """
    steps = [step for step in plan.steps if _makes_pods(step)]
    if not steps:
        return
    try:
        classes = _classes(session, plan)
        bold = [step for step in steps if _may_evict(step, classes)]
        if bold or any(step.queued or _asks_for(step, options.gpu_resources) for step in steps):
            _add_results(session, plan, steps, bold, options)
    except ClusterError as error:
        plan.notes.append(f"{_UNKNOWN}: {error.message}")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Objects of others may be anything; that must not stop an apply.
        plan.notes.append(f"{_UNKNOWN}: an object of the cluster is not as expected ({type(error).__name__})")


_UNKNOWN = "whether these jobs fit, and whom they evict, is not known"


def never_fitting(session: Session, plan: Plan) -> list[str]:
    """Return the workloads of a plan for which the cluster has no room even without any other job, with the reason.

    Empty where the user may not look at nodes and all pods.
    """
    steps = [step for step in plan.steps if _makes_pods(step)]
    by_key = {step.key: step for step in steps}
    try:
        # Quotas are judged by what the plan gives back, which this does not know.
        answers = fit(replace(_snapshot(session, steps), quotas=[]), _objects(plan, steps))
    except (ClusterError, LookupError, TypeError, ValueError, AttributeError):
        # Objects of others may be anything.
        return []
    return [_never(by_key[item.demand.key], item) for item in answers if item.verdict == "never"]


def _never(step: Step, answer: Fit) -> str:
    return f"{step.title or step.key} in {step.key.namespace} never starts in the cluster as of now: {answer.reason}"


def _snapshot(session: Session, steps: list[Step]) -> Snapshot:
    mounted = any(template["spec"].get("volumes") for step in steps for template in _templates(step))
    left_out = frozenset({"custom_resources"}) if mounted else _VOLUMES | {"custom_resources"}
    if not any(step.queued or (step.desired is not None and queue_of(step.desired)) for step in steps):
        left_out |= {"kueue"}
    return take_snapshot(session, left_out=left_out)


def _add_results(session: Session, plan: Plan, steps: list[Step], bold: list[Step], options: CheckOptions) -> None:
    try:
        snapshot, answers = _fit_answers(session, plan, steps, options)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        what = "find room, and whom they evict," if bold else "find room"
        plan.notes.append(f"whether these jobs {what} is not known: that takes the rights to list nodes and all pods")
        return
    by_key = {step.key: step for step in steps}
    plan.notes += assumed_defaults(snapshot, answers)
    for answer in answers:
        step = by_key[answer.demand.key]
        _add_result(plan, step, answer, snapshot, options, may_evict=step in bold)
    plan.turns = sequential_groups(steps, answers)
    number = sum(map(len, plan.turns))
    if number:
        plan.notes.append(f"{number} jobs compete for room: they are created in turn, the most important first")


def _fit_answers(session: Session, plan: Plan, steps: list[Step], options: CheckOptions) -> tuple[Snapshot, list[Fit]]:
    """Return the cluster and the answers for the workloads of a plan, those of its batch where it belongs to one."""
    if options.batch is not None:
        left_out = frozenset({"custom_resources"})
        found = options.batch.answers({step.key for step in steps}, lambda: take_snapshot(session, left_out=left_out))
        if found is not None:
            return found
    snapshot = _snapshot(session, steps)
    return snapshot, fit(snapshot, _objects(plan, steps), {step.key for step in steps if creates_workload(step)})


def _makes_pods(step: Step) -> bool:
    if step.key.kind not in WORKLOADS or step.desired is None or step.action not in ("create", "replace", "update"):
        return False
    return step.method in ("post", "put") and any(number for _, number in pod_templates(step.desired))


def _templates(step: Step) -> list[Object]:
    assert step.desired is not None
    return [template for template, number in pod_templates(step.desired) if number]


def _asks_for(step: Step, resources: frozenset[str]) -> bool:
    return any(pod_requests(template["spec"]).keys() & resources for template in _templates(step))


def _classes(session: Session, plan: Plan) -> dict[str, _Class] | None:
    """The PriorityClasses as they will be, None when they may not be read."""
    found = if_allowed(lambda: session.list_objects(RESOURCES["PriorityClass"])[0], None)
    if found is None:
        return None
    planned = [step.desired for step in plan.steps if step.key.kind == "PriorityClass" and step.desired is not None]
    return {
        item["metadata"]["name"]: _Class(int(item.get("value") or 0), item.get("preemptionPolicy") != "Never")
        for item in [*planned, *found]
        if item.get("metadata")
    }


def _may_evict(step: Step, classes: dict[str, _Class] | None) -> bool:
    """Whether some pod may be less important than one of these. Without a class a pod has priority 0."""
    names = [template["spec"].get("priorityClassName") for template in _templates(step)]
    if classes is None:
        return any(names)
    least = min((item.value for item in classes.values()), default=0)
    own = [classes.get(name or "", _Class(0, True)) for name in names]
    return any(item.preempts and item.value > min(least, 0) for item in own)


def _objects(plan: Plan, steps: list[Step]) -> list[Object]:
    """The workloads whose pods come, and all objects of the plan that may decide on them."""
    mine = [step.desired for step in steps if step.desired is not None]
    others = []
    for step in plan.steps:
        if step.key.kind in WORKLOADS or step.action in ("delete", "prune"):
            continue
        sent = step.desired if step.method in _SENT else step.live
        if sent is not None and sent.get("kind") == step.key.kind and "metadata" in sent:
            others.append(sent)
    return [*mine, *others]


def _add_result(
    plan: Plan, step: Step, answer: Fit, snapshot: Snapshot, options: CheckOptions, *, may_evict: bool
) -> None:
    step.verdict = answer.verdict
    step.victims = evicted_jobs(answer.victims, snapshot, options.keys, options.sees)
    title = f"{step.title or step.key} in {step.key.namespace}"
    if step.victims:
        perhaps = "" if answer.certain else " (or others instead)"
        named = ", ".join(map(str, step.victims))
        text = f"{title} evicts others as of now: {named}{perhaps}"
        (plan.confirm if any(item.runtime for item in step.victims) else plan.notes).append(text)
    if answer.verdict == "fits-when-empty" or (answer.depends and answer.demand.in_turn):
        if not step.waits:
            step.waits.append(_wait(step, answer, options))
        elif answer.depends:
            # Its namespace's quota was told in the order of turns: others may ask for it first.
            step.waits = [Wait(cause, f"{text}; {DEPENDS}", None) for cause, text, _ in step.waits]
    elif answer.verdict == "never" and options.queue and not step.queued:
        plan.errors.append(_never(step, answer))
    elif _is_reported(plan, step.title):
        return
    elif answer.verdict == "never":
        held = f"; {describe_partial_start(answer.starts, answer.demand.pods, answer.held)}" if answer.held else ""
        plan.notes.append(f"{_never(step, answer)}{held}")
    elif answer.verdict == "unknown" and answer.demand.uncounted:
        plan.notes.append(f"whether {title} fits is not known: {answer.reason}")
    elif answer.verdict == "unknown" and may_evict and not step.victims and _has_less_important(answer, snapshot):
        plan.notes.append(f"whether {title} fits, and whom it evicts, is not known: {answer.reason}")


def _wait(step: Step, answer: Fit, options: CheckOptions) -> Wait:
    """What its pods wait for, or may wait for: quota of their queue, else room."""
    if answer.verdict in STARTS:
        return Wait("room", f"others may come first; {DEPENDS}", None)
    if answer.admitted is False:
        return Wait("queue", answer.reason.removeprefix("waits in "), answer.likelihood)
    lacking = _lacking(step, answer, options)
    held = describe_partial_start(answer.starts, answer.demand.pods, answer.held) if answer.held else ""
    # The reason of the answer says it already.
    depends = DEPENDS if answer.depends and lacking != answer.reason else ""
    return Wait("room", "; ".join(filter(None, (lacking, held, depends, _when(answer, options)))), answer.likelihood)


def _when(answer: Fit, options: CheckOptions) -> str:
    """When it will fit, where that is known and is nobody's that may not be seen."""
    opening = answer.opening
    if opening is None or not all(options.sees(item.namespace, item.job) for item in opening.after):
        return ""
    return describe_opening(opening)


def _lacking(step: Step, answer: Fit, options: CheckOptions) -> str:
    """What its pods lack now, in a few words; what is short on one node alone, the pool and the largest room tell."""
    found, demand = answer.balance, answer.demand
    need = found.per_pod.get(found.scarce, 1)
    if found.largest is None or found.largest[1][found.scarce] >= need:
        return answer.reason
    pools = {(template["spec"].get("nodeSelector") or {}).get(options.keys.pool) for template in _templates(step)}
    pool = next(iter(pools)) if len(pools) == 1 else None
    free = format_units(found.scarce, found.largest[1][found.scarce]).split()[0]
    each = f"{demand.pods - answer.starts} of {demand.pods} pods need " if demand.pods > 1 else ""
    where = f"on one node of pool {pool}" if pool else "on one node"
    return f"{each}{format_units(found.scarce, need)} {where}; largest has {free} free"


def _is_reported(plan: Plan, title: str) -> bool:
    """Whether the checks have said what a job lacks; of many jobs they name the first only."""
    notes = [note for note in plan.notes if " will wait for" in note or note.endswith(" cannot start")]
    return any(title in note or " more will wait for" in note or " more cannot start" in note for note in notes)


def _has_less_important(answer: Fit, snapshot: Snapshot) -> bool:
    """Whether anything less important is on a node."""
    return any("node" in pod and pod.get("priority", 0) < answer.demand.priority for pod in snapshot.pods)


def evicted_jobs(
    victims: Iterable[Victim], snapshot: Snapshot, keys: Records, sees: MaySee = may_see_all
) -> list[EvictedJob]:
    """Return victims by the jobs that they belong to; all that may not be seen are one job without a name."""
    victims = list(victims)
    if not victims:
        return []
    pods = {(item["namespace"], item["name"]): item for item in snapshot.pods}
    taken = datetime.fromisoformat(snapshot.taken_at.replace("Z", "+00:00"))
    found: dict[tuple[str, str, int], list[Object]] = {}
    for victim in victims:
        item = pods.get((victim.pod.namespace, victim.pod.name))
        if item is None:
            # A pod of the very jobs that are judged, which others come after: nobody's yet.
            continue
        job = job_title(item.get("labels") or {}, keys) or victim.pod.owner
        found.setdefault((victim.pod.namespace, job, victim.pod.priority), []).append(item)
    result = [
        EvictedJob(
            namespace,
            job,
            priority,
            tuple(item["name"] for item in items),
            _runtime(items, taken),
            owner_of(items[0].get("labels") or {}),
        )
        for (namespace, job, priority), items in found.items()
        if sees(namespace, job)
    ]
    hidden = {key: items for key, items in found.items() if not sees(key[0], key[1])}
    if hidden:
        # How many jobs others have is not told either.
        runtime = _runtime([item for items in hidden.values() for item in items], taken)
        result.append(EvictedJob("", "", max(priority for _, _, priority in hidden), (), runtime, seen=False))
    return result


def _runtime(pods: Iterable[Object], taken: datetime) -> str | None:
    """For how long the longest of some pods runs; None when none does."""
    started = [pod["startTime"] for pod in pods if pod.get("startTime") and "phase" not in pod]
    return age(min(started), taken) if started else None
