"""Waiting for one job, or for the first of several, until it meets a condition or can no longer meet it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpuctl.api.wait_models import (
    Condition,
    JobsWaitAnswer,
    JobsWaitQuestion,
    WaitAnswer,
    WaitedItem,
    WaitedName,
    wait_fields,
)
from gpuctl.language.sentences import say
from gpuctl.reading.jobs.job_objects import Identity
from gpuctl.reading.jobs.wait_until import (
    GRACE,
    WaitedJob,
    WaitResult,
    already_deleted,
    deletion_result,
    wait_on,
    waited_job,
)
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import merge_hidden
from gpuctl_server.lookups.job_lookups import ambiguous_job, board_of, require_access, sees_job
from gpuctl_server.mirror.job_board import Board, ListedJob
from gpuctl_server.service_context import Service

_ANSWERS = 20.0
"""Additional seconds for requests to the API server."""


class _Pause(Exception):
    """The time limit of the request is reached, or a result is available."""


class _Progress:
    """Progress callback of a wait. Keeps the latest text, and ends the wait after the time limit or during shutdown."""

    def __init__(self, service: Service, end: float, is_enough: Callable[[], bool]) -> None:
        self._service = service
        self._end = end
        self._is_enough = is_enough
        self.text = ""

    def __call__(self, text: str) -> None:
        """Keep a progress text.

        :raises _Pause: the wait is over.
        :raises Problem: 503 during shutdown.
        """
        self.text = text
        if self._service.change_slots.is_ending():
            raise Problem(503, say("the service is shutting down"))
        if self._is_enough() or time.monotonic() >= self._end:
            raise _Pause


def wait_for_one(
    service: Service, caller: Caller, job: WaitedName, condition: Condition, timeout: float
) -> dict[str, Any]:
    """Wait until a job has a result. After the timeout it is late.

    :raises Problem: as :func:`wait_for_first`.
    """
    question = JobsWaitQuestion(jobs=[job], condition=condition, timeout=timeout, limit=timeout)
    results, _ = _first_results(service, caller, question)
    answer: dict[str, Any] = merge_hidden(WaitAnswer.of(results.values()).as_json())
    return answer


def wait_for_first(service: Service, caller: Caller, question: JobsWaitQuestion) -> dict[str, Any]:
    """Wait until at least one job has a result, or the time limit of the request is reached.

    :raises Problem: 403 for a namespace that the caller may not use; 409 for a name of several jobs; 503.
    """
    results, message = _first_results(service, caller, question)
    items = [
        WaitedItem(**wait_fields(result), index=place, outcome=result.outcome, cause=result.cause or None)
        for place, result in sorted(results.items())
    ]
    answer: dict[str, Any] = merge_hidden(JobsWaitAnswer(items=items, message=None).as_json())
    # Added after the merge: it only names jobs of the request.
    answer["message"] = message if len(results) < len(question.jobs) else None
    return answer


def _first_results(service: Service, caller: Caller, question: JobsWaitQuestion) -> tuple[dict[int, WaitResult], str]:
    """Return the results by the index of the job in the request, and what the other jobs wait for."""
    begun, limit = time.monotonic(), question.limit
    for name in question.jobs:
        require_access(caller, AccessRequest("get", "jobs", name.namespace or None))
    results: dict[int, WaitResult] = {}
    waiting: dict[Identity, WaitedJob] = {}
    places: dict[Identity, list[int]] = {}
    for place, (name, item) in enumerate(_found_jobs(service, caller, question)):
        if item is None:
            results[place] = _missing(name, question.condition)
            continue
        identity = item.row.identity._replace(generation="")
        waited = waited_job(name.job, item.job)
        # Another id: the job was created again.
        waiting[identity] = waited if name.job_id in ("", item.id) else waited._replace(uid="")
        places.setdefault(identity, []).append(place)
    end, deadline = begun + question.timeout, None if limit is None else begun + limit - question.waited
    # At its deadline a wait ends by itself, with results.
    tell = _Progress(service, math.inf if deadline is not None and deadline <= end else end, lambda: bool(results))
    # In a single namespace, fewer rights are enough to read the causes.
    namespaces = {identity.namespace for identity in waiting}
    with (
        suppress(_Pause),
        service.simulation_context(caller, namespaces.pop() if len(namespaces) == 1 else None) as reader,
        reader.scope.session.within(question.timeout + _ANSWERS),
    ):
        jobs, keys = waiting.values(), reader.keys
        for result in wait_on(reader.scope, jobs, question.condition, keys, reader.settings, (deadline, limit), tell):
            assert result.identity is not None
            results.update(dict.fromkeys(places[result.identity._replace(generation="")], result))
    return results, tell.text


def _found_jobs(
    service: Service, caller: Caller, question: JobsWaitQuestion
) -> list[tuple[WaitedName, ListedJob | None]]:
    """Return the jobs of a request; None for one that does not exist. A job that was just deleted may be created again
    soon.
    """

    def found(board: Board) -> list[ListedJob | None]:
        return [_found(board, caller, name) for name in question.jobs]

    board_of(service)
    if question.condition != "deleted":
        service.board.wait_for(lambda board: None not in found(board), min(GRACE, question.timeout))
    return list(zip(question.jobs, found(board_of(service)), strict=True))


def _found(board: Board, caller: Caller, name: WaitedName) -> ListedJob | None:
    """Return the job that a name stands for; of several generations the newest.

    :raises Problem: 409 for several jobs.
    """

    def takes(item: ListedJob) -> bool:
        identity = item.row.identity
        return (
            sees_job(caller, identity.namespace, item.row.pools)
            and name.namespace in ("", identity.namespace)
            and name.kind in ("", identity.kind)
        )

    items = board.find(name.job, takes)
    if len({(item.row.identity.namespace, item.row.identity.kind) for item in items}) > 1:
        raise ambiguous_job(name.job, items)
    return items[0] if items else None


def _missing(name: WaitedName, condition: str) -> WaitResult:
    """Return the result for a name without a job. With an id, the client has found the job before."""
    if name.job_id and name.kind and name.namespace:
        return deletion_result(name.job, Identity(name.namespace, name.job, name.kind), condition)
    if condition == "deleted":
        return already_deleted(name.job)
    return WaitResult(
        name.job,
        None,
        condition,
        "gone",
        say("there is no job {name}: it will not be {condition}", name=name.job, condition=condition),
    )
