"""Logs as the REST API returns them: the objects of ``gpuctl logs -o json``, and the plain texts of the lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

from starlette.responses import JSONResponse, Response

from gpuctl.api.log_answers import log_end, log_event, log_line, log_problem
from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.language.sentences import say
from gpuctl.objects.durations import parse_duration
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.logs.log_parsing import instant
from gpuctl.reading.logs.log_streams import NoLog
from gpuctl.usecases.queries.job_logs import JobLogs, LogQuery
from gpuctl_server.access.caller import Caller
from gpuctl_server.http.heavy_requests import long_log_slot
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.time_parameters import InvalidTime, parse_time
from gpuctl_server.logs.follower import HAS_ENDED
from gpuctl_server.logs.log_channel import AWAY, FAILED
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service_context import Service

DEFAULT_TAIL = 100
LONGEST_TAIL = 100_000
LARGEST = 16 * 1024 * 1024
"""Maximum size of an answer, bytes. Counted are the texts and a constant for the rest of each line."""
_AROUND = 200
_LONG = 10_000
"""Number of lines from which the logs of a job count as long."""
_PORTION = 64 * 1024
"""Number of characters of events that are sent at once."""


class LogFilter(NamedTuple):
    """The requested lines. ``grep`` is a text that a line must contain."""

    query: LogQuery
    grep: str = ""


def since(text: str) -> dict[str, Any]:
    """Return the parameter ``since`` as arguments of :class:`LogQuery`: a duration or a time.

    :raises Problem: 400.
    """
    if not text:
        return {}
    seconds = parse_duration(text)
    if seconds:
        return {"since_seconds": seconds}
    try:
        return {"since_time": format_timestamp(parse_time(text))}
    except InvalidTime:
        raise Problem(
            400,
            say(
                "since: `{text}` is neither a duration such as 10m or 1h30m nor a time such as 2024-06-01T10:00:00Z",
                text=text[:80],
            ),
            error="InvalidRequest",
        ) from None


def begins_at(query: LogQuery, now: float) -> int | None:
    """Return the time of the first requested line, nanoseconds since 1970; None without a limit.

    :param now: by the clock of the API server: those of the nodes, which date the lines, are not known.
    """
    if query.since_seconds is not None:
        return int((now - query.since_seconds) * 1_000_000_000)
    return instant(query.since_time) if query.since_time else None


def named_pod(item: ListedJob, text: str) -> str | None:
    """Return the pod that a path names; None if it names the job."""
    identity = item.row.identity
    return None if text in (item.id, identity.name, identity.object_name) else text


def logs_answer(service: Service, caller: Caller, item: ListedJob, log_filter: LogFilter) -> Response:
    """Return the answer with the current logs.

    :raises ConnectionFailed: the API server cannot be reached, and no line was read.
    :raises Problem: 429 if too many long logs are being read.
    """
    tail = log_filter.query.tail
    is_long = tail is None or tail * len(item.job.pods) > _LONG
    with long_log_slot(service) if is_long else nullcontext():
        # Encoded in this thread, not on the event loop: there may be a hundred thousand lines.
        return JSONResponse(_present_logs(service, caller, item, log_filter))


def _present_logs(service: Service, caller: Caller, item: ListedJob, log_filter: LogFilter) -> dict[str, Any]:
    """Return the current logs. The service reads them with its own rights: those of the caller were checked before.
    Pods of a newer job of the same name are left out if the caller may not see them.

    :raises ConnectionFailed: the API server cannot be reached, and no line was read.
    """
    with service.read_context(caller, item.row.identity.namespace) as reader:
        try:
            logs = JobLogs(reader, item.reference, log_filter.query).present()
        except NoLog as error:
            return _value([], [{"pod": None, "message": error.message}])
        found = _Newest()
        for batch in logs.batches():
            for line in batch.lines:
                value = log_line(batch.source.name, batch.source.container, line)
                if log_filter.grep in value["text"]:
                    found.add(value)
    away = next((problem for problem in logs.problems if problem.is_outage), None)
    if away is not None and not found.lines:
        raise ConnectionFailed(away.message)
    problems = log_end(None, (*logs.problems, *logs.missing))["problems"]
    return _value(list(found.lines), [*problems, *found.problems()])


def present_events(service: Service, caller: Caller, item: ListedJob, log_filter: LogFilter) -> Iterator[str]:
    """Yield all lines as Server-Sent Events, between ``begin`` and ``end``, with problems after the lines.

    :raises ClusterError: the logs cannot be read; only before the first event.
    :raises NoLog: the job has no log.
    """
    is_begun = False
    try:
        for portion in _portions(service, caller, item, log_filter):
            yield portion
            is_begun = True
    except ClusterError as error:
        if not is_begun:
            raise
        code = AWAY if isinstance(error, ConnectionFailed) else FAILED
        yield event("end", {"code": code, "reason": error.message})


def _portions(service: Service, caller: Caller, item: ListedJob, log_filter: LogFilter) -> Iterator[str]:
    with service.read_context(caller, item.row.identity.namespace) as reader:
        logs = JobLogs(reader, item.reference, log_filter.query).present()
        found = [event("begin", {"pods": sorted(logs.pods), "missing": list(map(log_problem, logs.missing))})]
        size = 0
        for batch in logs.batches():
            for line in batch.lines:
                value = log_event(batch.source.name, batch.source.container, line)
                if log_filter.grep in value["text"]:
                    found.append(event("", value))
                    size += len(found[-1])
            if size > _PORTION:
                yield "".join(found)
                found, size = [], 0
        found += [event("problem", log_problem(problem)) for problem in logs.problems]
        yield "".join([*found, event("end", {"code": HAS_ENDED, "reason": say("these are all lines")})])


def event(name: str, value: dict[str, Any]) -> str:
    """Return a Server-Sent Event. Events of lines have no name."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _value(lines: list[dict[str, Any]], problems: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "logs": [line["text"] for line in lines],
        "lastTimestamp": lines[-1]["timestamp"] if lines else None,
        "lines": lines,
        "problems": problems,
    }


class _Newest:
    """The newest lines, limited to the size of an answer."""

    def __init__(self) -> None:
        self.lines: deque[dict[str, Any]] = deque()
        self._size = 0
        self._lost = 0

    def add(self, value: dict[str, Any]) -> None:
        self.lines.append(value)
        # The answer has the text twice.
        self._size += 2 * len(value["text"]) + _AROUND
        while self._size > LARGEST and len(self.lines) > 1:
            self._size -= 2 * len(self.lines.popleft()["text"]) + _AROUND
            self._lost += 1

    def problems(self) -> list[dict[str, Any]]:
        if not self._lost:
            return []
        text = say(
            "the oldest {lines} lines are left out: an answer has at most {most} MiB; use pod, since, grep or a "
            "smaller tail",
            lines=self._lost,
            most=LARGEST // 2**20,
        )
        return [{"pod": None, "message": text}]
