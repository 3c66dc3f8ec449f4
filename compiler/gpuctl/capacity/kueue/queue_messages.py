"""Messages about a job in a Kueue queue: where it waits, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import ZERO, FlavorResource
from gpuctl.capacity.kueue.queue_quota import QueueHeadroom, QuotaNode, lacking, queue_quota
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, QueuedJob, QueueState
from gpuctl.capacity.scheduler.scheduler_model import amount_of
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.selectors import Labels, selector_matches

NAMED = 3
"""Maximum number of names in a list."""


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


def missing_queue(queue: str, namespace: str, there: Iterable[str]) -> Sentence:
    """Return that a LocalQueue does not exist.

    :param there: the LocalQueues of the namespace.
    """
    names = sorted(there)
    known = {"queue": queue, "namespace": namespace}
    if not names:
        return say("Kueue's queue {queue} does not exist in {namespace}: the namespace has none", **known)
    shown = f"{', '.join(names[:NAMED])}{' ...' if len(names) > NAMED else ''}"
    return say("Kueue's queue {queue} does not exist in {namespace}: the namespace has {names}", names=shown, **known)


def missing_cluster_queue(path: QueuePath) -> Sentence:
    """Return that the ClusterQueue of a LocalQueue does not exist."""
    return say(
        "Kueue's queue {queue} refers to the ClusterQueue {cluster_queue}, which does not exist",
        queue=path.queue,
        cluster_queue=path.cluster_queue,
    )


def stopped_queue(path: QueuePath, local: Object, queue: Object | None) -> Sentence:
    """Return that a LocalQueue or its ClusterQueue admits no job; "" if they do, as far as is known."""
    for item, title in ((local, QueuePath(path.queue)), (queue["spec"] if queue is not None else {}, path)):
        if (item.get("stopPolicy") or "None") != "None":
            policy = item["stopPolicy"]
            return say("{queue} is stopped (stopPolicy {policy}): it admits nothing", queue=title, policy=policy)
    if queue is not None and not queue.get("active", True):
        message = visible(" ".join(queue.get("message", "").split())) or say("its controller gives no reason")
        return say("{queue} is not active: {message}", queue=path, message=message)
    return Sentence("")


def queue_refusal(path: QueuePath, local: Object, queue: Object, labels: Labels, namespace: str) -> str:
    """Return why a LocalQueue or its ClusterQueue takes no job of a namespace; "" if it does."""
    stopped = stopped_queue(path, local, queue)
    if stopped or selector_matches(queue["spec"].get("namespaceSelector"), labels):
        return stopped
    return say(
        "{queue} accepts no jobs from namespace {namespace} (namespaceSelector)", queue=path, namespace=namespace
    )


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
    without_quota = [name for name in job.requests if name not in covered]
    if without_quota:
        return uncovered(path, without_quota)
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
                return never_fits(path, part, resource, asked, most)
    for resource, value in job.requests.items():
        most = sum((item.most or ZERO for item in found if item.slot.resource == resource), ZERO)
        if most < amount_of(resource, value):
            return never_fits(path, None, resource, amount_of(resource, value), most)
    return say("it never fits into {queue}: no flavor has all that it asks for", queue=path)


def uncovered(path: QueuePath, resources: Sequence[str]) -> Sentence:
    """Return that a queue has no quota for resources of a job."""
    return say("{queue} has no quota for {what:and}, which the job asks for", queue=path, what=resources)


def never_fits(path: QueuePath, pod_set: str | None, resource: str, asked: Fraction, most: Fraction) -> Sentence:
    """Return that a job asks for more of a resource than its queue can ever give it.

    :param pod_set: the pod set that asks for it, which gets it from one flavor; "" for one without a known name, None
        for the whole job.
    """
    known = {
        "queue": path,
        "amount": format_amount(resource, asked),
        "resource": resource,
        "most": format_amount(resource, most),
        "lent": _lent(path.cohort),
    }
    if pod_set is None:
        return say(
            "it never fits into {queue}: it asks for {amount} {resource} in all, and {most} is the most{lent}", **known
        )
    who = say("its pod set {pods} asks", pods=pod_set) if pod_set else say("one of its pod sets asks")
    return say(
        "it never fits into {queue}: {who} for {amount} {resource}, and {most} is the most of one flavor{lent}",
        who=who,
        **known,
    )


def _lent(cohort: str) -> str:
    return say(", with what cohort {cohort} lends", cohort=cohort) if cohort else ""


class QueueWait(NamedTuple):
    """The reason why a job waits.

    :param message: the reason as a sentence about the job.
    :param place: the same without its verb.
    """

    message: str
    place: str


def queue_wait(path: QueuePath, found: Iterable[QueueHeadroom], ahead: int) -> QueueWait:
    """Return why a job is not admitted now: what it lacks in each flavor, and how many jobs come before it."""
    lacks = lacking_quota(path.cohort, found)
    if not lacks and not ahead:
        lacks = say("no single flavor has all that it asks for")
    first = say("{jobs:job} {jobs:is/are} ahead of it", jobs=ahead) if ahead else ""
    why = [part for part in (lacks, first) if part]
    return QueueWait(
        say("waits in {queue}: {why:;}", queue=path, why=why), say("{queue}: {why:;}", queue=path, why=why)
    )


def lacking_quota(cohort: str, found: Iterable[QueueHeadroom]) -> Sentence:
    """Return what a job lacks in each flavor; "" if that is nothing."""
    rooms: dict[str, list[QueueHeadroom]] = {}
    for room in lacking(found, lambda item: item.free):
        rooms.setdefault(room.slot.resource, []).append(room)
    # List devices such as GPUs first.
    parts = [_lack(resource, rooms[resource]) for resource in sorted(rooms, key=lambda name: "/" not in name)]
    return say("{parts:and}{lent}", parts=parts, lent=_lent(cohort)) if parts else Sentence("")


def _lack(resource: str, rooms: Sequence[QueueHeadroom]) -> Sentence:
    asked, largest = format_amount(resource, rooms[0].asked), format_amount(resource, rooms[0].largest)
    return say(
        "it asks for {asked} {resource}{at_once}, {parts}",
        asked=asked,
        resource=resource,
        at_once="" if largest == asked else say(" ({amount} of one flavor)", amount=largest),
        parts=_flavor_rooms(resource, rooms),
    )


def _flavor_rooms(resource: str, rooms: Iterable[QueueHeadroom]) -> list[Sentence]:
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
