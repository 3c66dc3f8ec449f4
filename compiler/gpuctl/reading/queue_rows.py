"""Kueue's ClusterQueues: their quota, the jobs that wait in them, and those that hold their quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.capacity.cohorts import cohort_of
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hidden_names import is_hidden
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.queue_names import is_unlimited
from gpuctl.objects.workload_state import condition, find_condition
from gpuctl.reading.queue_position import (
    KueueLists,
    QueueClaim,
    QueueQuota,
    claim_of,
    is_stopped,
    is_waiting,
    queue_order,
    queue_quotas,
    queue_target,
    queue_targets,
)
from gpuctl.reading.status import one_line


class LocalQueue(NamedTuple):
    """A LocalQueue: the name that jobs of a namespace use."""

    namespace: str
    name: str


@dataclass(frozen=True)
class QueueRow:
    """A ClusterQueue in a list.

    :param cohort: "" for none.
    :param status: ``active``; ``stopped`` by an administrator, or ``inactive``, with a reason.
    :param local_queues: the LocalQueues that lead to it.
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
    quotas: tuple[QueueQuota, ...]
    waiting_jobs: int | None
    admitted_jobs: int | None


class QueuedClaim(NamedTuple):
    """A waiting job; ``position`` counts from 1."""

    position: int
    claim: QueueClaim


class Queue(NamedTuple):
    """A ClusterQueue with its jobs: those that wait in the order of Kueue, and those that were admitted by time."""

    row: QueueRow
    waiting: list[QueuedClaim]
    admitted: list[QueueClaim]


def read_queues(lists: KueueLists, keys: Records) -> list[Queue]:
    """Return the ClusterQueues by name. Jobs and LocalQueues with hidden names are left out."""
    targets = queue_targets(lists.local_queues or [])
    open_ones = queue_targets(item for item in lists.local_queues or [] if not is_stopped(item))
    waiting: dict[str | None, list[Object]] = {}
    admitted: dict[str | None, list[Object]] = {}
    for workload in lists.workloads or []:
        if is_waiting(workload):
            waiting.setdefault(queue_target(workload, open_ones), []).append(workload)
        elif condition(workload, "Finished") is None:
            admission = (workload.get("status") or {}).get("admission") or {}
            admitted.setdefault(admission.get("clusterQueue"), []).append(workload)
    queues = sorted(lists.cluster_queues or [], key=lambda item: str(item["metadata"]["name"]))
    return [
        _queue(obj, lists, keys, targets, waiting.get(name, ()), admitted.get(name, ()))
        for obj in queues
        for name in [obj["metadata"]["name"]]
    ]


def _queue(
    obj: Object,
    lists: KueueLists,
    keys: Records,
    targets: Mapping[tuple[str, str], str],
    waiting: Iterable[Object],
    admitted: Iterable[Object],
) -> Queue:
    name = obj["metadata"]["name"]
    in_order = [claim_of(item, keys) for item in sorted(waiting, key=queue_order)]
    queued = [QueuedClaim(place, claim) for place, claim in enumerate(in_order, 1) if not is_hidden(claim.name)]
    holders = [claim_of(item, keys) for item in sorted(admitted, key=_admitted_at)]
    holders = [claim for claim in holders if not is_hidden(claim.name)]
    status, reason = _status(obj)
    is_known = lists.workloads is not None
    row = QueueRow(
        name,
        cohort_of(obj),
        str((obj.get("spec") or {}).get("queueingStrategy") or ""),
        status,
        reason,
        obj["metadata"].get("creationTimestamp"),
        tuple(
            sorted(
                LocalQueue(*place) for place, target in targets.items() if target == name and not is_hidden(place[0])
            )
        ),
        tuple(_limited_quotas(obj, lists)),
        len(queued) if is_known else None,
        len(holders) if is_known else None,
    )
    return Queue(row, queued, holders)


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
