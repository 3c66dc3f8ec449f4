"""The jobs that a plan's pods would evict, and the waits of its jobs, as predicted by ``fit``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest, MaySee, may_see_all
from gpuctl.apply.plan.contested_creations import creates_workload, sequential_groups
from gpuctl.apply.plan.new_pods import workload_of_new_pods
from gpuctl.apply.plan.plan import EvictedJob, Plan, Step, Wait
from gpuctl.apply.plan.pool_labels import label_changes
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.earliest_start_text import describe_opening
from gpuctl.capacity.fit.exhaustive_search import DEPENDS
from gpuctl.capacity.fit.fit_with_queues import assumed_defaults
from gpuctl.capacity.fit.job_fit import Fit, Victim, fit
from gpuctl.capacity.fit.partial_starts import describe_partial_start
from gpuctl.capacity.fit.verdicts import STARTS
from gpuctl.capacity.scheduler.scheduler_model import format_units
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.kube.api_errors import ApiError, ClusterError, if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Template, clauses, say
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Object
from gpuctl.objects.label_names import owner_of
from gpuctl.objects.ownership_metadata import Records, job_title
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.prerequisites import GATE, gates_of
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.timestamps import age, parse_timestamp

_VOLUMES = frozenset(
    {"claims", "volumes", "storage_classes", "csi_nodes", "attachments", "csi_drivers", "storage_capacities"}
)
_SENT = ("post", "put", "apply")


class _Class(NamedTuple):
    value: int
    preempts: bool


def add_fit_results(session: Session, plan: Plan, request: ApplyRequest) -> None:
    """Add the prediction of ``fit`` to the plan: verdict, victims and waits of its steps, and questions to ``confirm``.

    The cluster's nodes and pods are read only for plans that create pods with GPUs or device claims, in a queue, or
    that may evict others. What is unknown becomes a note: this never stops an apply.
    """
    steps = [step for step in plan.steps if _makes_pods(step)]
    if not steps:
        return
    try:
        classes = _classes(session, plan)
        bold = [step for step in steps if _may_evict(step, classes)]
        if bold or any(_is_queued(step) or _asks_for(step, request.settings.scarce_gpu_resources) for step in steps):
            _add_results(session, plan, steps, bold, request)
    except ClusterError as error:
        plan.notes.append(say(_UNKNOWN, error=error.message))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Foreign objects may be malformed; that must not stop an apply.
        plan.notes.append(
            say(_UNKNOWN, error=say("an object in the cluster is malformed ({error})", error=type(error).__name__))
        )


_UNKNOWN = Template("whether these jobs fit, and which jobs they evict, is not known: {error}")


def never_fitting(session: Session, plan: Plan) -> list[str]:
    """Return the workloads that would not fit even into an empty cluster, with the reason.

    Empty if the user may not list nodes and all pods.
    """
    steps = [step for step in plan.steps if _makes_pods(step)]
    by_key = {step.key: step for step in steps}
    try:
        # Quotas are checked elsewhere, together with what the plan frees.
        answers = fit(replace(_snapshot(session, steps), quotas=[]), _objects(plan, steps))
    except (ClusterError, LookupError, TypeError, ValueError, AttributeError):
        # Foreign objects may be malformed.
        return []
    return [_never(by_key[item.demand.key], item) for item in answers if item.verdict == "never"]


def _never(step: Step, answer: Fit) -> str:
    return say(
        "{job} in {namespace} cannot start even in the empty cluster: {reason}",
        job=step.title or step.key,
        namespace=step.key.namespace,
        reason=answer.reason,
    )


def _is_queued(step: Step) -> bool:
    return step.queued or (step.desired is not None and bool(queue_of(step.desired)))


def _snapshot(session: Session, steps: list[Step]) -> Snapshot:
    mounted = any(template["spec"].get("volumes") for step in steps for template in _templates(step))
    left_out: frozenset[str] = frozenset() if mounted else _VOLUMES
    if not any(map(_is_queued, steps)):
        left_out |= {"kueue"}
    return take_snapshot(session, left_out=left_out)


def _add_results(session: Session, plan: Plan, steps: list[Step], bold: list[Step], request: ApplyRequest) -> None:
    try:
        snapshot, answers = _fit_answers(session, plan, steps, request)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        rights = say("this needs the rights to list nodes and all pods")
        plan.notes.append(
            say("whether these jobs find room, and which jobs they evict, is not known: {rights}", rights=rights)
            if bold
            else say("whether these jobs find room is not known: {rights}", rights=rights)
        )
        return
    by_key = {step.key: step for step in steps}
    plan.notes += assumed_defaults(snapshot, answers)
    for answer in answers:
        step = by_key[answer.demand.key]
        _add_result(plan, step, answer, snapshot, request, may_evict=step in bold)
    plan.turns = sequential_groups(steps, answers)
    number = sum(map(len, plan.turns))
    if number:
        plan.notes.append(
            say(
                "{number} jobs compete for room: they are created one after another, highest priority first",
                number=number,
            )
        )


def _fit_answers(session: Session, plan: Plan, steps: list[Step], request: ApplyRequest) -> tuple[Snapshot, list[Fit]]:
    """Return the snapshot and the answers for the workloads of a plan; those of its batch if it is part of one."""
    if request.batch is not None:
        found = request.batch.answers({step.key for step in steps}, lambda: take_snapshot(session))
        if found is not None:
            return found
    snapshot = _snapshot(session, steps)
    in_turn = {step.key for step in steps if creates_workload(step)}
    growing = {step.key for step in steps if step.method == "patch"}
    return snapshot, fit(snapshot, _objects(plan, steps), in_turn, growing)


def _makes_pods(step: Step) -> bool:
    workload = workload_of_new_pods(step)
    if workload is None or step.method == "apply" or step.action not in ("create", "replace", "update"):
        return False
    # A job that waits for other jobs does not wait for room.
    return GATE not in gates_of(workload) and any(number for _, number in pod_templates(workload))


def _templates(step: Step) -> list[Object]:
    workload = workload_of_new_pods(step)
    assert workload is not None
    return [template for template, number in pod_templates(workload) if number]


def _asks_for(step: Step, resources: frozenset[str]) -> bool:
    specs = [template["spec"] for template in _templates(step)]
    return any(pod_requests(spec).keys() & resources or spec.get("resourceClaims") for spec in specs)


def _classes(session: Session, plan: Plan) -> dict[str, _Class] | None:
    """Return the PriorityClasses after the plan; None if the user may not read them."""
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
    """Return True if some pod may have a lower priority than one of these. A pod without a class has priority 0."""
    names = [template["spec"].get("priorityClassName") for template in _templates(step)]
    if classes is None:
        return any(names)
    least = min((item.value for item in classes.values()), default=0)
    own = [classes.get(name or "", _Class(0, True)) for name in names]
    return any(item.preempts and item.value > min(least, 0) for item in own)


def _objects(plan: Plan, steps: list[Step]) -> list[Object]:
    """Return the workloads that create pods, and all objects of the plan that may affect their scheduling."""
    mine = [obj for step in steps if (obj := workload_of_new_pods(step)) is not None]
    others = []
    for step in plan.steps:
        if step.key.kind in WORKLOADS or step.action in ("delete", "prune"):
            continue
        if step.key.kind == "Node" and step.live is not None:
            others.append({"kind": "Node", "metadata": {"name": step.key.name, "labels": label_changes(step)}})
            continue
        sent = step.desired if step.method in _SENT else step.live
        if sent is not None and sent.get("kind") == step.key.kind and "metadata" in sent:
            others.append(sent)
    return [*mine, *others]


def _add_result(
    plan: Plan, step: Step, answer: Fit, snapshot: Snapshot, request: ApplyRequest, *, may_evict: bool
) -> None:
    step.verdict = answer.verdict
    step.victims = evicted_jobs(answer.victims, snapshot, request.keys, request.sees)
    title = say("{job} in {namespace}", job=step.title or step.key, namespace=step.key.namespace)
    if step.victims:
        perhaps = "" if answer.certain else say(" (or others instead)")
        named = list(map(str, step.victims))
        text = say("{job} evicts {victims}{perhaps}", job=title, victims=named, perhaps=perhaps)
        (plan.confirm if any(item.runtime for item in step.victims) else plan.notes).append(text)
    if answer.verdict in STARTS and answer.starts < answer.demand.pods and not answer.demand.independent:
        plan.notes.append(say("{job} starts {reason}", job=title, reason=answer.reason))
    if answer.verdict == "fits-when-empty" or (answer.depends and answer.demand.in_turn):
        if not step.waits:
            step.waits.append(_wait(step, answer, request))
        elif answer.depends:
            # The quota wait assumed the order of creation, but other jobs may use the quota first.
            step.waits = [Wait(cause, clauses(text, say(DEPENDS)), None) for cause, text, _ in step.waits]
    elif answer.verdict == "never" and request.planning.queue and not step.queued:
        plan.errors.append(_never(step, answer))
    elif step.title in plan.lacking_jobs and not (answer.verdict == "never" and answer.admitted is False):
        return
    elif answer.verdict == "never":
        held = [describe_partial_start(answer.starts, answer.demand.pods, answer.held)] if answer.held else []
        plan.notes.append(clauses(_never(step, answer), *held))
    elif answer.verdict == "unknown" and answer.demand.device_doubts:
        plan.notes.append(say("whether {job} fits is not known: {reason}", job=title, reason=answer.reason))
    elif answer.verdict == "unknown" and may_evict and not step.victims and _has_less_important(answer, snapshot):
        plan.notes.append(
            say("whether {job} fits, and which jobs it evicts, is not known: {reason}", job=title, reason=answer.reason)
        )


def _wait(step: Step, answer: Fit, request: ApplyRequest) -> Wait:
    """Return what the pods wait for, or may wait for: quota of their queue, else room."""
    if answer.verdict in STARTS:
        return Wait("room", say("others may come first; {depends}", depends=say(DEPENDS)), None)
    if answer.admitted is False:
        return Wait("queue", answer.queue_wait or answer.reason, answer.likelihood)
    lacking = _lacking(step, answer, request)
    held = describe_partial_start(answer.starts, answer.demand.pods, answer.held) if answer.held else ""
    # The answer's reason includes it already.
    depends = say(DEPENDS) if answer.depends and lacking != answer.reason else ""
    return Wait(
        "room",
        clauses(lacking, held, depends, _when(answer, request)),
        answer.likelihood,
    )


def _when(answer: Fit, request: ApplyRequest) -> str:
    """Return when it is expected to fit; "" if unknown, or if it depends on jobs that the user may not see."""
    opening = answer.opening
    if opening is None or not all(request.sees(item.namespace, item.job) for item in opening.after):
        return ""
    return describe_opening(opening)


def _lacking(step: Step, answer: Fit, request: ApplyRequest) -> str:
    """Return what the pods lack now, in short. If no single node is large enough, name the pool and the largest free
    amount.
    """
    found, demand = answer.balance, answer.demand
    need = found.per_pod.get(found.scarce, 1)
    if found.largest is None or found.largest[1][found.scarce] >= need:
        return answer.reason
    pools = {(template["spec"].get("nodeSelector") or {}).get(request.keys.pool) for template in _templates(step)}
    pool = next(iter(pools)) if len(pools) == 1 else None
    free = format_units(found.scarce, found.largest[1][found.scarce]).split()[0]
    each = (
        say("{waiting} of {pods} pods need ", waiting=demand.pods - answer.starts, pods=demand.pods)
        if demand.pods > 1
        else ""
    )
    where = say("on one node of pool {pool}", pool=pool) if pool else say("on one node")
    return say(
        "{each}{amount} {where}; largest has {free} free",
        each=each,
        amount=format_units(found.scarce, need),
        where=where,
        free=free,
    )


def _has_less_important(answer: Fit, snapshot: Snapshot) -> bool:
    """Return True if a pod with a lower priority is on a node."""
    return any("node" in pod and pod.get("priority", 0) < answer.demand.priority for pod in snapshot.pods)


def evicted_jobs(
    victims: Iterable[Victim], snapshot: Snapshot, keys: Records, sees: MaySee = may_see_all
) -> list[EvictedJob]:
    """Return victims grouped by job. Jobs that the user may not see become a single one without a name."""
    victims = list(victims)
    if not victims:
        return []
    pods = {(item["namespace"], item["name"]): item for item in snapshot.pods}
    taken = parse_timestamp(snapshot.taken_at).timestamp()
    found: dict[tuple[str, str, int], list[Object]] = {}
    for victim in victims:
        item = pods.get((victim.pod.namespace, victim.pod.name))
        if item is None:
            # A pod of the planned jobs themselves, evicted by a later one of them: it does not exist yet.
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
        # The number of hidden jobs is not disclosed either.
        runtime = _runtime([item for items in hidden.values() for item in items], taken)
        result.append(EvictedJob("", "", max(priority for _, _, priority in hidden), (), runtime, seen=False))
    return result


def _runtime(pods: Iterable[Object], taken: float) -> str | None:
    """Return the longest runtime of some pods; None if none of them runs."""
    started = [pod["startTime"] for pod in pods if pod.get("startTime") and "phase" not in pod]
    return age(min(started), taken) if started else None
