"""Logs that the service follows for the command line: each line once, also while the service is replaced."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from urllib3.exceptions import HTTPError

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.kube.http_client import Reply, failure_text
from gpuctl.kube.pauses import after
from gpuctl.reading.following import Notice
from gpuctl.reading.job_rows import Identity
from gpuctl.reading.log_streams import LogProblem
from gpuctl.reading.loglines import LogLine
from gpuctl.usecases.job_logs import LogQuery, ToldBatch, ToldSource
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.service_client import OUTAGE, ServiceClient, ServiceRefusal
from gpuctl.usecases.wire import NotOfThisForm, decode, encode

_TICK = 0.3
_MOST_WAITING = 256
_ENDED, _REVOKED, _FAILED = 1000, 1008, 1011


class ToldBeginning(NamedTuple):
    """Whose log is followed, and which pods of it there are at the beginning."""

    job: Identity
    pods: set[str]


class _Event(NamedTuple):
    """One of the Server-Sent Events: ``mark`` says how far a client that has it has come, "" where it does not."""

    name: str
    data: str
    mark: str


class LogsByService:
    """As :class:`~gpuctl.usecases.job_logs.FollowedLogs`, read from a service. ``job`` is whose they are."""

    def __init__(self, reader: Reader, name: str, query: LogQuery) -> None:
        """:raises ClusterError: there is no such job or pod, or several; the service fails."""
        assert reader.service is not None
        self._service: ServiceClient = reader.service
        self._body: dict[str, Any] = {
            "namespace": reader.scope.namespace,
            "arguments": encode({"name": name, "query": query}),
            "last": "",
        }
        self._heard: queue.Queue[_Event | ClusterError | None] = queue.Queue(_MOST_WAITING)
        self._stopped = threading.Event()
        self._failures = 0
        self._until = 0.0
        self._away: ClusterError | None = None
        self._notice = ""
        try:
            self.job, self.pods = self._connect()
        except (NotOfThisForm, ValueError, KeyError):
            raise self._service.stranger("answered with something else than a log") from None

    def past(self) -> Iterator[ToldBatch]:
        """What they have printed so far comes with :meth:`items`."""
        return iter(())

    def waiting_for(self) -> str:
        """The service does not tell what is waited for."""
        return ""

    def items(self) -> Iterator[ToldBatch | Notice | LogProblem | None]:
        """What comes, until the job has ended or the caller stops; None when nothing has come for a moment.

        :raises ClusterError: the service fails, or stays away.
        """
        threading.Thread(target=self._listen, daemon=True, name="gpuctl-follow").start()
        try:
            while True:
                try:
                    heard = self._heard.get(timeout=_TICK)
                except queue.Empty:
                    yield None
                    continue
                if heard is None:
                    return
                if isinstance(heard, ClusterError):
                    raise heard
                yield from self._told(heard)
        finally:
            self._stopped.set()
            self._reply.abort()

    def _told(self, event: _Event) -> Iterator[ToldBatch | Notice | LogProblem]:
        value = json.loads(event.data)
        if event.name == "message":
            line = LogLine(value["timestamp"], value["text"].encode("utf-8", "replace"))
            yield ToldBatch(ToldSource(value["pod"], value["container"]), [line])
        elif event.name == "notice":
            self._notice = value["message"]
            yield Notice(value["message"])
        elif event.name == "problem":
            yield LogProblem(value["pod"] or "", value["message"])
        elif event.name == "end" and value["reason"] != self._notice:
            yield Notice(value["reason"])

    def _listen(self) -> None:
        """Hear everything, through as many connections as it takes, up to the end."""
        try:
            closing = self._hear()
            while (code := _code(closing)) not in (_ENDED, _REVOKED, _FAILED) and not self._stopped.is_set():
                closing = self._hear_again(closing)
            if code == _REVOKED:
                raise self._service.refused_token()
            if code == _FAILED:
                raise _refusal(closing)
            self._pass_on(closing)
            self._pass_on(None)
        except ClusterError as error:
            self._pass_on(error)
        except (ValueError, KeyError, TypeError):
            self._pass_on(self._service.stranger("answered with something else than a log"))

    def _hear(self) -> _Event | None:
        """What a connection has, up to the event that ends it; None where that did not come."""
        with contextlib.suppress(HTTPError):
            for event in self._stream:
                if event.name == "end":
                    return event
                self._failures = 0
                self._body["last"] = event.mark or self._body["last"]
                self._pass_on(event)
        return None

    def _hear_again(self, closing: _Event | None) -> _Event | None:
        """The same by another connection, which goes on where the last one was.

        :raises ClusterError: there is none for too long.
        """
        now = time.monotonic()
        if not self._failures:
            self._until = now + OUTAGE
        elif now > self._until:
            raise self._away if closing is None and self._away is not None else _refusal(closing)
        self._failures += 1
        time.sleep(after(self._failures))
        try:
            self._connect()
        except ClusterError as error:
            busy = isinstance(error, ServiceRefusal) and error.status == 429
            if not busy and not self._service.is_away(error):
                raise
            self._away = error
            return None
        return self._hear()

    def _connect(self) -> ToldBeginning:
        """Ask for what comes after what was heard; whose log it is.

        :raises ClusterError: the service refuses it, or does not answer.
        """
        self._reply = self._service.open("/command-line/follow-logs", self._body)
        self._stream = _events(self._reply)
        try:
            event = next(self._stream, None)
            if event is None or event.name != "begin":
                raise self._service.stranger("answered with something else than a log")
            return decode(ToldBeginning, json.loads(event.data))
        except HTTPError as error:
            raise ConnectionFailed(f"{self._service.url} cannot be reached: {failure_text(error)}") from None

    def _pass_on(self, item: _Event | ClusterError | None) -> None:
        """Hand over, unless nobody wants it any more."""
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._heard.put(item, timeout=0.5)
                return


def _refusal(closing: _Event | None) -> ServiceRefusal:
    reason = "the service did not say why it ended" if closing is None else str(json.loads(closing.data)["reason"])
    return ServiceRefusal(503, "ServiceUnavailable", f"the log cannot be followed: {reason}")


def _code(closing: _Event | None) -> int | None:
    return None if closing is None else int(json.loads(closing.data)["code"])


def _events(reply: Reply) -> Iterator[_Event]:
    """The events of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html, as the service has them).

    :raises HTTPError: it broke off.
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
                    yield _Event(name, "\n".join(data), mark)
                name, mark, data = "message", "", []
