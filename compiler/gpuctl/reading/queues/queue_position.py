"""A job's position in its Kueue queue: requested and free quota, jobs ahead, and jobs that hold the quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import (
    ZERO,
    ancestor_cohorts,
    cohort_of,
    flavor_quotas,
    has_recorded_requests,
    requested_amounts,
    requested_by_pod_sets,
)
from gpuctl.capacity.kueue.queue_messages import QueuePath
from gpuctl.capacity.kueue.queue_quota import QueueHeadroom, QueueQuota, lacking, live_quota_trees, queue_quota
from gpuctl.capacity.snapshot.pod_requests import Amounts
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import prefixed
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import ADMISSION_GATES
from gpuctl.objects.queueing import owner_of_workload
from gpuctl.objects.workload_state import condition, is_backing_off, queueing_time


class KueueLists(NamedTuple):
    """Kueue's objects. A list is None if it may not be read. ``installed``: the cluster has Kueue."""

    workloads: list[Object] | None = None
    local_queues: list[Object] | None = None
    cluster_queues: list[Object] | None = None
    cohorts: list[Object] | None = None
    installed: bool = True


class ReaderLimits(NamedTuple):
    """Limits of the user for whom a service reads: the service itself may read everything.

    :param unreadable: kinds of Kueue that the user may not list.
    :param is_confined: the lists have only the jobs of namespaces that the user may see.
    """

    unreadable: frozenset[str] = frozenset()
    is_confined: bool = False


NO_LIMITS = ReaderLimits()


class QueueClaim(NamedTuple):
    """Another job that waits for quota or holds it.

    :param name: ``training/x``.
    :param since: when it was created, RFC 3339.
    """

    namespace: str
    name: str
    priority: int
    since: str
    amounts: Amounts


@dataclass(frozen=True)
class QueuePosition:
    """The position of a job in its queue.

    :param rooms: quota for the resources that the job requests, one for each flavor.
    :param uncovered: requested resources for which the ClusterQueue has no quota.
    :param ahead: jobs that Kueue tries before it, in order; None if the ClusterQueue or Workloads may not be read.
    :param waiting: number of waiting jobs in the ClusterQueue; None as ``ahead``.
    :param holders: jobs that hold quota of the resources it lacks.
    :param has_recorded_requests: Kueue has recorded what the job requests.
    :param is_backing_off: see :func:`gpuctl.objects.workload_state.is_backing_off`.
    """

    queue: str
    cluster_queue: str | None
    cohort: str
    strategy: str
    priority: int
    asked: Amounts
    rooms: list[QueueHeadroom] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    ahead: list[QueueClaim] | None = None
    waiting: int | None = None
    holders: list[QueueClaim] = field(default_factory=list)
    has_recorded_requests: bool = False
    is_backing_off: bool = False

    @property
    def path(self) -> QueuePath:
        """Return the queue with its ClusterQueue and cohort, as in messages."""
        return QueuePath(self.queue, self.cluster_queue or "", self.cohort)

    @property
    def position(self) -> int | None:
        """Return 1 more than the number of jobs ahead; None if these are unknown, or while the job backs off."""
        return len(self.ahead) + 1 if self.ahead is not None and not self.is_backing_off else None

    @property
    def short(self) -> list[QueueHeadroom]:
        """Return the quota of resources of which less is free than the job requests."""
        return lacking(self.rooms, lambda room: room.free)

    @property
    def too_small(self) -> list[QueueHeadroom]:
        """Return the quota of resources that can never satisfy the job; [] before Kueue has recorded its requests."""
        return lacking(self.rooms, lambda room: room.most) if self.has_recorded_requests else []


