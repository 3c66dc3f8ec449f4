"""Kueue's queues from the REST API. Unknown fields are ignored."""

from __future__ import annotations

from itertools import count

from gpuctl.api.queue_answers import QueueDetail, QueueItem, QueueList
from gpuctl.kube.scope import Scope
from gpuctl.usecases.service.service_client import ServiceClient

_PAGE = 1000


def queues_of_service(service: ServiceClient, scope: Scope) -> list[QueueItem]:
    """Return the visible queues. Notes go to the scope."""
    with service.reading() as get:
        found = QueueList.model_validate(get("/queues"))
    for note in found.notes:
        scope.note(note)
    return found.items


def queue_of_service(service: ServiceClient, name: str) -> QueueDetail:
    """Return a queue with its jobs, from all pages.

    :raises ServiceRefusal: 404 if it does not exist.
    """
    queue: QueueDetail | None = None
    with service.reading() as get:
        for number in count(1):
            page = QueueDetail.model_validate(get(f"/queues/{name}", page=str(number), pageSize=str(_PAGE)))
            if queue is None:
                queue = page
            else:
                queue.waiting += page.waiting
                queue.admitted += page.admitted
            if max(len(page.waiting), len(page.admitted)) < _PAGE:
                return queue
        raise AssertionError("unreachable")
