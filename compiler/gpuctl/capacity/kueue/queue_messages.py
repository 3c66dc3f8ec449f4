"""Messages about a job in a Kueue queue: where it waits, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.queue_quota import QuotaNode, quota_trees
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, QueuedJob, QueueState
from gpuctl.capacity.scheduler.scheduler_model import format_units
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import Object
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


class FlavorHeadroom(NamedTuple):
    """The quota of one flavor resource that a job requests, in the scheduler's units.

    ``free``: the quota that the job can get, with what its cohort lends; ``most``: the same if nothing is used.
    ``used`` and ``nominal`` are the ClusterQueue's. ``asked``: the job's total request; ``largest``: the largest
    request of a pod set that may use the flavor.
    """

    slot: FlavorResource
    asked: int
    largest: int
    nominal: int
    used: int
    free: int
    most: int


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


def flavor_headroom(job: QueuedJob, rules: ClusterQueueRules, node: QuotaNode) -> list[FlavorHeadroom]:
    """Return the quota for a job in each flavor that one of its pod sets may use."""
    return [
        FlavorHeadroom(
            slot := FlavorResource(flavor, resource),
            asked,
            max(sizes),
            node.own[slot].nominal,
            node.used.get(slot, 0),
            max(0, node.available(slot)),
            node.potential(slot),
        )
        for group in rules.groups
        for flavor in group.flavors
        for resource, asked in job.requests.items()
        if resource in group.resources
        for sizes in [[pods.requests.get(resource, 0) for pods in job.pod_sets if flavor not in pods.excluded]]
        if sizes
    ]


def never_admitted_message(path: QueuePath, job: QueuedJob, rules: ClusterQueueRules, state: QueueState) -> str:
    """Return why a job is never admitted."""
    covered = {resource for group in rules.groups for resource in group.resources}
    uncovered = [name for name in job.requests if name not in covered]
    if uncovered:
        return f"{path} has no quota for {' and '.join(uncovered)}, which it asks for"
    found = flavor_headroom(job, rules, quota_trees(state.cluster_queues, state.cohorts)[job.queue])
    for pods in job.pod_sets:
        for resource, asked in pods.requests.items():
            own = [item for item in found if item.slot.resource == resource and item.slot.flavor not in pods.excluded]
            if not own:
                said = ", ".join(f"flavor {flavor} {why}" for flavor, why in pods.excluded.items())
                return f"no flavor of {path} is for it: {said}"
            most = max(item.most for item in own)
            if most < asked:
                whose = f"its pod set {pods.name} asks" if asked < own[0].asked else "it asks"
                return _never(path, whose, resource, asked, most)
    for resource, asked in job.requests.items():
        most = sum(item.most for item in found if item.slot.resource == resource)
        if most < asked:
            return _never(path, "it asks", resource, asked, most)
    return f"it never fits into {path}: no flavor has all that it asks for"


def _never(path: QueuePath, whose: str, resource: str, asked: int, most: int) -> str:
    lent = f", with what cohort {path.cohort} lends" if path.cohort else ""
    in_all = " in all" if whose == "it asks" else ""
    has = format_units(resource, most).split()[0]
    return (
        f"it never fits into {path}: {whose} for {format_units(resource, asked)}{in_all}, and {has} is the most{lent}"
    )


def waiting_message(path: QueuePath, found: Iterable[FlavorHeadroom], ahead: int) -> str:
    """Return why a job is not admitted now: what it lacks in each flavor, and how many jobs come before it."""
    kept = list(found)
    parts = []
    for resource in dict.fromkeys(item.slot.resource for item in kept):
        own = [item for item in kept if item.slot.resource == resource]
        if all(item.free < item.largest for item in own) or sum(item.free for item in own) < own[0].asked:
            parts.append(_lack(own))
    # List devices such as GPUs first.
    parts.sort(key=lambda part: "/" not in part)
    lent = f", with what cohort {path.cohort} lends" if path.cohort and parts else ""
    lacks = (
        f"{' and '.join(parts)}{lent}" if parts else "no single flavor has all that it asks for" if not ahead else ""
    )
    first = f"{count_text(ahead, 'job')} {'are' if ahead > 1 else 'is'} ahead of it" if ahead else ""
    return f"waits in {path}: {'; '.join(part for part in (lacks, first) if part)}"


def _lack(own: list[FlavorHeadroom]) -> str:
    parts = []
    for item in own:
        resource = item.slot.resource
        free, used, nominal = (
            format_units(resource, amount).split()[0] for amount in (item.free, item.used, item.nominal)
        )
        parts.append(f"{free} free in flavor {item.slot.flavor} ({used} of {nominal} used)")
    return f"it asks for {format_units(own[0].slot.resource, own[0].asked)}, {', '.join(parts)}"