def read_kueue(scope: Scope, limits: ReaderLimits = NO_LIMITS) -> KueueLists:
    """Read Kueue's objects. Add a note for each kind that the user may not list.

    :param limits: the limits of the user for whom a service reads.
    """
    kinds = kueue_resources(scope.session)
    if kinds is None:
        return KueueLists(installed=False)
    confined = ["Workload"] if limits.is_confined else []

    def read(kind: str) -> list[Object] | None:
        if kind in limits.unreadable:
            return None
        for namespace in (None, scope.fallback) if kinds[kind].namespaced else (None,):
            found = if_allowed(partial(scope.session.list_objects, kinds[kind], namespace), None)
            if found is not None:
                if namespace is not None:
                    confined.append(kind)
                return found[0]
        return None

    workloads, local, cluster, cohorts = scope.session.each(read, list(kinds))
    if workloads is None:
        scope.note(say("Kueue's workloads may not be read (this needs `list` on them): the jobs of queues are unknown"))
    elif "Workload" in confined:
        where = say("the namespaces that you may read") if limits.is_confined else scope.fallback
        scope.note(
            say(
                "Kueue's workloads of other namespaces may not be read: positions in queues count only the jobs of "
                "{where}",
                where=where,
            )
        )
    if local is None:
        scope.note(
            say("Kueue's localqueues may not be read (this needs `list` on them): the queues of jobs are unknown")
        )
    elif "LocalQueue" in confined and scope.namespace is None:
        scope.note(say("not all namespaces may be read; showing only {namespace}", namespace=scope.fallback))
    if cluster is None:
        scope.note(
            say(
                "Kueue's clusterqueues may not be read (this needs `list` on them in the whole cluster): their "
                "quotas and cohorts are unknown"
            )
        )
    return KueueLists(workloads, local, cluster, cohorts)


def queue_position(workload: Object, lists: KueueLists, keys: Records) -> QueuePosition:
    """Return the position of a job's Workload."""
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    admission = status.get("admission") or {}
    name = admission.get("clusterQueue") or queue_target(workload, queue_targets(lists.local_queues or []))
    place = QueuePosition(
        spec.get("queueName") or "",
        name,
        cohort="",
        strategy="",
        priority=int(spec.get("priority") or 0),
        asked=requested_amounts(workload),
        has_recorded_requests=has_recorded_requests(workload),
        is_backing_off=is_backing_off(workload),
    )
    obj = next((item for item in lists.cluster_queues or [] if item["metadata"]["name"] == name), None)
    if obj is not None:
        place = _with_quota(place, obj, workload, lists)
    return _with_other_jobs(place, workload, lists, keys)


def _with_quota(place: QueuePosition, cluster_queue: Object, workload: Object, lists: KueueLists) -> QueuePosition:
    """Return a position with the quota that its ClusterQueue has for the requests of its job."""
    rooms = list(_rooms(cluster_queue, workload, lists))
    covered = {room.slot.resource for room in rooms}
    uncovered = [resource for resource in place.asked if resource not in covered]
    return replace(
        place,
        cohort=cohort_of(cluster_queue),
        strategy=str((cluster_queue.get("spec") or {}).get("queueingStrategy") or ""),
        rooms=rooms,
        uncovered=uncovered if place.has_recorded_requests else [],
    )


def _with_other_jobs(place: QueuePosition, workload: Object, lists: KueueLists, keys: Records) -> QueuePosition:
    """Return a position with the jobs that Kueue tries before its job, and those that hold the quota it lacks."""
    name = place.cluster_queue
    if name is None or lists.workloads is None:
        return place
    waiting = waiting_by_queue(lists).get(name, [])
    before = sorted((item for item in waiting if queue_order(item) < queue_order(workload)), key=queue_order)
    short = {room.slot.resource for room in place.short}
    holding = _holding(lists.workloads, name, place.cohort, lists)
    holders = [claim_of(item, keys) for item in holding if item is not workload]
    return replace(
        place,
        ahead=[claim_of(item, keys) for item in before],
        waiting=len(waiting),
        holders=[claim for claim in holders if short & claim.amounts.keys()],
    )


def queue_quotas(obj: Object, lists: KueueLists) -> Iterator[QueueQuota]:
    """Yield the quotas of a ClusterQueue, with their use."""
    # Without the cohorts, their own quota and their parents are unknown.
    known = not cohort_of(obj) or lists.cohorts is not None
    node = live_quota_trees(lists.cluster_queues or [], lists.cohorts or [])[obj["metadata"]["name"]]
    for slot in flavor_quotas(obj):
        found = queue_quota(node, slot)
        yield found if known else replace(found, free=None, most=None)


