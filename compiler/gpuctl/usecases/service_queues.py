"""Kueue's queues from the REST API. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from typing import Any

from gpuctl.capacity.cohorts import FlavorResource
from gpuctl.objects.quantities import quantity
from gpuctl.reading.queue_position import QueueClaim, QueueQuota
from gpuctl.reading.queue_rows import LocalQueue, Queue, QueuedClaim, QueueRow
from gpuctl.usecases.service_client import ServiceClient

Item = Mapping[str, Any]
_PAGE = 1000


def queues_of_service(service: ServiceClient) -> tuple[list[QueueRow], list[str]]:
    """Return the visible queues, and the notes about them."""
    with service.reading() as get:
        answer = get("/queues")
    return list(map(_row, answer["items"])), list(map(str, answer.get("notes") or ()))


def queue_of_service(service: ServiceClient, name: str) -> Queue:
    """Return a queue with its jobs, from all pages.

    :raises ServiceRefusal: 404 if it does not exist.
    """
    with service.reading() as get:
        waiting: list[QueuedClaim] = []
        admitted: list[QueueClaim] = []
        for page in count(1):
            item = get(f"/queues/{name}", page=str(page), pageSize=str(_PAGE))
            waiting += (QueuedClaim(int(job["position"]), _claim(job)) for job in item["waiting"])
            admitted += map(_claim, item["admitted"])
            if max(len(item["waiting"]), len(item["admitted"])) < _PAGE:
                return Queue(_row(item), waiting, admitted)
        raise AssertionError("unreachable")


def _row(item: Item) -> QueueRow:
    return QueueRow(
        item["name"],
        item.get("cohort") or "",
        item.get("strategy") or "",
        item["status"],
        item.get("reason") or "",
        item.get("createdAt"),
        tuple(map(_local_queue, item.get("localQueues") or ())),
        None if item["resources"] is None else tuple(map(_quota, item["resources"])),
        item.get("waitingJobs"),
        item.get("admittedJobs"),
    )


def _local_queue(item: Item) -> LocalQueue:
    return LocalQueue(
        item["namespace"],
        item["name"],
        item["status"],
        item.get("reason") or "",
        item.get("pendingWorkloads"),
        item.get("reservingWorkloads"),
        item.get("admittedWorkloads"),
        tuple(
            (FlavorResource(use["flavor"], use["resource"]), Fraction(str(use["used"]))) for use in item["resources"]
        ),
    )


def _quota(item: Item) -> QueueQuota:
    return QueueQuota(
        FlavorResource(item["flavor"], item["resource"]),
        Fraction(str(item["total"])),
        _amount(item.get("borrowingLimit")),
        Fraction(str(item["used"])),
        _amount(item.get("free")),
        _amount(item.get("most")),
    )


def _amount(value: int | float | None) -> Fraction | None:
    return None if value is None else Fraction(str(value))


def _claim(item: Item) -> QueueClaim:
    amounts = {resource: quantity(amount) for resource, amount in (item.get("resources") or {}).items()}
    name = f"{item['kind']}/{item['name']}"
    return QueueClaim(item["namespace"], name, int(item["priority"]), item.get("createdAt") or "", amounts)
