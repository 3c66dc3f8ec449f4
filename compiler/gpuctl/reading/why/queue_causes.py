"""Rules for jobs that Kueue has not admitted: their position in the queue, or what is wrong with the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from gpuctl.capacity.kueue.cohorts import ZERO
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import in_namespace, is_hidden, unique_names
from gpuctl.objects.prerequisites import ADMISSION_GATES
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.queueing import is_gated, queue_of
from gpuctl.objects.workload_state import condition
from gpuctl.reading.jobs.status import job_status, one_line
from gpuctl.reading.queues.queue_position import (
    KueueLists,
    QueueClaim,
    QueueHeadroom,
    QueuePosition,
    admission_gates,
    claim_of,
    queue_position,
)
from gpuctl.reading.why.event_proofs import condition_proof, event_proof, known_proofs, object_title
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.queue_troubles import NAMED, kueue_message, missing_queue, queue_title, queue_trouble
from gpuctl.reading.why.stopped_jobs import command

_PREEMPTOR = re.compile(r"to accommodate a workload \(UID: (?P<uid>[0-9a-f-]+)")


def queued(evidence: Evidence) -> Finding | None:
    """Kueue holds the job back: it waits for its turn, or its queue admits nothing."""
    workload = evidence.job.workload
    if workload is None or job_status(workload, evidence.job.pods, evidence.keys).word != "Queued":
        return None
    queue, namespace = queue_of(workload), evidence.job.identity.namespace
    lists = evidence.kueue or KueueLists()
    if not lists.installed:
        told = _held_by(evidence, workload)
        message = f"it is suspended and names Kueue's queue {queue}, but Kueue is not installed"
        return Finding("suspended", message, {"queue": queue}, command("resume", evidence), (told,))
    if evidence.kueue_workload is None:
        return _without_workload(evidence, lists, workload, queue)
    inactive = _inactive(evidence, evidence.kueue_workload, queue)
    if inactive is not None:
        return inactive
    place = queue_position(evidence.kueue_workload, lists, evidence.keys)
    trouble = queue_trouble(evidence.kueue_workload, place, lists, workload)
    said = _conditions(evidence.kueue_workload)
    numbers = _numbers(place)
    if trouble is not None:
        return Finding("queue-unusable", trouble.message, numbers, trouble.fix, known_proofs(trouble.source, *said))
    why = "; ".join(_why(evidence.kueue_workload, place))
    past = _past(evidence, evidence.kueue_workload, lists)
    message = f"waits in {queue_title(place)}: {why}" + (f"; {past}" if past else "")
    return Finding("queued", message, numbers, _fix(evidence.kueue_workload, place, namespace), known_proofs(*said))


def may_add_nodes(evidence: Evidence) -> bool:
    """Return True if a ClusterQueue has admission checks or may not be read: a check may add nodes for a job."""
    queues = (evidence.kueue or KueueLists()).cluster_queues
    if queues is None:
        return True
    specs = [item.get("spec") or {} for item in queues]
    return any(spec.get("admissionChecks") or spec.get("admissionChecksStrategy") for spec in specs)


def _without_workload(evidence: Evidence, lists: KueueLists, workload: Object, queue: str) -> Finding:
    """Kueue has not created a Workload, or Workloads may not be read."""
    namespace = evidence.job.identity.namespace
    told = [event_proof(event) for event in evidence.events_with("Pending", "CreatedWorkload", "QuotaReserved")[-1:]]
    proof = (*told, _held_by(evidence, workload))
    if lists.workloads is None:
        fix = "ask the administrators, who may read Kueue's workloads, what it waits for"
        return Finding("queued", f"waits in Kueue's queue {queue}", {"queue": queue}, fix, proof)
    missing = missing_queue(lists, namespace, queue)
    if missing is not None:
        return Finding("queue-unusable", missing.message, {"queue": queue}, missing.fix, proof)
    message = f"waits in Kueue's queue {queue}: Kueue has not processed it yet"
    fix = "if this lasts for more than a minute, Kueue is not running: ask the administrators"
    return Finding("queued", message, {"queue": queue}, fix, proof)


def _held_by(evidence: Evidence, workload: Object) -> Proof:
    """Return what keeps the job from starting: its suspension, or the gates of a pod."""
    gated = next(filter(is_gated, evidence.job.pods), None)
    if gated is None:
        return Proof("spec", object_title(workload), "suspend: true")
    names = ", ".join(gate["name"] for gate in gated["spec"]["schedulingGates"])
    return Proof("spec", object_title(gated), f"schedulingGates: {names}")


def _inactive(evidence: Evidence, admission: Object, queue: str) -> Finding | None:
    """The Workload was deactivated, or Kueue has given up on it."""
    ended = condition(admission, "Finished")
    if ended is not None:
        message = f"Kueue could not start it and gave up: {one_line(ended.get('message'))}"
        fix = f"{command('delete job', evidence)}, then apply its document again"
        told = known_proofs(condition_proof(admission, "Finished"))
        return Finding("queue-unusable", message, {"queue": queue}, fix, told)
    if (admission.get("spec") or {}).get("active") is not False:
        return None
    spec = Proof("spec", object_title(admission), "active: false")
    evicted = condition(admission, "Evicted") or {}
    why = f": {one_line(evicted.get('message'))}" if evicted.get("message") else ""
    message = f"its Workload of Kueue's queue {queue} is inactive, as after gpuctl pause{why}"
    told = known_proofs(spec, condition_proof(admission, "Evicted"))
    return Finding("paused", message, {"queue": queue}, command("resume", evidence), told)


def _why(admission: Object, place: QueuePosition) -> Iterator[str]:
    """Yield what the job waits for, and which jobs are ahead of it."""
    if condition(admission, "QuotaReserved") is not None:
        checks = (admission.get("status") or {}).get("admissionChecks") or []
        waits = [item for item in checks if item.get("state") != "Ready"]
        named = ", ".join(f"{item['name']} ({item.get('state')})" for item in waits) or "Kueue's next step"
        yield f"its quota is reserved, and it waits for {named}"
        return
    gates = admission_gates(admission)
    if gates:
        yield f"Kueue does not admit it before its gates are removed ({ADMISSION_GATES}: {gates})"
        return
    rooms = place.short
    if rooms:
        resources = dict.fromkeys(room.slot.resource for room in rooms)
        # GPUs first: users ask about them most.
        yield " and ".join(_lacks(place, name) for name in sorted(resources, key=lambda name: "/" not in name))
    else:
        yield kueue_message(admission, "QuotaReserved") or "Kueue has not processed it yet"
    if place.ahead:
        claims = unique_names(in_namespace(claim.name, claim.namespace) for claim in place.ahead)
        names = ", ".join(claims[:NAMED])
        more = " ..." if len(claims) > NAMED else ""
        verb = "is" if len(place.ahead) == 1 else "are"
        yield f"{count_text(len(place.ahead), 'job')} {verb} ahead of it ({names}{more})"
    elif place.ahead is not None and place.waiting and not place.is_backing_off:
        yield "it is next"
    if place.is_backing_off:
        until = ((admission.get("status") or {}).get("requeueState") or {}).get("requeueAt")
        yield "Kueue keeps it out of the queue for a backoff time" + (f", until {until}" if until else "")


def _lacks(place: QueuePosition, resource: str) -> str:
    rooms = [room for room in place.short if room.slot.resource == resource]
    parts = []
    for room in rooms:
        free, used = format_amount(resource, room.free or room.asked * 0), format_amount(resource, room.used)
        own = f"{used} of {format_amount(resource, room.nominal)} used"
        parts.append(f"{free} free in flavor {room.slot.flavor} ({own})")
    lent = f", with what cohort {place.cohort} lends" if place.cohort else ""
    asked, largest = format_amount(resource, rooms[0].asked), format_amount(resource, rooms[0].largest)
    at_once = "" if largest == asked else f" ({largest} of one flavor)"
    return f"it asks for {asked} {resource}{at_once}, {', '.join(parts)}{lent}"


def _past(evidence: Evidence, admission: Object, lists: KueueLists) -> str:
    """Return that the job ran before, and for which job it was stopped; "" if it was not evicted."""
    evicted = condition(admission, "Evicted")
    if evicted is None:
        return ""
    ago = evidence.since(evicted.get("lastTransitionTime"))
    preempted = condition(admission, "Preempted") or {}
    if evicted.get("reason") != "Preempted":
        return f"it was stopped {ago} ago: {one_line(evicted.get('message'))}"
    match = _PREEMPTOR.search(preempted.get("message") or "")
    by = next((item for item in lists.workloads or [] if match and item["metadata"].get("uid") == match["uid"]), None)
    reasons = {"InClusterQueue": "of higher priority", "InCohortReclamation": "that takes back lent quota"}
    kind = reasons.get(preempted.get("reason") or "", "that takes precedence")
    who = f"{_owner(by, evidence)}, " if by is not None else ""
    return f"it was preempted {ago} ago for {who}a job {kind}"


def _owner(workload: Object, evidence: Evidence) -> str:
    claim = claim_of(workload, evidence.keys)
    return in_namespace(claim.name, claim.namespace)


def _fix(admission: Object, place: QueuePosition, namespace: str) -> str:
    name = admission["metadata"]["name"]
    if admission_gates(admission):
        return f"wait for the program or person that removes the annotation {ADMISSION_GATES} of the job"
    look = f"`kubectl describe workloads.kueue.x-k8s.io {name} -n {namespace}` shows more"
    if place.holders and not place.ahead:
        return f"{_wait_for_holders(place)}, or ask for less; {look}"
    return f"wait for its turn, or ask the administrators of the queue {place.queue}; {look}"


def _wait_for_holders(place: QueuePosition) -> str:
    """Return which jobs have to end: any one of those that free enough alone, else several together."""
    lacking = {room.slot.resource: room.asked - (room.free or ZERO) for room in place.short}
    enough = [
        claim for claim in place.holders if all(claim.amounts.get(name, ZERO) >= need for name, need in lacking.items())
    ]
    # The flavor of a claim is unknown: with one flavor and no cohort, what a job frees is free for this one.
    any_one = enough if len(lacking) == len(place.short) and not place.cohort else []
    alone = unique_names(in_namespace(claim.name, claim.namespace) for claim in any_one or place.holders)
    if any_one or len(alone) == 1:
        return f"wait for {' or '.join(alone[:NAMED])} to end"
    names = unique_names(_holder(claim, lacking) for claim in place.holders)
    more = " ..." if len(names) > NAMED else ""
    what = "this quota" if len(lacking) < len(place.short) else _amounts(lacking)
    return f"wait until jobs that hold {what} have ended: {', '.join(names[:NAMED])}{more}"


def _holder(claim: QueueClaim, lacking: Mapping[str, Fraction]) -> str:
    """Return a job and what it holds of the resources that are short; a hidden job only as such."""
    name = in_namespace(claim.name, claim.namespace)
    held = {resource: claim.amounts[resource] for resource in lacking if claim.amounts.get(resource)}
    return name if is_hidden(name) else f"{name} ({_amounts(held)})"


def _amounts(amounts: Mapping[str, Fraction]) -> str:
    return " and ".join(f"{format_amount(name, amount)} {name}" for name, amount in amounts.items())


def _conditions(admission: Object) -> list[Proof | None]:
    kinds = ["QuotaReserved", "Admitted"]
    kinds += [kind for kind in ("Evicted",) if condition(admission, kind) is not None]
    unmet = [kind for kind in kinds if kind == "Evicted" or condition(admission, kind) is None]
    return [condition_proof(admission, kind) for kind in unmet]


def _numbers(place: QueuePosition) -> Mapping[str, Any]:
    return {
        "queue": place.queue,
        "clusterQueue": place.cluster_queue,
        "cohort": place.cohort or None,
        "queueingStrategy": place.strategy or None,
        "priority": place.priority,
        "position": len(place.ahead) + 1 if place.ahead is not None and not place.is_backing_off else None,
        "waitingJobs": place.waiting,
        "resources": [_room(room) for room in place.rooms],
        "uncoveredResources": place.uncovered,
        "ahead": None if place.ahead is None else [_claim(claim) for claim in place.ahead],
        "heldBy": [_claim(claim) for claim in place.holders],
    }


def _room(room: QueueHeadroom) -> dict[str, Any]:
    resource = room.slot.resource
    amounts = {
        "asked": room.asked,
        "nominal": room.nominal,
        "used": room.used,
        "free": room.free,
        "most": room.most,
        "borrowingLimit": room.borrowing_limit,
    }
    return {
        "resource": resource,
        "flavor": room.slot.flavor,
        **{name: None if amount is None else format_amount(resource, amount) for name, amount in amounts.items()},
    }


def _claim(claim: QueueClaim) -> dict[str, Any]:
    amounts = {name: format_amount(name, amount) for name, amount in sorted(claim.amounts.items())}
    return {
        "job": claim.name,
        "namespace": claim.namespace,
        "priority": claim.priority,
        "createdAt": claim.since or None,
        "resources": amounts,
    }
