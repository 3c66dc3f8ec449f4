"""Follow a log as Server-Sent Events: each line once, however often the connection breaks."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

import httpx

from gpuctl_sdk.answer import Answer
from gpuctl_sdk.calls import Call, given, segment
from gpuctl_sdk.errors import Forbidden, GpuctlError, ServiceError, UnexpectedAnswer
from gpuctl_sdk.exchange import Exchange, error_of, unreachable
from gpuctl_sdk.retrying import RETRIED_STATUSES, is_outage_over

ENDED, NOT_ALLOWED, FAILED = 1000, 1008, 1011
"""Codes of the event `end` after which the client does not reconnect."""
SILENCE = 60.0
"""Seconds without data after which a connection counts as broken: the service sends something every 15 seconds."""
_EVENTS = "text/event-stream"


class LogLine(Answer):
    """A log line with its pod and container. ``timestamp`` has nanoseconds."""

    pod: str
    container: str
    timestamp: str
    text: str


class LogQuery(NamedTuple):
    """The job and the filters of a followed log."""

    job: str
    tail: int | None = None
    since: str | None = None
    grep: str | None = None
    pod: str | None = None
    container: str | None = None
    namespace: str | None = None


class _Broken(Exception):
    """The connection ended before the log. ``refusal``: the error response to retry, if the service sent one."""

    def __init__(self, text: str, refusal: ServiceError | None = None) -> None:
        super().__init__(text)
        self.refusal = refusal


class _Event(NamedTuple):
    """A Server-Sent Event; a comment has the name `alive`. ``mark``: its id, the position after it; empty if it has
    none.
    """

    name: str
    data: str
    mark: str


class _Events:
    """Parse the bytes of a connection into events."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def of(self, data: bytes) -> Iterator[_Event]:
        """Yield the events that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            field, _, value = line.decode("utf-8", "replace").partition(":")
            if line:
                self._fields[field] = value.removeprefix(" ")
                continue
            if "data" in self._fields:
                fields = self._fields
                yield _Event(fields.get("event", "message"), fields["data"], fields.get("id", ""))
            elif "" in self._fields:
                yield _Event("alive", "", "")
            self._fields = {}


class _Following:
    """The common part of :class:`Logs` and :class:`AsyncLogs`: requests, events, reconnecting."""

    def __init__(self, exchange: Exchange, wish: LogQuery) -> None:
        self._exchange = exchange
        self._path = f"/jobs/{segment(wish.job)}/logs"
        query = {"follow": "true", "tail": wish.tail, "since": wish.since, "grep": wish.grep, "pod": wish.pod}
        self._query = given({**query, "container": wish.container, "namespace": wish.namespace})
        self._last = ""
        self._failures = 0
        self._heard: float | None = None
        self._closed = False

    def _request(self) -> dict[str, Any]:
        """Return the request for the lines after the last one, as keyword arguments for httpx."""
        request = self._exchange.request(Call("GET", self._path, Any, query=self._query))
        request["headers"] |= {"Accept": _EVENTS, **({"Last-Event-ID": self._last} if self._last else {})}
        request["timeout"].read = max(request["timeout"].read, SILENCE)
        return request

    def _refused(self, response: httpx.Response) -> Exception:
        """Return the error for a response that is not an event stream; its body must have been read."""
        if response.is_success:
            return UnexpectedAnswer(f"{self._path}: the response is not an event stream")
        error = error_of(response.status_code, response.headers, response.content)
        return _Broken(str(error), error) if response.status_code in RETRIED_STATUSES else error

    def _line(self, event: _Event) -> LogLine | None:
        """Return the line of an event, or None for an event of another kind.

        :raises _Broken: the log continues in another connection.
        :raises GpuctlError: the log ends with an error.
        """
        try:
            if event.name == "message":
                line = LogLine.model_validate_json(event.data)
                self._failures, self._heard, self._last = 0, time.monotonic(), event.mark or self._last
                return line
            if event.name == "alive":
                # The service sends comments while there are no lines: the next break is not one more in a row.
                self._failures, self._heard = 0, time.monotonic()
            if event.name != "end":
                return None
            value = json.loads(event.data)
            code, reason = value["code"], value["reason"]
        except (ValueError, KeyError, TypeError):
            raise UnexpectedAnswer(f"{self._path}: the stream contains an event that is not a log line") from None
        if code == NOT_ALLOWED:
            raise Forbidden(403, "Forbidden", reason)
        if code == FAILED:
            raise ServiceError(500, "InternalError", reason)
        if code != ENDED:
            raise _Broken(reason)
        self._closed = True
        return None

    def _pause(self, error: Exception) -> float:
        """Return the seconds to wait before reconnecting.

        :raises GpuctlError: there are no attempts left.
        """
        self._failures += 1
        most = self._exchange.retrying.attempts
        if self._failures >= most and (most == 1 or is_outage_over(self._heard)):
            raise self._gave_up(error) from None
        return self._exchange.retrying.after(self._failures)

    def _gave_up(self, error: Exception) -> GpuctlError:
        refusal = error.refusal if isinstance(error, _Broken) else None
        return refusal or unreachable(self._exchange.url, error)


def _is_stream(response: httpx.Response) -> bool:
    return response.status_code == 200 and response.headers.get("content-type", "").startswith(_EVENTS)


def _connection(response: httpx.Response) -> Any:
    """Return the socket of a response, or None without a connection."""
    stream = response.extensions.get("network_stream")
    return None if stream is None else stream.get_extra_info("socket")


class Logs(_Following):
    """An iterator over the lines of a followed log; it can be iterated once. As a context manager it closes the
    connection.
    """

    _response: httpx.Response | None = None

    def __init__(self, http: httpx.Client, exchange: Exchange, wish: LogQuery) -> None:
        super().__init__(exchange, wish)
        self._http = http

    def __iter__(self) -> Iterator[LogLine]:
        while not self._closed:
            try:
                with self._http.stream(**self._request()) as self._response:
                    # It may have been closed while it connected.
                    if not self._closed:
                        yield from self._lines(self._response)
            except (_Broken, httpx.RequestError) as error:
                if not self._closed:
                    time.sleep(self._pause(error))

    def _lines(self, response: httpx.Response) -> Iterator[LogLine]:
        if not _is_stream(response):
            response.read()
            raise self._refused(response)
        events = _Events()
        for data in response.iter_bytes():
            for event in events.of(data):
                line = self._line(event)
                if line is not None:
                    yield line
                if self._closed:
                    return
        raise _Broken("the connection ended before the log")

    def __enter__(self) -> Logs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration, from any thread."""
        self._closed = True
        connection = None if self._response is None else _connection(self._response)
        if connection is not None:
            with suppress(OSError):
                # The TLS socket's own shutdown would discard the session that the reading thread still uses.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class AsyncLogs(_Following):
    """The asyncio counterpart of :class:`Logs`."""

    _response: httpx.Response | None = None

    def __init__(self, http: httpx.AsyncClient, exchange: Exchange, wish: LogQuery) -> None:
        super().__init__(exchange, wish)
        self._http = http

    async def __aiter__(self) -> AsyncIterator[LogLine]:
        while not self._closed:
            try:
                async with self._http.stream(**self._request()) as self._response:
                    if not self._closed:
                        async for line in self._lines(self._response):
                            yield line
            except (_Broken, httpx.RequestError) as error:
                if not self._closed:
                    await asyncio.sleep(self._pause(error))

    async def _lines(self, response: httpx.Response) -> AsyncIterator[LogLine]:
        if not _is_stream(response):
            await response.aread()
            raise self._refused(response)
        events = _Events()
        async for data in response.aiter_bytes():
            for event in events.of(data):
                line = self._line(event)
                if line is not None:
                    yield line
                if self._closed:
                    return
        raise _Broken("the connection ended before the log")

    async def __aenter__(self) -> AsyncLogs:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the iteration."""
        self._closed = True
        connection = None if self._response is None else _connection(self._response)
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
