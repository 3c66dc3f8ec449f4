"""Wait and watch through the service, in requests of at most a minute, even if the service is replaced.

The models are imported after the first response, as in ``service_nodes``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run import wait_running
from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.backoff import jittered
from gpuctl.reading.jobs.job_lookup import JobNotFound
from gpuctl.reading.jobs.job_objects import Identity
from gpuctl.reading.jobs.job_rows import JobTableRow
from gpuctl.reading.jobs.row_changes import changed_rows
from gpuctl.reading.jobs.status import Status
from gpuctl.reading.jobs.wait_until import LONGEST_WAIT, MOST_JOBS, STARTED, WaitResult, already_deleted
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.service.service_client import OUTAGE_PATIENCE, ServiceClient, ServiceRefusal
from gpuctl.usecases.service.service_find import ServiceJob, job_of_service

if TYPE_CHECKING:
    from gpuctl.api.wait_models import JobsWaitAnswer

_SLICES = (3.0, 15.0, float(LONGEST_WAIT))
"""Seconds of the first requests and of all later ones: short at first, so that the user soon sees what is awaited."""
_BUSY = 2.0
_LOOK = 1.0
Value = TypeVar("Value")


def wait_by_service(
    reader: ReadContext, names: Sequence[str], condition: str, timeout: float | None, tell: Callable[[str], None]
) -> Iterator[WaitResult]:
    """Yield the result for each job, by the rules of :func:`gpuctl.reading.jobs.wait_until.wait_for`."""
    assert reader.service is not None
    service, clock = reader.service, _Clock(timeout)
    waiting: dict[Identity, tuple[str, ServiceJob]] = {}
    for name in dict.fromkeys(names):
        try:
            job = _patiently(service, partial(job_of_service, service, reader.scope, name), tell, clock)
        except JobNotFound:
            if condition != "deleted":
                raise
            yield already_deleted(name)
            continue
        waiting.setdefault(job.identity._replace(generation=""), (name, job))
    while waiting:
        asked = list(islice(waiting.items(), MOST_JOBS))
        jobs = [
            {"job": identity.name, "namespace": identity.namespace, "kind": identity.kind, "jobId": job.id}
            for identity, (_, job) in asked
        ]
        answer = _answer(service, jobs, condition, tell, clock)
        if answer.message:
            tell(answer.message)
        for item in answer.items:
            identity, (name, _) = asked[item.index]
            status = None if item.status is None else Status(item.status, "", item.reason or "")
            yield WaitResult(name, identity, condition, item.outcome, item.message, status, item.cause or "")
            del waiting[identity]


def wait_until_running_by_service(
    service: ServiceClient, plan: Plan, timeout: float, tell: Callable[[str], None]
) -> None:
    """Wait until all workloads of a plan run, by the rules of ``wait_until_running``.

    :raises NotRunning: a workload failed, or ``timeout`` seconds have passed.
    """
    clock, waiting = _Clock(timeout), wait_running.awaited(plan)
    while waiting:
        asked = waiting[:MOST_JOBS]
        jobs = [{"job": key.name, "namespace": key.namespace} for key in asked]
        items = _answer(service, jobs, STARTED, tell, clock).items
        for item in items:
            key = asked[item.index]
            if item.outcome == "gone":
                raise wait_running.deleted(key, plan)
            if item.outcome == "failed":
                raise wait_running.failed(key, plan, item.cause or item.reason or item.message)
        if late := [item for item in items if item.outcome == "late"]:
            raise wait_running.late([asked[item.index] for item in late], plan, timeout, late[0].cause or "")
        ended = {asked[item.index] for item in items}
        waiting = [key for key in waiting if key not in ended]
        if waiting:
            tell(wait_running.waiting_for(waiting))


def watch_by_service(
    service: ServiceClient, read: Callable[[], Iterable[JobTableRow]], takes: Callable[[JobTableRow], bool]
) -> Iterator[list[JobTableRow]]:
    """Yield all rows, then those that change, reading them every second.

    :param takes: return True for rows to yield; a row that starts passing again counts as new.
    """
    clock, shown, is_first = _Clock(None), dict[tuple[Identity, str], JobTableRow](), True
    while True:
        news = changed_rows(_patiently(service, read, lambda text: None, clock), shown)
        if news or is_first:
            yield [row for row in news if takes(row)]
        is_first = False
        time.sleep(_LOOK)


class _Clock:
    """The time of a wait across several requests. ``limit`` is in seconds; None for no limit."""

    def __init__(self, limit: float | None) -> None:
        self._begun = time.monotonic()
        self._limit = limit
        self._asked = 0

    def question(self) -> dict[str, float | None]:
        """Return the time fields of the next request."""
        seconds = _SLICES[min(self._asked, len(_SLICES) - 1)]
        return {"timeout": seconds, "limit": self._limit, "waited": time.monotonic() - self._begun}

    def count(self) -> None:
        """Count an answered request: the next one waits longer."""
        self._asked += 1

    @property
    def is_over(self) -> bool:
        """Return True if the limit has passed."""
        return self._limit is not None and time.monotonic() > self._begun + self._limit


def _answer(
    service: ServiceClient,
    jobs: list[dict[str, str]],
    condition: str,
    tell: Callable[[str], None],
    clock: _Clock,
) -> JobsWaitAnswer:
    """Return the results that are known after one request, and the text of what the other jobs wait for."""

    def ask() -> JobsWaitAnswer:
        with service.reading():
            value = service.request("POST", "/jobs/wait", {"jobs": jobs, "condition": condition, **clock.question()})
            from gpuctl.api.wait_models import JobsWaitAnswer

            return JobsWaitAnswer.model_validate(value)

    answer = _patiently(service, ask, tell, clock)
    clock.count()
    return answer


def _patiently(service: ServiceClient, ask: Callable[[], Value], tell: Callable[[str], None], clock: _Clock) -> Value:
    """Return the answer of a read-only request, retried while the service is busy or away.

    :raises ClusterError: the request fails, or the service does not come back.
    """
    end = time.monotonic() + OUTAGE_PATIENCE
    while True:
        try:
            return ask()
        except (ConnectionFailed, ServiceRefusal) as error:
            busy = service.is_busy(error)
            over = clock.is_over if busy else not service.is_away(error) or time.monotonic() > end
            if over:
                raise
            tell("waiting until the service has time" if busy else "waiting until the service answers")
        time.sleep(jittered(_BUSY))
