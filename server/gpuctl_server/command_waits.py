"""What the command line waits for, and follows, as a client."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.run.wait_running import NotRunning, wait_until_running
from gpuctl.objects.api_resources import WORKLOADS, Key
from gpuctl.reading.find import Absent, find_job
from gpuctl.reading.job_rows import job_row, labels
from gpuctl.reading.wait_until import WaitedJob, WaitResult, deleted_already, wait_on, waited_job
from gpuctl.usecases.applying import explaining
from gpuctl.usecases.job_logs import JobLogs, LogQuery
from gpuctl.usecases.service_logs import ToldBeginning
from gpuctl.usecases.service_waits import ToldRunning, ToldWait
from gpuctl_server.access.rights import Wish
from gpuctl_server.command_changes import refusal_of
from gpuctl_server.command_line import Asked, found_job
from gpuctl_server.log_values import begins_at
from gpuctl_server.logs.follower import Wishes
from gpuctl_server.logs.log_channel import LogAddress
from gpuctl_server.lookups import demand
from gpuctl_server.problems import Problem
from gpuctl_server.service import Service

LONGEST = 60.0
"""Seconds for which a request may wait."""
_ANSWERS = 20.0
"""Seconds more that the API server has for answering."""


class _Pause(Exception):
    """Whoever waits is to be told how far it is, and to ask again."""


class FollowedByName(NamedTuple):
    """A log that somebody has named: whose it is, where it comes from, what is wanted of it, which right it takes."""

    beginning: ToldBeginning
    address: LogAddress
    wishes: Wishes
    wish: Wish


class _Told:
    """Hears what is being waited for, and ends that when it has taken long enough, or the service ends.

    ``said`` is the last that was heard.
    """

    def __init__(self, service: Service, within: float, is_enough: Callable[[], bool]) -> None:
        self._service = service
        self._end = time.monotonic() + within
        self._is_enough = is_enough
        self.said = ""

    def __call__(self, text: str) -> None:
        """Once in a while while something is waited for.

        :raises _Pause: it is enough.
        :raises Problem: 503.
        """
        self.said = text
        if self._service.writes.is_ending():
            raise Problem(503, "the service is being stopped")
        if self._is_enough() or time.monotonic() >= self._end:
            raise _Pause


def wait_for_jobs(
    asked: Asked,
    names: list[str],
    known: list[WaitedJob],
    condition: str,
    timeout: float | None,
    left: float | None,
    within: float,
) -> ToldWait:
    """Wait for a while until jobs are in a condition.

    :param names: those that are new; ``known`` were found before.
    :param timeout: seconds for all questions together, of which some are ``left``; ``within`` is for this one.
    """
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    results: list[WaitResult] = []
    waiting = {item.name: item for item in known}
    for name in names:
        try:
            job = found_job(asked, name)
        except Absent:
            if condition != "deleted":
                raise
            results.append(deleted_already(name))
            continue
        if job.identity not in {item.identity for item in waiting.values()}:
            waiting[name] = waited_job(name, job)
    for item in waiting.values():
        demand(asked.caller, Wish("get", "jobs", item.identity.namespace))
    deadline = None if left is None else time.monotonic() + left
    within = min(within, LONGEST)
    tell = _Told(asked.service, within, lambda: bool(results))
    with (
        asked.service.weighing(asked.caller, asked.namespace) as reader,
        reader.scope.session.within(within + _ANSWERS),
    ):
        try:
            jobs = wait_on(
                reader.scope, waiting.values(), condition, reader.keys, reader.settings, (deadline, timeout), tell
            )
            for result in jobs:
                results.append(result)
                del waiting[result.name]
        except _Pause:
            pass
    return ToldWait(results, list(waiting.values()), tell.said)


def wait_until_applied_runs(
    asked: Asked, waiting: list[Key], timeout: float, left: float | None, within: float
) -> ToldRunning:
    """Wait for a while until workloads run."""
    for key in waiting:
        demand(asked.caller, Wish("get", "jobs", key.namespace))
        if key.kind not in WORKLOADS or not key.namespace:
            raise Problem(400, f"{key} is nothing that runs")
    plan = Plan([Step("update", key) for key in waiting])
    tell = _Told(asked.service, min(within, LONGEST), lambda: False)
    with asked.service.weighing(asked.caller) as reader:
        session = reader.scope.session
        explain = explaining(session, reader.keys, reader.settings)
        try:
            wait_until_running(session, plan, reader.keys, timeout, tell, explain, left)
        except _Pause:
            return ToldRunning(tell.said, None)
        except NotRunning as error:
            return ToldRunning("", refusal_of(error))
    return ToldRunning("", None)


def followed_by_name(asked: Asked, name: str, query: LogQuery) -> FollowedByName:
    """The log of the job that a name means.

    :raises NotThere: there is no such job, pod or container.
    """
    demand(asked.caller, Wish("get", "logs", asked.namespace))
    job, pod = find_job(asked.scope, name, asked.reader.keys)
    identity = job.identity
    row = job_row(job, labels(asked.service.platform, asked.service.keys))
    wish = Wish("get", "logs", identity.namespace, row.pool)
    demand(asked.caller, wish)
    reference = f"{identity.kind}/{identity.object_name}" if job.workload is not None else name
    with asked.service.looking(None, identity.namespace) as reader:
        logs = JobLogs(reader, reference, replace(query, pod=query.pod or pod))
        logs.check_container()
    wanted = query.wanted(follow=True)
    wishes = Wishes(wanted.tail, begins_at(query), logs.only)
    beginning = ToldBeginning(identity, logs.pods)
    return FollowedByName(beginning, LogAddress(identity.namespace, reference, query.container), wishes, wish)