def _rooms(obj: Object, workload: Object, lists: KueueLists) -> Iterator[QueueHeadroom]:
    wants, sets = requested_amounts(workload), list(requested_by_pod_sets(workload))
    for quota in queue_quotas(obj, lists):
        resource = quota.slot.resource
        if resource in wants:
            largest = max(item.get(resource, ZERO) for item in sets)
            yield QueueHeadroom(**vars(quota), asked=wants[resource], largest=largest)


def is_stopped(queue: Object) -> bool:
    """Return True if a LocalQueue or ClusterQueue has a stop policy: it admits nothing."""
    return ((queue.get("spec") or {}).get("stopPolicy") or "None") != "None"


def queue_targets(local_queues: Iterable[Object]) -> dict[tuple[str, str], str]:
    """Return (namespace, LocalQueue) -> ClusterQueue."""
    return {
        (item["metadata"]["namespace"], item["metadata"]["name"]): str((item.get("spec") or {}).get("clusterQueue"))
        for item in local_queues
    }


def queue_target(workload: Object, leads: dict[tuple[str, str], str]) -> str | None:
    """Return the ClusterQueue to which the LocalQueue of a Workload leads."""
    queue = (workload.get("spec") or {}).get("queueName") or ""
    return leads.get((workload["metadata"]["namespace"], queue))


def waiting_by_queue(lists: KueueLists) -> dict[str | None, list[Object]]:
    """Return ClusterQueue -> waiting Workloads; None for those whose LocalQueue is stopped or unknown."""
    open_ones = queue_targets(item for item in lists.local_queues or [] if not is_stopped(item))
    found: dict[str | None, list[Object]] = {}
    for workload in filter(is_waiting, lists.workloads or []):
        found.setdefault(queue_target(workload, open_ones), []).append(workload)
    return found


def is_waiting(workload: Object) -> bool:
    """Return True if a Workload is pending in its queue."""
    active = (workload.get("spec") or {}).get("active") is not False and not is_backing_off(workload)
    active = active and not admission_gates(workload)
    return active and condition(workload, "QuotaReserved") is None and condition(workload, "Finished") is None


def admission_gates(workload: Object) -> str:
    """Return the gates that have to be removed before Kueue admits a Workload, "" for none."""
    return str((workload["metadata"].get("annotations") or {}).get(ADMISSION_GATES) or "")


def queue_order(workload: Object) -> tuple[int, str]:
    """Sort key: Kueue's order within a ClusterQueue. The order of Workloads created in the same second is unknown."""
    return -int((workload.get("spec") or {}).get("priority") or 0), queueing_time(workload)


def _holding(workloads: Iterable[Object], name: str, cohort: str, lists: KueueLists) -> Iterator[Object]:
    """Yield the Workloads that hold quota of a ClusterQueue, or of those that may lend to it."""
    cohorts = {item["metadata"]["name"]: item for item in lists.cohorts or []}
    kin = ancestor_cohorts(cohort, cohorts)
    lenders = {
        item["metadata"]["name"]
        for item in lists.cluster_queues or []
        if kin & ancestor_cohorts(cohort_of(item), cohorts)
    }
    for item in workloads:
        admission = (item.get("status") or {}).get("admission") or {}
        if admission.get("clusterQueue") in {name, *lenders} and condition(item, "Finished") is None:
            yield item


def claim_of(workload: Object, keys: Records) -> QueueClaim:
    """Return the job of a Workload, with the amounts that it requests or holds."""
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    pods: Object = next(iter(spec.get("podSets") or []), {})
    labels = ((pods.get("template") or {}).get("metadata") or {}).get("labels") or {}
    owner = owner_of_workload(workload) or {"kind": "Workload", "name": metadata["name"]}
    name = prefixed(f"{owner['kind']}/", owner["name"])
    if keys.job_type in labels:
        name = prefixed(f"{labels[keys.job_type]}/", labels["app"] if "app" in labels else owner["name"])
    created = metadata.get("creationTimestamp") or ""
    return QueueClaim(metadata["namespace"], name, int(spec.get("priority") or 0), created, requested_amounts(workload))
