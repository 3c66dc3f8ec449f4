"""Kueue's ClusterQueues: their quota, the jobs that wait in them, and those that hold their quota."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import FlavorResource, cohort_of, reserved_quota
from gpuctl.capacity.kueue.queue_quota import QueueQuota
from gpuctl.capacity.scheduler.scheduler_model import amount_of
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import is_hidden
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.queue_names import is_unlimited
from gpuctl.objects.workload_state import condition, find_condition
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.queues.queue_position import (
    KueueLists,
    QueueClaim,
    claim_of,
    is_stopped,
    is_waiting,
    queue_order,
    queue_quotas,
    waiting_by_queue,
)


class LocalQueue(NamedTuple):
    """A LocalQueue: the name that jobs of a namespace use, with what Kueue reports about it.

    :param status: as that of a queue.
    :param pending: number of Workloads without quota; ``reserving``: of those with quota, ``admitted``: of those among
        them that may start. None if Kueue has not counted them yet, or if some of them are hidden.
    :param used: reserved quota, in cores, bytes or counts.
    """

    namespace: str
    name: str
    status: str
    reason: str
    pending: int | None
    reserving: int | None
    admitted: int | None
    used: tuple[tuple[FlavorResource, Fraction], ...]


@dataclass(frozen=True)
class QueueRow:
    """A ClusterQueue in a list.

    :param cohort: "" for none.
    :param status: ``active``; ``stopped`` by an administrator, or ``inactive``, with a reason.
    :param local_queues: the LocalQueues that lead to it.
    :param quotas: None if ClusterQueues may not be read; then the cohort, the strategy and the age are unknown, too.
    :param waiting_jobs: number of jobs in the queue; None if Workloads may not be read.
    :param admitted_jobs: number of jobs that hold its quota; None as ``waiting_jobs``.
    """

    name: str
    cohort: str
    strategy: str
    status: str
    reason: str
    created_at: str | None
    local_queues: tuple[LocalQueue, ...]
    quotas: tuple[QueueQuota, ...] | None
    waiting_jobs: int | None
    admitted_jobs: int | None


class QueuedClaim(NamedTuple):
    """A waiting job; ``position`` is 1 more than the number of jobs ahead of it."""

    position: int
    claim: QueueClaim


class Queue(NamedTuple):
    """A ClusterQueue with its jobs: those that wait in the order of Kueue, and those that were admitted by time."""

    row: QueueRow
    waiting: list[QueuedClaim]
    admitted: list[QueueClaim]


def read_queues(lists: KueueLists, keys: Records) -> list[Queue]:
    """Return the ClusterQueues by name. Jobs and LocalQueues with hidden names are left out.

    If ClusterQueues may not be read, those that LocalQueues lead to are returned.
    """
    waiting = waiting_by_queue(lists)
    admitted: dict[str | None, list[Object]] = {}
    for workload in lists.workloads or []:
        if not is_waiting(workload) and condition(workload, "Finished") is None:
            admission = (workload.get("status") or {}).get("admission") or {}
            admitted.setdefault(admission.get("clusterQueue"), []).append(workload)
    partly_hidden = {
        (item["metadata"]["namespace"], (item.get("spec") or {}).get("queueName"))
        for item in lists.workloads or []
        if is_hidden(item["metadata"]["name"]) and condition(item, "Finished") is None
    }
    local: dict[str, list[LocalQueue]] = {}
    for item in lists.local_queues or []:
        if not is_hidden(item["metadata"]["namespace"]):
            place = _local_queue(item)
            if (place.namespace, place.name) in partly_hidden:
                place = place._replace(pending=None, reserving=None, admitted=None)
            local.setdefault(str((item.get("spec") or {}).get("clusterQueue")), []).append(place)
    known = {str(item["metadata"]["name"]): item for item in lists.cluster_queues or []}
    return [
        _queue(
            name,
            known.get(name),
            lists,
            keys,
            sorted(local.get(name, ())),
            waiting.get(name, ()),
            admitted.get(name, ()),
        )
        for name in sorted(known if lists.cluster_queues is not None else local)
    ]


def _queue(
    name: str,
    obj: Object | None,
    lists: KueueLists,
    keys: Records,
    local: Sequence[LocalQueue],
    waiting: Iterable[Object],
    admitted: Iterable[Object],
) -> Queue:
    in_order = sorted(waiting, key=queue_order)
    orders = list(map(queue_order, in_order))
    # Jobs whose order is unknown have the same position, as in `why`.
    claims = [
        QueuedClaim(bisect_left(orders, order) + 1, claim_of(item, keys))
        for item, order in zip(in_order, orders, strict=True)
    ]
    queued = [one for one in claims if not is_hidden(one.claim.name)]
    holders = [claim_of(item, keys) for item in sorted(admitted, key=_admitted_at)]
    holders = [claim for claim in holders if not is_hidden(claim.name)]
    # A LocalQueue is active only if its ClusterQueue is.
    states = [(item.status, item.reason) for item in local] if obj is None else [_status(obj)]
    status, reason = next((found for found in states if found[0] == "active"), states[0])
    is_known = lists.workloads is not None
    row = QueueRow(
        name,
        cohort_of(obj or {}),
        str(((obj or {}).get("spec") or {}).get("queueingStrategy") or ""),
        status,
        reason,
        None if obj is None else obj["metadata"].get("creationTimestamp"),
        tuple(local),
        None if obj is None else tuple(_limited_quotas(obj, lists)),
        len(queued) if is_known else None,
        len(holders) if is_known else None,
    )
    return Queue(row, queued, holders)


def _local_queue(obj: Object) -> LocalQueue:
    counts = obj.get("status") or {}
    used = reserved_quota(obj)
    status, reason = _status(obj)
    return LocalQueue(
        obj["metadata"]["namespace"],
        obj["metadata"]["name"],
        status,
        reason,
        counts.get("pendingWorkloads"),
        counts.get("reservingWorkloads"),
        counts.get("admittedWorkloads"),
        tuple((slot, amount_of(slot.resource, amount)) for slot, amount in used.items() if amount),
    )


def _limited_quotas(obj: Object, lists: KueueLists) -> Iterator[QueueQuota]:
    """Yield the quotas without those of gpuctl's own queues that mean no limit."""
    unlimited = {
        (flavor["name"], limit["name"])
        for group in (obj.get("spec") or {}).get("resourceGroups") or []
        for flavor in group.get("flavors") or []
        for limit in flavor.get("resources") or []
        if is_unlimited(limit["name"], str(limit["nominalQuota"]))
    }
    return (quota for quota in queue_quotas(obj, lists) if quota.slot not in unlimited)


def _status(obj: Object) -> tuple[str, str]:
    if is_stopped(obj):
        return "stopped", f"stopPolicy {obj['spec']['stopPolicy']}"
    active = find_condition(obj, "Active")
    if active.get("status") == "False":
        return "inactive", one_line(active.get("message"))
    return "active", ""


def _admitted_at(workload: Object) -> str:
    reserved = condition(workload, "QuotaReserved") or {}
    return str(reserved.get("lastTransitionTime") or workload["metadata"].get("creationTimestamp") or "")
