"""Messages about a job in a Kueue queue: where it waits, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import ZERO, FlavorResource
from gpuctl.capacity.kueue.queue_quota import QueueHeadroom, QuotaNode, lacking, queue_quota, quota_trees
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, QueuedJob, QueueState
from gpuctl.capacity.scheduler.scheduler_model import amount_of
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.selectors import Labels, selector_matches


class QueuePath(NamedTuple):
    """A LocalQueue with its ClusterQueue and cohort; "" for one that does not exist."""

    queue: str
    cluster_queue: str
    cohort: str

    def __str__(self) -> str:
        behind = [f"ClusterQueue {self.cluster_queue}"] if self.cluster_queue else []
        behind += [f"cohort {self.cohort}"] if self.cohort else []
        return f"Kueue's queue {self.queue}" + (f" ({', '.join(behind)})" if behind else "")


def queue_refusal(local: Object, queue: Object, labels: Labels, namespace: str) -> str:
    """Return why a LocalQueue or its ClusterQueue takes no job of a namespace; "" if it does."""
    for item in (local, queue["spec"]):
        if (item.get("stopPolicy") or "None") != "None":
            return f"is stopped (stopPolicy {item['stopPolicy']}): it admits nothing"
    if not queue.get("active", True):
        return f"is not active: {queue.get('message') or 'its controller gives no reason'}"
    if not selector_matches(queue["spec"].get("namespaceSelector"), labels):
        return f"accepts no jobs from namespace {namespace} (namespaceSelector)"
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
        return f"{path} has no quota for {' and '.join(uncovered)}, which it asks for"
    found = flavor_headroom(job, rules, quota_trees(state.cluster_queues, state.cohorts)[job.queue])
    for pods in job.pod_sets:
        for resource, value in pods.requests.items():
            asked = amount_of(resource, value)
            own = [item for item in found if item.slot.resource == resource and item.slot.flavor not in pods.excluded]
            if not own:
                said = ", ".join(f"flavor {flavor} {why}" for flavor, why in pods.excluded.items())
                return f"no flavor of {path} is for it: {said}"
            most = max(item.most or ZERO for item in own)
            if most < asked:
                whose = f"its pod set {pods.name} asks" if asked < own[0].asked else "it asks"
                return _never(path, whose, resource, asked, most)
    for resource, value in job.requests.items():
        most = sum((item.most or ZERO for item in found if item.slot.resource == resource), ZERO)
        if most < amount_of(resource, value):
            return _never(path, "it asks", resource, amount_of(resource, value), most)
    return f"it never fits into {path}: no flavor has all that it asks for"


def _never(path: QueuePath, whose: str, resource: str, asked: Fraction, most: Fraction) -> str:
    lent = f", with what cohort {path.cohort} lends" if path.cohort else ""
    in_all = " in all" if whose == "it asks" else ""
    asks, has = format_amount(resource, asked), format_amount(resource, most)
    return f"it never fits into {path}: {whose} for {asks} {resource}{in_all}, and {has} is the most{lent}"


def waiting_message(path: QueuePath, found: Iterable[QueueHeadroom], ahead: int) -> str:
    """Return why a job is not admitted now: what it lacks in each flavor, and how many jobs come before it."""
    rooms: dict[str, list[QueueHeadroom]] = {}
    for room in lacking(found, lambda item: item.free):
        rooms.setdefault(room.slot.resource, []).append(room)
    # List devices such as GPUs first.
    parts = [_lack(resource, rooms[resource]) for resource in sorted(rooms, key=lambda name: "/" not in name)]
    lent = f", with what cohort {path.cohort} lends" if path.cohort and parts else ""
    lacks = (
        f"{' and '.join(parts)}{lent}" if parts else "no single flavor has all that it asks for" if not ahead else ""
    )
    first = f"{count_text(ahead, 'job')} {'are' if ahead > 1 else 'is'} ahead of it" if ahead else ""
    return f"waits in {path}: {'; '.join(part for part in (lacks, first) if part)}"


def _lack(resource: str, rooms: Sequence[QueueHeadroom]) -> str:
    parts = []
    for room in rooms:
        free, used, nominal = (
            format_amount(resource, amount or ZERO) for amount in (room.free, room.used, room.nominal)
        )
        parts.append(f"{free} free in flavor {room.slot.flavor} ({used} of {nominal} used)")
    return f"it asks for {format_amount(resource, rooms[0].asked)} {resource}, {', '.join(parts)}"
