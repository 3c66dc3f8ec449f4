"""Queries about Kueue's queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuctl.api.queue_answers import QueueDetail, QueueItem, QueueList
from gpuctl.kube.not_found import no_such
from gpuctl.language.sentences import say
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.queues.queue_position import NO_LIMITS, ReaderLimits, read_kueue
from gpuctl.reading.queues.queue_rows import Queue, QueueRow, read_queues
from gpuctl.usecases.queries.read_context import ReadContext, check_names
from gpuctl.usecases.service.service_client import ServiceClient
from gpuctl.usecases.service.service_queues import queue_of_service, queues_of_service

Filter = Callable[[QueueRow], bool]


def list_queues(
    reader: ReadContext,
    names: Sequence[str] = (),
    *,
    sees: Filter = lambda row: True,
    limits: ReaderLimits = NO_LIMITS,
) -> QueueList:
    """Return the ClusterQueues, or only those with the given names; of one namespace, those that its jobs can use.

    :param sees: returns True if the caller may know that a queue exists.
    :param limits: what the caller may not read.
    :raises NotThere: one of the names does not exist.
    """
    if reader.service is not None:
        rows = _rows_of_service(reader, reader.service)
    else:
        gpus = PlatformGpus(reader.settings)
        rows = [QueueItem.of(queue.row, gpus) for queue in _queues(reader, sees, limits)]
    check_names("queue", names, [row.name for row in rows])
    return QueueList.of((row for row in rows if not names or row.name in names), reader.scope.notes)


def describe_queue(
    reader: ReadContext,
    name: str,
    *,
    sees: Filter = lambda row: True,
    limits: ReaderLimits = NO_LIMITS,
    page: slice = slice(None),
) -> QueueDetail:
    """Return a ClusterQueue with its jobs.

    :param sees: as in :func:`list_queues`; ``limits`` also.
    :param page: the part of its waiting jobs and of its admitted jobs to return.
    :raises NotThere: it does not exist.
    """
    if reader.service is not None:
        check_names("queue", [name], [row.name for row in _rows_of_service(reader, reader.service)])
        answer = queue_of_service(reader.service, name)
        return answer.model_copy(update={"notes": reader.scope.notes})
    found = _queues(reader, sees, limits)
    queue = next((queue for queue in found if queue.row.name == name), None)
    if queue is None:
        raise no_such("queue", name, [queue.row.name for queue in found])
    part = queue._replace(waiting=queue.waiting[page], admitted=queue.admitted[page])
    return QueueDetail.of(part, PlatformGpus(reader.settings), reader.scope.notes)


def _rows_of_service(reader: ReadContext, service: ServiceClient) -> list[QueueItem]:
    return [row for row in queues_of_service(service, reader.scope) if _is_within(reader, row)]


def _queues(reader: ReadContext, sees: Filter, limits: ReaderLimits) -> list[Queue]:
    lists = read_kueue(reader.scope, limits)
    if not lists.installed:
        reader.scope.note(say("Kueue is not installed"))
    found = read_queues(lists, reader.keys)
    return [queue for queue in found if _is_within(reader, queue.row) and sees(queue.row)]


def _is_within(reader: ReadContext, row: QueueRow | QueueItem) -> bool:
    """Return True if jobs of the scope's namespace can use a queue."""
    namespace = reader.scope.namespace
    return namespace is None or any(place.namespace == namespace for place in row.local_queues)
