"""Reading lines from before the recent ones that a channel keeps."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import copy_context
from functools import partial

from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.logs.log_streams import ContainerLog, LogOptions, MergedLogs
from gpuctl_server.logs.follower import LogSubscription
from gpuctl_server.logs.log_entries import BEGINNING, AfterPosition, LogEntries, LogEntry, LogPosition

_PORTION = 200
_PORTION_BYTES = 64 * 1024
_AHEAD = 4
"""Number of portions that are read ahead."""
_PATIENCE = 30.0
"""Seconds that the client may take to receive a portion."""
_SECOND = 1_000_000_000


class ReaderTooSlow(Exception):
    """The client does not receive the lines in time."""


class PastLines:
    """One reading of past lines, in a thread, as fast as the client receives them."""

    def __init__(self, connection: Connection, logs: Mapping[bytes, ContainerLog], follower: LogSubscription) -> None:
        self._connection = connection
        self._logs = dict(logs)
        self._positions = dict(follower.positions)
        self._selection = follower.selection
        self._whole = follower.whole
        self._loop = asyncio.get_running_loop()
        self._portions: asyncio.Queue[list[LogEntry] | BaseException | None] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._abandoned = False

    async def entries(self, readings: asyncio.Semaphore) -> AsyncGenerator[LogEntry, None]:
        """Yield all lines, ordered by time.

        :param readings: limits the number of threads; one that waits for a kubelet may outlive this reading.
        :raises ReaderTooSlow: the client did not receive them in time.
        :raises ClusterError: the lines cannot be read.
        """
        await readings.acquire()
        # The process may end while it waits for a kubelet.
        work = (self._work, readings.release)
        threading.Thread(target=copy_context().run, args=work, daemon=True, name="gpuctl-history").start()
        try:
            while (portion := await self._portions.get()) is not None:
                if isinstance(portion, BaseException):
                    raise portion
                for entry in portion:
                    yield entry
                self._room.release()
        finally:
            self._abandoned = True
            self._room.release()

    def _work(self, done: Callable[[], None]) -> None:
        session = Session(self._connection, threads=4)
        result: BaseException | None = None
        try:
            self._read(session)
        except Exception as error:
            # Raised again by the coroutine that waits for the lines.
            result = error
        finally:
            session.close()
        self._send(result)
        self._call(done)

    def _read(self, session: Session) -> None:
        sources: dict[ContainerLog, tuple[LogEntries, AfterPosition]] = {}
        for key, log in self._logs.items():
            if self._selection.uid not in (None, log.pod["metadata"]["uid"]):
                continue
            position = self._positions.get(key) or self._selection.position_in(key)
            source = ContainerLog(session, log.pod, log.container, self._wanted(position, log.container))
            sources[source] = (LogEntries(source), AfterPosition(position or BEGINNING))
        portion: list[LogEntry] = []
        size = 0
        for source, lines in MergedLogs(session, list(sources)).batches():
            made, after = sources[source]
            for entry in made.of(lines):
                if after.takes(entry):
                    portion.append(entry)
                    size += entry.size
                if len(portion) >= _PORTION or size >= _PORTION_BYTES:
                    self._hand_over(portion)
                    portion, size = [], 0
        self._hand_over(portion)

    def _wanted(self, position: LogPosition | None, container: str) -> LogOptions:
        if position == BEGINNING or (position is None and self._whole):
            return LogOptions(container=container)
        if position is not None:
            # One second earlier, because standard output and standard error are not strictly in order.
            return LogOptions(since_time=_stamp(position.time - _SECOND), container=container)
        since = None if self._selection.since is None else _stamp(self._selection.since)
        return LogOptions(self._selection.tail, since_time=since, container=container)

    def _hand_over(self, portion: list[LogEntry]) -> None:
        end = time.monotonic() + _PATIENCE
        while not self._room.acquire(timeout=0.5):
            if time.monotonic() > end:
                raise ReaderTooSlow
        if self._abandoned:
            raise ReaderTooSlow
        self._send(portion)

    def _send(self, message: list[LogEntry] | BaseException | None) -> None:
        self._call(partial(self._portions.put_nowait, message))

    def _call(self, function: Callable[[], None]) -> None:
        # The loop is closed when the service has ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)


def _stamp(nanoseconds: int) -> str:
    return format_timestamp(max(0, nanoseconds) // _SECOND)
