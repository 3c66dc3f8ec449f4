"""Kueue's queues. Amounts are cores, bytes and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import Amount, SharedModel
from gpuctl.capacity.kueue.queue_quota import QueueQuota
from gpuctl.objects.quantities import format_amount
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.queues.queue_position import QueueClaim
from gpuctl.reading.queues.queue_rows import LocalQueue, Queue, QueueRow


class QueueResource(SharedModel):
    """The quota of a queue for one resource in one flavor. `name`: cpu, memory, gpu, or Kubernetes' name."""

    resource: str = Field(examples=["nvidia.com/gpu"])
    name: str = Field(examples=["gpu"])
    flavor: str = Field(description="The ResourceFlavor of Kueue.", examples=["a100"])
    total: Amount = Field(description="The queue's own quota.", examples=[16])
    used: Amount = Field(description="Held by admitted jobs.", examples=[20])
    borrowed: Amount = Field(description="The used amount above the own quota.", examples=[4])
    borrowing_limit: Amount | None = Field(description="Null for no limit of its own.", examples=[8])
    free: Amount | None = Field(
        description="Available without preemption, with what the cohort lends; null if the cohort may not be read.",
        examples=[0],
    )
    most: Amount | None = Field(description="Available if nothing else runs; null as `free`.", examples=[24])

    @classmethod
    def of(cls, quota: QueueQuota, gpus: PlatformGpus) -> QueueResource:
        """Return the JSON model of a quota."""
        resource = quota.slot.resource
        return cls.taken_from(
            quota, resource=resource, name=_name(resource, gpus), flavor=quota.slot.flavor, total=quota.nominal
        )


class QueueUse(SharedModel):
    """The quota that jobs of a LocalQueue hold of one flavor."""

    resource: str = Field(examples=["nvidia.com/gpu"])
    name: str = Field(description="cpu, memory, gpu, or Kubernetes' name.", examples=["gpu"])
    flavor: str = Field(description="The ResourceFlavor of Kueue.", examples=["a100"])
    used: Amount = Field(examples=[8])


class QueueEntrance(SharedModel):
    """A LocalQueue: the name that jobs of a namespace use. Kueue counts Workloads, also those of other tools; numbers
    are null before it has counted them, and where they count jobs of pools that the caller may not see.
    """

    namespace: str = Field(examples=["team-a"])
    name: str = Field(examples=["research"])
    status: str = Field(description="active, stopped or inactive.", examples=["active"])
    reason: str | None = Field(description="Why it admits no job.", examples=[None])
    pending_workloads: int | None = Field(description="Without quota.", examples=[1])
    reserving_workloads: int | None = Field(description="With quota, including the admitted ones.", examples=[1])
    admitted_workloads: int | None = Field(description="With quota and all admission checks.", examples=[1])
    resources: list[QueueUse]

    @classmethod
    def of(cls, place: LocalQueue, gpus: PlatformGpus) -> QueueEntrance:
        """Return the JSON model of a LocalQueue."""
        return cls.taken_from(
            place,
            reason=place.reason or None,
            pending_workloads=place.pending,
            reserving_workloads=place.reserving,
            admitted_workloads=place.admitted,
            resources=[
                QueueUse(resource=slot.resource, name=_name(slot.resource, gpus), flavor=slot.flavor, used=amount)
                for slot, amount in place.used
            ],
        )


class QueueFields(SharedModel):
    """Fields of every response about a ClusterQueue."""

    name: str = Field(examples=["research"])
    cohort: str | None = Field(
        description="Queues of a cohort lend each other quota. Null if ClusterQueues may not be read, like `strategy` "
        "and `createdAt`.",
        examples=["company"],
    )
    strategy: str | None = Field(examples=["BestEffortFIFO"])
    status: str = Field(description="active, stopped or inactive.", examples=["active"])
    reason: str | None = Field(description="Why it admits no job.", examples=[None])
    local_queues: list[QueueEntrance]
    waiting_jobs: int | None = Field(description="Null if Workloads may not be read.", examples=[3])
    admitted_jobs: int | None = Field(description="Null if Workloads may not be read.", examples=[2])
    resources: list[QueueResource] | None = Field(description="Null if ClusterQueues may not be read.")
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])


class QueueItem(QueueFields):
    """A ClusterQueue of a list. Only jobs that the caller may see are counted."""

    @classmethod
    def of(cls, row: QueueRow, gpus: PlatformGpus) -> QueueItem:
        """Return the JSON model of a queue."""
        return cls.taken_from(row, **_fields(row, gpus))


class QueueList(SharedModel):
    """The list of queues."""

    items: list[QueueItem]
    total: int = Field(examples=[2])
    notes: list[str] = Field(description="Notes about objects that could not be read.", examples=[[]])

    @classmethod
    def of(cls, items: Iterable[QueueItem], notes: Sequence[str]) -> QueueList:
        """Return the JSON model of a list of queues."""
        found = list(items)
        return cls(items=found, total=len(found), notes=list(notes))


class QueueJob(SharedModel):
    """A job of a queue. The kind is that of the object for jobs that gpuctl does not manage."""

    kind: str = Field(examples=["training"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    priority: int = Field(examples=[0])
    gpu: int = Field(examples=[8])
    resources: dict[str, str] = Field(examples=[{"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}])
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])


class WaitingInQueue(QueueJob):
    """A job that waits in a queue."""

    position: int = Field(
        description="Its position in the order in which Kueue tries jobs, from 1. "
        "Jobs created in the same second may have the same one.",
        examples=[1],
    )


class QueueDetail(QueueFields):
    """A queue with its jobs."""

    waiting: list[WaitingInQueue] = Field(description="In the order in which Kueue tries them.")
    admitted: list[QueueJob] = Field(description="The oldest first.")
    notes: list[str] = Field(description="Notes about objects that could not be read.", examples=[[]])

    @classmethod
    def of(cls, queue: Queue, gpus: PlatformGpus, notes: Sequence[str]) -> QueueDetail:
        """Return the JSON model of a queue with its jobs."""
        return cls.taken_from(
            queue.row,
            **_fields(queue.row, gpus),
            waiting=[WaitingInQueue(**_claim(item.claim, gpus), position=item.position) for item in queue.waiting],
            admitted=[QueueJob(**_claim(claim, gpus)) for claim in queue.admitted],
            notes=list(notes),
        )


def _fields(row: QueueRow, gpus: PlatformGpus) -> dict[str, Any]:
    """Return the fields that differ from the attributes of a row."""
    return {
        "cohort": row.cohort or None,
        "strategy": row.strategy or None,
        "reason": row.reason or None,
        "local_queues": [QueueEntrance.of(place, gpus) for place in row.local_queues],
        "resources": None if row.quotas is None else [QueueResource.of(quota, gpus) for quota in row.quotas],
    }


def _name(resource: str, gpus: PlatformGpus) -> str:
    return "gpu" if resource in gpus.cards else resource


def _claim(claim: QueueClaim, gpus: PlatformGpus) -> dict[str, Any]:
    kind, _, name = claim.name.partition("/")
    return {
        "kind": kind,
        "name": name,
        "namespace": claim.namespace,
        "priority": claim.priority,
        "gpu": gpus.count(claim.amounts),
        "resources": {resource: format_amount(resource, amount) for resource, amount in sorted(claim.amounts.items())},
        "created_at": claim.since or None,
    }
