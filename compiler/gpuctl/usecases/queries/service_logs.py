"""Logs from the REST API: each line once, even if the service is replaced."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from urllib3.exceptions import HTTPError

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.kube.backoff import delay_after
from gpuctl.kube.http_client import Reply, failure_text
from gpuctl.kube.scope import Scope
from gpuctl.reading.logs.log_follower import Notice
from gpuctl.reading.logs.log_parsing import LogLine
from gpuctl.reading.logs.log_streams import LogProblem
from gpuctl.reading.logs.log_tail import put_unless_stopped
from gpuctl.usecases.queries.job_logs import LogQuery
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.service.service_client import OUTAGE_PATIENCE, ServiceClient, ServiceRefusal
from gpuctl.usecases.service.service_find import ServiceJob, job_of_service

_TICK = 0.3
_MOST_WAITING = 256
_ENDED, _REVOKED, _FAILED = 1000, 1008, 1011
_ALWAYS = "1970-01-01T00:00:00Z"
"""With `since` and without `tail` the service returns all lines since then."""
_OTHER_FORM = (ValueError, KeyError, TypeError, AttributeError)
"""Exceptions for an event in an unexpected form."""
_NO_LOG = "did not return a log"


class ServiceSource(NamedTuple):
    """The pod and container that lines come from."""

    name: str
    container: str


class ServiceBatch(NamedTuple):
    """Lines of one source, in its order."""

    source: ServiceSource
    lines: list[LogLine]


class _Event(NamedTuple):
    """A Server-Sent Event. ``mark`` is its id, the position to resume from; "" for none."""

    name: str
    value: Mapping[str, Any]
    mark: str


class PresentServiceLogs:
    """The present lines of a job's logs, read from a service; used like ``MergedLogs``."""

    def __init__(self, reader: ReadContext, name: str, query: LogQuery) -> None:
        """:raises ClusterError: no job, pod or log matches, or several do; or the service fails."""
        assert reader.service is not None
        self._service: ServiceClient = reader.service
        found = job_of_service(reader.service, reader.scope, name)
        self.job = found.identity
        reply = self._service.open(_path(found), _parameters(query, found, follow=False))
        self._events = self._read(reply)
        try:
            begin = next(event for event in self._events if event.name == "begin")
            self.pods = set(map(str, begin.value["pods"]))
            self.missing = [_problem(item) for item in begin.value["missing"]]
        except (*_OTHER_FORM, StopIteration):
            raise self._service.not_a_service(_NO_LOG) from None
        self.problems: list[LogProblem] = []

    def batches(self) -> Iterator[ServiceBatch]:
        """Yield the lines in order of time.

        :raises ClusterError: the service fails before the last line.
        """
        try:
            for event in self._events:
                if event.name == "message":
                    yield _batch(event)
                elif event.name == "problem":
                    self.problems.append(_problem(event.value))
                elif event.name == "end":
                    if _code(event) != _ENDED:
                        raise _refusal(event, "read")
                    return
        except _OTHER_FORM:
            raise self._service.not_a_service(_NO_LOG) from None
        raise _refusal(None, "read")

    def _read(self, reply: Reply) -> Iterator[_Event]:
        try:
            yield from _events(reply)
        except HTTPError as error:
            raise ConnectionFailed(f"{self._service.url} cannot be reached: {failure_text(error)}") from None
        finally:
            reply.close()


