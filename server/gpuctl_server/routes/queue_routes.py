"""``/queues``: Kueue's queues, the jobs that wait in them, and those that hold their quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Path

from gpuctl.api.queue_answers import QueueDetail, QueueList
from gpuctl.objects.api_resources import RESOURCES
from gpuctl.reading.queues.queue_position import ReaderLimits
from gpuctl.reading.queues.queue_rows import QueueRow
from gpuctl.usecases.queries.queue_queries import describe_queue, list_queues
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.kubernetes import ClusterCaller
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import Page, PageSize
from gpuctl_server.routes.routers import mirror_router

router = mirror_router()
_WITHOUT_NAMESPACE = ("ClusterQueue", "Cohort")
Reads = Annotated[Caller, Depends(allowed("get", "quotas"))]


@router.get("/queues", tags=["queues"], responses={200: {"model": QueueList}})
def list_of_queues(service: ServiceOf, caller: Reads) -> dict[str, Any]:
    """List Kueue's ClusterQueues that jobs of the visible namespaces can use, and how full they are."""
    with service.queue_context(caller) as reader:
        return list_queues(reader, sees=_visible_to(caller), limits=_limits(caller)).as_json()


@router.get("/queues/{queueName}", tags=["queues"], responses={200: {"model": QueueDetail}})
def one_queue(
    service: ServiceOf,
    caller: Reads,
    name: Annotated[str, Path(alias="queueName", max_length=253, description="Name of a ClusterQueue.")],
    page: Page = 1,
    pageSize: PageSize = 100,  # noqa: N803
) -> dict[str, Any]:
    """Return a ClusterQueue: its quota, and a page of the waiting jobs and of the admitted jobs that the caller may
    see.
    """
    with service.queue_context(caller) as reader:
        part = slice((page - 1) * pageSize, page * pageSize)
        return describe_queue(reader, name, sees=_visible_to(caller), limits=_limits(caller), page=part).as_json()


def _visible_to(caller: Caller) -> Callable[[QueueRow], bool]:
    """Return the predicate of queues that visible jobs can use; all, for a caller that sees all namespaces."""
    return lambda row: caller.sees_all() or bool(row.local_queues)


def _limits(caller: Caller) -> ReaderLimits:
    """Return what a user of the cluster may not read. Tokens of the service name namespaces, and count all jobs."""
    unreadable = frozenset(kind for kind in _WITHOUT_NAMESPACE if not caller.may_list(RESOURCES[kind]))
    return ReaderLimits(unreadable, isinstance(caller, ClusterCaller) and not caller.sees_all())
