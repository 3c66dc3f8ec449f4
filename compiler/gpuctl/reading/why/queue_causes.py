"""Rules for jobs that Kueue has not admitted: their position in the queue, or what is wrong with the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from gpuctl.capacity.kueue.cohorts import ZERO
from gpuctl.capacity.kueue.queue_messages import NAMED, QueuePath, lacking_quota
from gpuctl.capacity.kueue.queue_quota import QueueHeadroom
from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import is_hidden, unique_names
from gpuctl.objects.prerequisites import ADMISSION_GATES
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.queueing import is_gated, queue_of
from gpuctl.objects.workload_state import condition
from gpuctl.reading.jobs.status import job_status, one_line
from gpuctl.reading.queues.queue_position import (
    KueueLists,
    QueueClaim,
    QueuePosition,
    admission_gates,
    claim_of,
    queue_position,
)
from gpuctl.reading.why.event_proofs import condition_proof, event_proof, known_proofs, object_title
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, in_namespace
from gpuctl.reading.why.queue_troubles import kueue_message, missing_queue_trouble, queue_trouble
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
        message = say("it is suspended and names Kueue's queue {queue}, but Kueue is not installed", queue=queue)
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
    why = [*_why(evidence.kueue_workload, place), *_past(evidence, evidence.kueue_workload, lists)]
    message = say("waits in {queue}: {why:;}", queue=place.path, why=why)
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
        fix = say("ask the administrators, who may read Kueue's workloads, what it waits for")
        message = say("waits in {queue}", queue=QueuePath(queue))
        return Finding("queued", message, {"queue": queue}, fix, proof)
    missing = missing_queue_trouble(lists, namespace, queue)
    if missing is not None:
        return Finding("queue-unusable", missing.message, {"queue": queue}, missing.fix, proof)
    message = say("waits in Kueue's queue {queue}: Kueue has not processed it yet", queue=queue)
    fix = say("if this lasts for more than a minute, Kueue is not running: ask the administrators")
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
        message = say("Kueue could not start it and gave up: {text}", text=one_line(ended.get("message")))
        fix = say("{command}, then apply its document again", command=command("delete job", evidence))
        told = known_proofs(condition_proof(admission, "Finished"))
        return Finding("queue-unusable", message, {"queue": queue}, fix, told)
    if (admission.get("spec") or {}).get("active") is not False:
        return None
    spec = Proof("spec", object_title(admission), "active: false")
    evicted = condition(admission, "Evicted") or {}
    why = say(": {text}", text=one_line(evicted["message"])) if evicted.get("message") else ""
    message = say("its Workload of Kueue's queue {queue} is inactive, as after gpuctl pause{why}", queue=queue, why=why)
    told = known_proofs(spec, condition_proof(admission, "Evicted"))
    return Finding("paused", message, {"queue": queue}, command("resume", evidence), told)


def _why(admission: Object, place: QueuePosition) -> Iterator[Sentence]:
    """Yield what the job waits for, and which jobs are ahead of it."""
    if condition(admission, "QuotaReserved") is not None:
        checks = (admission.get("status") or {}).get("admissionChecks") or []
        waits = [item for item in checks if item.get("state") != "Ready"]
        named = [say("{name} ({detail})", name=item["name"], detail=item.get("state")) for item in waits]
        yield say("its quota is reserved, and it waits for {named}", named=named or say("Kueue's next step"))
        return
    gates = admission_gates(admission)
    if gates:
        yield say(
            "Kueue does not admit it before its gates are removed ({annotation}: {gates})",
            annotation=ADMISSION_GATES,
            gates=gates,
        )
        return
    lacks = lacking_quota(place.cohort, place.rooms)
    yield lacks or Sentence(kueue_message(admission, "QuotaReserved")) or say("Kueue has not processed it yet")
    if place.ahead:
        claims = unique_names(in_namespace(claim.name, claim.namespace) for claim in place.ahead)
        more = " ..." if len(claims) > NAMED else ""
        yield say(
            "{jobs:job} {jobs:is/are} ahead of it ({names}{more})",
            jobs=len(place.ahead),
            names=claims[:NAMED],
            more=more,
        )
    elif place.ahead is not None and place.waiting and not place.is_backing_off:
        yield say("it is next")
    if place.is_backing_off:
        until = ((admission.get("status") or {}).get("requeueState") or {}).get("requeueAt")
        yield say(
            "Kueue keeps it out of the queue for a backoff time{until}",
            until=say(", until {time}", time=until) if until else "",
        )


_PREEMPTED = {
    "InClusterQueue": Template("it was preempted {duration} ago for {who}a job of higher priority"),
    "InCohortReclamation": Template("it was preempted {duration} ago for {who}a job that takes back lent quota"),
}


def _past(evidence: Evidence, admission: Object, lists: KueueLists) -> Iterator[Sentence]:
    """Yield that the job ran before, and for which job it was stopped, if it was evicted."""
    evicted = condition(admission, "Evicted")
    if evicted is None:
        return
    ago = evidence.since(evicted.get("lastTransitionTime"))
    preempted = condition(admission, "Preempted") or {}
    if evicted.get("reason") != "Preempted":
        yield say("it was stopped {duration} ago: {text}", duration=ago, text=one_line(evicted.get("message")))
        return
    match = _PREEMPTOR.search(preempted.get("message") or "")
    by = next((item for item in lists.workloads or [] if match and item["metadata"].get("uid") == match["uid"]), None)
    template = _PREEMPTED.get(
        preempted.get("reason") or "", Template("it was preempted {duration} ago for {who}a job that takes precedence")
    )
    yield say(template, duration=ago, who=f"{_owner(by, evidence)}, " if by is not None else "")


def _owner(workload: Object, evidence: Evidence) -> str:
    claim = claim_of(workload, evidence.keys)
    return in_namespace(claim.name, claim.namespace)


def _fix(admission: Object, place: QueuePosition, namespace: str) -> Sentence:
    name = admission["metadata"]["name"]
    if admission_gates(admission):
        return say(
            "wait for the program or person that removes the annotation {annotation} of the job",
            annotation=ADMISSION_GATES,
        )
    look = kubectl_line("describe workloads.kueue.x-k8s.io", name, "-n", namespace)
    if condition(admission, "QuotaReserved") is not None and not (admission.get("status") or {}).get("admissionChecks"):
        return say(
            "if this lasts for more than a minute, ask the administrators of the queue {queue}; {command} shows more",
            queue=place.queue,
            command=look,
        )
    if place.holders and not place.ahead:
        wait = _wait_for_holders(place)
        return say("{wait}, or ask for less; {command} shows more", wait=wait, command=look)
    return say(
        "wait for its turn, or ask the administrators of the queue {queue}; {command} shows more",
        queue=place.queue,
        command=look,
    )


def _wait_for_holders(place: QueuePosition) -> Sentence:
    """Return which jobs have to end: any one of those that free enough alone, else several together."""
    lacking = {room.slot.resource: room.asked - (room.free or ZERO) for room in place.short}
    enough = [
        claim for claim in place.holders if all(claim.amounts.get(name, ZERO) >= need for name, need in lacking.items())
    ]
    # The flavor of a claim is unknown: with one flavor and no cohort, what a job frees is free for this one.
    any_one = enough if len(lacking) == len(place.short) and not place.cohort else []
    alone = unique_names(in_namespace(claim.name, claim.namespace) for claim in any_one or place.holders)
    if any_one or len(alone) == 1:
        return say("wait for {names:or} to end", names=alone[:NAMED])
    names = unique_names(_holder(claim, lacking) for claim in place.holders)
    more = " ..." if len(names) > NAMED else ""
    what = say("this quota") if len(lacking) < len(place.short) else _amounts(lacking)
    return say("wait until jobs that hold {what} have ended: {names}{more}", what=what, names=names[:NAMED], more=more)


def _holder(claim: QueueClaim, lacking: Mapping[str, Fraction]) -> str:
    """Return a job and what it holds of the resources that are short; a hidden job only as such."""
    name = in_namespace(claim.name, claim.namespace)
    held = {resource: claim.amounts[resource] for resource in lacking if claim.amounts.get(resource)}
    return name if is_hidden(name) else say("{name} ({detail})", name=name, detail=_amounts(held))


def _amounts(amounts: Mapping[str, Fraction]) -> Sentence:
    return say("{amounts:and}", amounts=[f"{format_amount(name, amount)} {name}" for name, amount in amounts.items()])


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
        "position": place.position,
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
