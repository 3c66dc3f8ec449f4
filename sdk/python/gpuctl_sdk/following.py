"""Following a log by WebSocket, each line once however often the connection breaks."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from gpuctl_sdk.answer import Answer
from gpuctl_sdk.calls import given, segment
from gpuctl_sdk.errors import Forbidden, GpuctlError, ServiceError, UnexpectedAnswer
from gpuctl_sdk.exchange import Exchange, error_of, unreachable
from gpuctl_sdk.retrying import AGAIN

PROTOCOL = "gpuctl.logs.v1"
ENDED, NOT_ALLOWED, FAILED = 1000, 1008, 1011
"""How the service closes a connection that is not to be made again."""
LATEST = timedelta(seconds=60)
"""How much later than others a line may come that was printed before them."""
_BROKEN = (OSError, ConnectionClosed, InvalidHandshake, EOFError)


class LogLine(Answer):
    """A line of a log, and whose it is. ``timestamp`` is when it was printed, to the nanosecond."""

    pod: str
    container: str
    timestamp: str
    text: str


class LogWish(NamedTuple):
    """Which lines of which job."""

    job: str
    tail: int | None = None
    since: str | None = None
    grep: str | None = None
    pod: str | None = None
    container: str | None = None
    namespace: str | None = None


class LogPlace:
    """How far a log was read: of each container when the newest line was printed, and how many lines then."""

    def __init__(self, wish: LogWish) -> None:
        self._wish = wish
        self._read: dict[tuple[str, str], tuple[str, int]] = {}
        self._again: dict[tuple[str, str], tuple[str, int]] = {}
        self._oldest = ""

    def query(self) -> dict[str, Any]:
        """What is asked for now: at first what was wished, later what may not have come yet."""
        wish = self._wish
        rest = {"grep": wish.grep, "pod": wish.pod, "container": wish.container, "namespace": wish.namespace}
        self._again = {}
        if not self._read:
            return given({"follow": "true", "tail": wish.tail, "since": wish.since, **rest})
        newest = _moment(max(stamp for stamp, _ in self._read.values()))
        since = max(newest - LATEST, _moment(self._oldest))
        return given({"follow": "true", "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"), **rest})

    def takes(self, line: LogLine) -> bool:
        """Whether a line is new. A container's lines come in their order."""
        place = (line.pod, line.container)
        stamp = _sortable(line.timestamp)
        before, number = self._again.get(place, ("", 0))
        self._again[place] = (stamp, number + 1 if stamp == before else 1)
        if self._again[place] <= self._read.get(place, ("", 0)):
            return False
        self._read[place] = self._again[place]
        self._oldest = min(self._oldest or stamp, stamp)
        return True


def _sortable(stamp: str) -> str:
    """A time that sorts as text: fractions may have any number of digits."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<9}"


def _moment(stamp: str) -> datetime:
    return datetime.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)


class _Following:
    """What both ways of following have in common: where to connect to, and what becomes of what breaks."""

    def __init__(self, exchange: Exchange, wish: LogWish, timeout: float, verify: ssl.SSLContext | bool) -> None:
        self._exchange = exchange
        self._timeout = timeout
        self._verify = verify
        self._place = LogPlace(wish)
        self._path = f"/jobs/{segment(wish.job)}/logs"
        self._failures = 0
        self._closed = False

    def _target(self) -> dict[str, Any]:
        url = f"{self._exchange.url}{self._path}?{urlencode(self._place.query())}"
        target: dict[str, Any] = {
            "uri": "ws" + url.removeprefix("http"),
            "additional_headers": self._exchange.authorization(),
            "subprotocols": [PROTOCOL],
            "open_timeout": self._timeout,
            "max_size": None,
            # The library's own logger writes headers, and with them the token.
            "logger": logging.Logger("gpuctl_sdk.websocket", logging.CRITICAL),
        }
        if url.startswith("https"):
            context = ssl.create_default_context() if isinstance(self._verify, bool) else self._verify
            if self._verify is False:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            target["ssl"] = context
        return target

    def _line(self, frame: str | bytes) -> LogLine | None:
        """A line that is new."""
        try:
            line = LogLine.model_validate_json(frame)
            is_new = self._place.takes(line)
        except ValueError:
            raise UnexpectedAnswer(f"{self._path}: what comes are no lines of a log") from None
        self._failures = 0
        return line if is_new else None

    def _pause(self, error: BaseException) -> float | None:
        """How long to wait before connecting again, in seconds; None: the log has ended.

        :raises GpuctlError: it is not to be connected again.
        """
        if self._closed:
            return None
        if isinstance(error, ConnectionClosed) and error.rcvd is not None:
            if error.rcvd.code == ENDED:
                return None
            if error.rcvd.code == NOT_ALLOWED:
                raise Forbidden(403, "Forbidden", error.rcvd.reason) from None
            if error.rcvd.code == FAILED:
                raise ServiceError(500, "InternalError", error.rcvd.reason) from None
        if isinstance(error, InvalidStatus):
            response = error.response
            if response.status_code not in AGAIN:
                headers = {name.lower(): value for name, value in response.headers.raw_items()}
                raise error_of(response.status_code, headers, bytes(response.body or b"")) from None
        self._failures += 1
        if self._failures >= self._exchange.retrying.attempts:
            raise self._gave_up(error) from None
        return self._exchange.retrying.after(self._failures)

    def _gave_up(self, error: BaseException) -> GpuctlError:
        if isinstance(error, InvalidStatus):
            return error_of(error.response.status_code, {}, bytes(error.response.body or b""))
        return unreachable(self._exchange.url, error)


class Logs(_Following):
    """The lines of a log, as they come; iterate it once. A context manager, which closes the connection."""

    _socket: ClientConnection | None = None

    def __iter__(self) -> Iterator[LogLine]:
        while not self._closed:
            try:
                with connect(**self._target()) as self._socket:
                    while True:
                        line = self._line(self._socket.recv())
                        if line is not None:
                            yield line
            except _BROKEN as error:
                pause = self._pause(error)
                if pause is None:
                    return
                time.sleep(pause)

    def __enter__(self) -> Logs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, from any thread."""
        self._closed = True
        if self._socket is not None:
            self._socket.close()


class AsyncLogs(_Following):
    """As :class:`Logs`, for asyncio."""

    _socket: AsyncConnection | None = None

    async def __aiter__(self) -> AsyncIterator[LogLine]:
        while not self._closed:
            try:
                async with connect_async(**self._target()) as self._socket:
                    while True:
                        line = self._line(await self._socket.recv())
                        if line is not None:
                            yield line
            except _BROKEN as error:
                pause = self._pause(error)
                if pause is None:
                    return
                await asyncio.sleep(pause)

    async def __aenter__(self) -> AsyncLogs:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End it."""
        self._closed = True
        if self._socket is not None:
            await self._socket.close()