class FollowedServiceLogs:
    """The lines of a job that is followed through a service; used like ``FollowedLogs``."""

    def __init__(self, reader: ReadContext, name: str, query: LogQuery) -> None:
        """:raises ClusterError: no job or pod matches, or several do; or the service fails."""
        assert reader.service is not None
        self._service: ServiceClient = reader.service
        self._found = job_of_service(reader.service, reader.scope, name)
        self.job = self._found.identity
        self._parameters = _parameters(query, self._found, follow=True)
        self._scope = Scope(reader.scope.session, self.job.namespace)
        self._last = ""
        self._arrived: queue.Queue[_Event | ClusterError | None] = queue.Queue(_MOST_WAITING)
        self._stopped = threading.Event()
        self._failures = 0
        self._until = 0.0
        self._away: ClusterError | None = None
        self._notice = ""
        self.pods: set[str] = set()
        if not self._parameters["pod"]:
            with self._service.reading() as get:
                self.pods.update(get(f"/jobs/{self._found.id}")["k8sResources"]["pods"])
        self._reply = self._service.open(_path(self._found), self._parameters)

    def past(self) -> Iterator[ServiceBatch]:
        """Yield nothing: the lines so far come with :meth:`items`."""
        return iter(())

    def waiting_for(self) -> str:
        """Return "": the service does not report what is awaited."""
        return ""

    def items(self) -> Iterator[ServiceBatch | Notice | LogProblem | None]:
        """Yield lines, notices and problems until the job has ended or the caller stops; None at intervals without any.

        :raises ClusterError: the service fails, or does not come back.
        """
        threading.Thread(target=self._listen, daemon=True, name="gpuctl-follow").start()
        try:
            while True:
                try:
                    item = self._arrived.get(timeout=_TICK)
                except queue.Empty:
                    yield None
                    continue
                if item is None:
                    return
                if isinstance(item, ClusterError):
                    raise item
                yield from self._items_of(item)
        except _OTHER_FORM:
            raise self._service.not_a_service(_NO_LOG) from None
        finally:
            self._stopped.set()
            self._reply.abort()

    def _items_of(self, event: _Event) -> Iterator[ServiceBatch | Notice | LogProblem]:
        if event.name == "message":
            yield _batch(event)
        elif event.name == "notice":
            self._notice = event.value["message"]
            yield Notice(self._notice)
        elif event.name == "problem":
            yield _problem(event.value)
        elif event.name == "end" and event.value["reason"] != self._notice:
            yield Notice(event.value["reason"])

    def _listen(self) -> None:
        """Read all events to the end, reconnecting as needed."""
        try:
            closing = self._read()
            while (code := _code(closing)) not in (_ENDED, _REVOKED, _FAILED) and not self._stopped.is_set():
                closing = self._read_on(closing)
            if code == _REVOKED:
                raise self._service.refused_token()
            if code == _FAILED:
                raise _refusal(closing, "followed")
            self._pass_on(closing)
            self._pass_on(None)
        except ClusterError as error:
            self._pass_on(error)
        except _OTHER_FORM:
            self._pass_on(self._service.not_a_service(_NO_LOG))

    def _read(self) -> _Event | None:
        """Pass on the events of a connection. Return its final event; None if the connection broke."""
        with contextlib.suppress(HTTPError):
            for event in _events(self._reply):
                if event.name == "end":
                    return event
                self._failures = 0
                self._last = event.mark or self._last
                self._pass_on(event)
        return None

    def _read_on(self, closing: _Event | None) -> _Event | None:
        """Reconnect where the last connection ended, and pass on its events.

        :raises ClusterError: no connection succeeds for a minute.
        """
        now = time.monotonic()
        if not self._failures:
            self._until = now + OUTAGE_PATIENCE
        elif now > self._until:
            raise self._away if closing is None and self._away is not None else _refusal(closing, "followed")
        self._failures += 1
        time.sleep(delay_after(self._failures))
        try:
            self._reply = self._open_again()
        except ClusterError as error:
            if not self._service.is_busy(error) and not self._service.is_away(error):
                raise
            self._away = error
            return None
        return self._read()

    def _open_again(self) -> Reply:
        """Open the stream after the last event, also for a job that was recreated under its name.

        :raises ClusterError: the service returns an error, or does not respond.
        """
        try:
            return self._service.open(_path(self._found), self._parameters, self._last)
        except ServiceRefusal as error:
            if error.status != 404:
                raise
            self._found = job_of_service(self._service, self._scope, f"{self.job.kind}/{self.job.name}")
            return self._service.open(_path(self._found), self._parameters, self._last)

    def _pass_on(self, item: _Event | ClusterError | None) -> None:
        put_unless_stopped(self._arrived, item, self._stopped.is_set)


def _path(job: ServiceJob) -> str:
    return f"/jobs/{job.id}/logs"


def _parameters(query: LogQuery, job: ServiceJob, *, follow: bool) -> dict[str, str]:
    """Return the query parameters of a request; empty ones are left out."""
    wanted = query.wanted(follow=follow)
    since = wanted.since_time or ("" if wanted.since_seconds is None else f"{wanted.since_seconds}s")
    return {
        "namespace": job.identity.namespace,
        "pod": query.pod or job.pod or "",
        "container": query.container or "",
        "tail": "" if wanted.tail is None else str(wanted.tail),
        "since": since or (_ALWAYS if wanted.tail is None else ""),
        "previous": "true" if query.previous else "",
        "follow": "true" if follow else "",
    }


def _batch(event: _Event) -> ServiceBatch:
    value = event.value
    text = b64decode(value["base64"]) if "base64" in value else value["text"].encode("utf-8", "replace")
    source = ServiceSource(value["pod"], value["container"])
    return ServiceBatch(source, [LogLine(value["timestamp"], text, value.get("ends", True))])


def _problem(value: Mapping[str, Any]) -> LogProblem:
    return LogProblem(value["pod"] or "", value["message"])


def _refusal(closing: _Event | None, done: str) -> ServiceRefusal:
    reason = "the service gave no reason" if closing is None else closing.value["reason"]
    return ServiceRefusal(503, "ServiceUnavailable", f"the log cannot be {done}: {reason}")


def _code(closing: _Event | None) -> int | None:
    return None if closing is None else int(closing.value["code"])


def _events(reply: Reply) -> Iterator[_Event]:
    """Yield the events of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).

    :raises HTTPError: the stream broke.
    :raises ValueError: the data of an event are not JSON.
    """
    rest, name, mark = b"", "message", ""
    data: list[str] = []
    for portion in reply.portions():
        *lines, rest = (rest + portion).split(b"\n")
        for line in lines:
            field, _, value = line.decode("utf-8", "replace").partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                mark = value
            elif field == "data":
                data.append(value)
            elif not line:
                if data:
                    yield _Event(name, json.loads("\n".join(data)), mark)
                name, mark, data = "message", "", []
