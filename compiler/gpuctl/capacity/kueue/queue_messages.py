"""Messages about a job in a Kueue queue: where it waits, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import ZERO, FlavorResource
from gpuctl.capacity.kueue.queue_quota import QueueHeadroom, QuotaNode, lacking, queue_quota
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, QueuedJob, QueueState
from gpuctl.capacity.scheduler.scheduler_model import amount_of
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.selectors import Labels, selector_matches


class QueuePath(NamedTuple):
    """A LocalQueue with its ClusterQueue and cohort; "" for one that does not exist."""

    queue: str
    cluster_queue: str = ""
    cohort: str = ""

    def __str__(self) -> str:
        behind = [f"ClusterQueue {self.cluster_queue}"] if self.cluster_queue else []
        behind += [f"cohort {self.cohort}"] if self.cohort else []
        title = say("Kueue's queue {name}", name=self.queue)
        return say("{queue} ({behind})", queue=title, behind=behind) if behind else title


def queue_refusal(local: Object, queue: Object, labels: Labels, namespace: str) -> str:
    """Return why a LocalQueue or its ClusterQueue takes no job of a namespace; "" if it does."""
    for item in (local, queue["spec"]):
        if (item.get("stopPolicy") or "None") != "None":
            return say("is stopped (stopPolicy {policy}): it admits nothing", policy=item["stopPolicy"])
    if not queue.get("active", True):
        message = queue.get("message") or say("its controller gives no reason")
        return say("is not active: {message}", message=message)
    if not selector_matches(queue["spec"].get("namespaceSelector"), labels):
        return say("accepts no jobs from namespace {namespace} (namespaceSelector)", namespace=namespace)
    return ""


def flavor_headroom(job: QueuedJob, rules: ClusterQueueRules, node: QuotaNode) -> list[QueueHeadroom]:
    """Return the quota for a job in each flavor that one of its pod sets may use."""
    found = []
    for group in rules.groups:
        for flavor in group.flavors:
            sets = [pods.requests for pods in job.pod_sets if flavor not in pods.excluded]
            for resource, asked in job.requests.items() if sets else ():
                if resource in group.resources:
                    quota = queue_quota(node, FlavorResource(flavor, resource))
                    largest = amount_of(resource, max(requests.get(resource, 0) for requests in sets))
                    found.append(QueueHeadroom(**vars(quota), asked=amount_of(resource, asked), largest=largest))
    return found


def never_admitted_message(path: QueuePath, job: QueuedJob, rules: ClusterQueueRules, state: QueueState) -> str:
    """Return why a job is never admitted."""
    covered = {resource for group in rules.groups for resource in group.resources}
    uncovered = [name for name in job.requests if name not in covered]
    if uncovered:
        return say("{queue} has no quota for {resources:and}, which it asks for", queue=path, resources=uncovered)
    found = flavor_headroom(job, rules, state.unused_quota[job.queue])
    for pods in job.pod_sets:
        for resource, value in pods.requests.items():
            asked = amount_of(resource, value)
            own = [item for item in found if item.slot.resource == resource and item.slot.flavor not in pods.excluded]
            if not own:
                said = [say("flavor {flavor} {why}", flavor=flavor, why=why) for flavor, why in pods.excluded.items()]
                return say("no flavor of {queue} is for it: {flavors}", queue=path, flavors=said)
            most = max(item.most or ZERO for item in own)
            if most < asked:
                part = pods.name if asked < own[0].asked else None
                return _never(path, part, resource, asked, most)
    for resource, value in job.requests.items():
        most = sum((item.most or ZERO for item in found if item.slot.resource == resource), ZERO)
        if most < amount_of(resource, value):
            return _never(path, None, resource, amount_of(resource, value), most)
    return say("it never fits into {queue}: no flavor has all that it asks for", queue=path)


def _never(path: QueuePath, pod_set: str | None, resource: str, asked: Fraction, most: Fraction) -> str:
    lent = say(", with what cohort {cohort} lends", cohort=path.cohort) if path.cohort else ""
    in_all = say(" in all") if pod_set is None else ""
    whose = say("it asks") if pod_set is None else say("its pod set {pods} asks", pods=pod_set)
    asks, has = format_amount(resource, asked), format_amount(resource, most)
    return say(
        "it never fits into {queue}: {who} for {amount} {resource}{all}, and {most} is the most{lent}",
        queue=path,
        who=whose,
        amount=asks,
        resource=resource,
        all=in_all,
        most=has,
        lent=lent,
    )


class QueueWait(NamedTuple):
    """The reason why a job waits.

    :param message: the reason as a sentence about the job.
    :param place: the same without its verb.
    """

    message: str
    place: str


def queue_wait(path: QueuePath, found: Iterable[QueueHeadroom], ahead: int) -> QueueWait:
    """Return why a job is not admitted now: what it lacks in each flavor, and how many jobs come before it."""
    rooms: dict[str, list[QueueHeadroom]] = {}
    for room in lacking(found, lambda item: item.free):
        rooms.setdefault(room.slot.resource, []).append(room)
    # List devices such as GPUs first.
    parts = [_lack(resource, rooms[resource]) for resource in sorted(rooms, key=lambda name: "/" not in name)]
    lent = say(", with what cohort {cohort} lends", cohort=path.cohort) if path.cohort and parts else ""
    lacks = (
        say("{parts:and}{lent}", parts=parts, lent=lent)
        if parts
        else say("no single flavor has all that it asks for")
        if not ahead
        else ""
    )
    first = say("{jobs:job} {jobs:is/are} ahead of it", jobs=ahead) if ahead else ""
    why = [part for part in (lacks, first) if part]
    return QueueWait(
        say("waits in {queue}: {why:;}", queue=path, why=why), say("{queue}: {why:;}", queue=path, why=why)
    )


def _lack(resource: str, rooms: Sequence[QueueHeadroom]) -> str:
    return say(
        "it asks for {asked} {resource}, {parts}",
        asked=format_amount(resource, rooms[0].asked),
        resource=resource,
        parts=flavor_rooms(resource, rooms),
    )


def flavor_rooms(resource: str, rooms: Iterable[QueueHeadroom]) -> list[Sentence]:
    """Return how much of a resource each flavor has free."""
    parts = []
    for room in rooms:
        free, used, nominal = (
            format_amount(resource, amount or ZERO) for amount in (room.free, room.used, room.nominal)
        )
        parts.append(
            say(
                "{free} free in flavor {flavor} ({used} of {nominal} used)",
                free=free,
                flavor=room.slot.flavor,
                used=used,
                nominal=nominal,
            )
        )
    return parts
