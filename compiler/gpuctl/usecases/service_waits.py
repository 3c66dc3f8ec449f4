"""Waiting and watching by the service: a minute at a time, however long it takes, also if the service is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run import wait_running
from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.backoff import jittered
from gpuctl.reading.job_lookup import JobNotFound
from gpuctl.reading.job_rows import Identity, JobTableRow
from gpuctl.reading.row_changes import changed_rows
from gpuctl.reading.status import Status
from gpuctl.reading.wait_until import LONGEST_WAIT, MOST_JOBS, STARTED, Outcome, WaitResult, already_deleted
from gpuctl.usecases.read_context import ReadContext
from gpuctl.usecases.service_client import OUTAGE, ServiceClient, ServiceRefusal
from gpuctl.usecases.service_find import ServiceJob, job_of_service

_SLICES = (3.0, 15.0, float(LONGEST_WAIT))
"""Seconds of the first requests, and of all that come after: the user soon sees what is waited for."""
_BUSY = 2.0
_LOOK = 1.0
Value = TypeVar("Value")


def wait_by_service(
    reader: ReadContext, names: Sequence[str], condition: str, timeout: float | None, tell: Callable[[str], None]
) -> Iterator[WaitResult]:
    """Yield the result of each job, by the rules of :func:`gpuctl.reading.wait_until.wait_for`."""
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
        items, message = _answer(service, jobs, condition, tell, clock)
        if message:
            tell(message)
        for item in items:
            identity, (name, _) = asked[item.place]
            yield WaitResult(name, identity, condition, item.outcome, item.message, item.status, item.cause)
            del waiting[identity]


def wait_until_running_by_service(
    service: ServiceClient, plan: Plan, timeout: float, tell: Callable[[str], None]
) -> None:
    """Wait until all workloads of a plan run, by the rules of ``wait_until_running``.

    :raises NotRunning: one failed, or ``timeout`` seconds were not enough.
    """
    clock, waiting = _Clock(timeout), wait_running.awaited(plan)
    while waiting:
        asked = waiting[:MOST_JOBS]
        jobs = [{"job": key.name, "namespace": key.namespace} for key in asked]
        items, _ = _answer(service, jobs, STARTED, tell, clock)
        for item in items:
            key = asked[item.place]
            if item.outcome == "gone":
                raise wait_running.deleted(key, plan)
            if item.outcome == "failed":
                raise wait_running.failed(
                    key, plan, item.cause or (item.status.reason if item.status else "") or item.message
                )
        if late := [item for item in items if item.outcome == "late"]:
            raise wait_running.late([asked[item.place] for item in late], plan, timeout, late[0].cause)
        ended = {asked[item.place] for item in items}
        waiting = [key for key in waiting if key not in ended]
        if waiting:
            tell(wait_running.waiting_for(waiting))


def watch_by_service(
    service: ServiceClient, read: Callable[[], Iterable[JobTableRow]], takes: Callable[[JobTableRow], bool]
) -> Iterator[list[JobTableRow]]:
    """Yield all rows, then those that have changed, by reading them every second.

    :param takes: return True for a row that is wanted; one that was not wanted and is again is new.
    """
    clock, shown, is_first = _Clock(None), dict[tuple[Identity, str], JobTableRow](), True
    while True:
        news = changed_rows(_patiently(service, read, lambda text: None, clock), shown)
        if news or is_first:
            yield [row for row in news if takes(row)]
        is_first = False
        time.sleep(_LOOK)


class _Clock:
    """The time of a wait, in one request after another. A ``limit`` of None is no end."""

    def __init__(self, limit: float | None) -> None:
        self._begun = time.monotonic()
        self._limit = limit
        self._asked = 0

    def question(self) -> dict[str, float | None]:
        """Return the fields of the next request that are about time."""
        seconds = _SLICES[min(self._asked, len(_SLICES) - 1)]
        return {"timeout": seconds, "limit": self._limit, "waited": time.monotonic() - self._begun}

    def count(self) -> None:
        """Count a request that was answered: the next one waits longer."""
        self._asked += 1

    @property
    def is_over(self) -> bool:
        """Return True if no time is left."""
        return self._limit is not None and time.monotonic() > self._begun + self._limit


class _Decided(NamedTuple):
    """A job for which there is nothing more to wait, by its place in the question."""

    place: int
    outcome: Outcome
    message: str
    status: Status | None
    cause: str


def _decided(item: Mapping[str, Any]) -> _Decided:
    status = None if item["status"] is None else Status(item["status"], "", item.get("reason") or "")
    return _Decided(item["index"], item["outcome"], item["message"], status, item.get("cause") or "")


def _answer(
    service: ServiceClient,
    jobs: list[dict[str, str]],
    condition: str,
    tell: Callable[[str], None],
    clock: _Clock,
) -> tuple[list[_Decided], str]:
    """Return the jobs for which there is nothing more to wait, after a while, and what the others are waited for."""

    def ask() -> tuple[list[_Decided], str]:
        with service.reading():
            value = service.request("POST", "/jobs/wait", {"jobs": jobs, "condition": condition, **clock.question()})
            return [_decided(item) for item in value["items"]], value.get("message") or ""

    answer = _patiently(service, ask, tell, clock)
    clock.count()
    return answer


def _patiently(service: ServiceClient, ask: Callable[[], Value], tell: Callable[[str], None], clock: _Clock) -> Value:
    """An answer, asked for again while the service is busy or away; nothing is changed by these questions.

    :raises ClusterError: it fails, or stays away.
    """
    end = time.monotonic() + OUTAGE
    while True:
        try:
            return ask()
        except (ConnectionFailed, ServiceRefusal) as error:
            busy = isinstance(error, ServiceRefusal) and error.status == 429
            over = clock.is_over if busy else not service.is_away(error) or time.monotonic() > end
            if over:
                raise
            tell("waiting until the service has time" if busy else "waiting until the service answers")
        time.sleep(jittered(_BUSY))
