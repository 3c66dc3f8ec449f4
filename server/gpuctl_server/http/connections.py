"""Accepts connections, and closes one when there are too many.

uvicorn accepts connections until the process has no file descriptors left. This module keeps their number below a
limit. Connections that wait for their client (TLS handshake, half a request, idle, an answer that is not read) are
closed first, beginning with the one that has waited longest. A request that is being answered is never cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Callable, Sequence, Set

_RESERVED = 512
"""File descriptors reserved for everything else: watches, logs, requests to the API server, databases."""
_RAISED_TO = 65_536
_PAUSE = 0.1
"""Seconds until the next attempt to accept a connection when the process has no file descriptor left."""


def connection_limit(wanted: int) -> int:
    """Raise the limit of open files. Return the number of connections that it permits, at most ``wanted``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _RAISED_TO if hard == resource.RLIM_INFINITY else min(hard, _RAISED_TO)
    if soft != resource.RLIM_INFINITY and soft < files:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
            soft = files
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - min(_RESERVED, soft // 2)))


class Connections:
    """Accepts connections, and keeps their number below a limit.

    :param most: the limit.
    :param handshake: timeout of a TLS handshake, seconds.
    :param established: uvicorn's set of connections that have a protocol.
    """

    def __init__(self, most: int, handshake: float, established: Set[object]) -> None:
        self._most = most
        self._handshake = handshake
        self._established = established
        self._waiting: dict[object, Callable[[], object]] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._listening: list[socket.socket] = []

    def waits(self, connection: object, close: Callable[[], object]) -> None:
        """Note that a connection waits for its client; ``close`` closes it at once."""
        self._waiting.setdefault(connection, close)

    def works(self, connection: object) -> None:
        """Note that a connection no longer waits for its client, or is closed."""
        self._waiting.pop(connection, None)

    def listen(
        self,
        sockets: Sequence[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        backlog: int,
    ) -> None:
        """Accept connections of these sockets, each with a protocol of its own."""
        for listening in sockets:
            listening.listen(backlog)
            listening.setblocking(False)
            self._listening.append(listening)
            self._resume(listening, protocol, tls)

    def stop(self) -> None:
        """Stop accepting connections. The sockets stay open."""
        loop = asyncio.get_running_loop()
        for listening in self._listening:
            loop.remove_reader(listening)
        self._listening.clear()
        for task in self._handshakes:
            task.cancel()

    def _resume(
        self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening, protocol, tls)

    def _accept(
        self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            # The process has no file descriptor left.
            if not self._close_longest_waiting():
                loop.remove_reader(listening)
                loop.call_later(_PAUSE, self._resume, listening, protocol, tls)
            return
        if len(self._established) + len(self._handshakes) >= self._most and not self._close_longest_waiting():
            connection.close()
            return
        connection.setblocking(False)
        task = loop.create_task(self._connect(connection, protocol, tls))
        self._handshakes.add(task)
        self.waits(task, task.cancel)
        task.add_done_callback(self._connected)

    async def _connect(
        self, connection: socket.socket, protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        timeout = self._handshake if tls is not None else None
        # A client that does not use TLS, rejects the certificate or disconnects is not an error of the service.
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol, connection, ssl=tls, ssl_handshake_timeout=timeout
            )

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._handshakes.discard(task)
        self.works(task)
        if not task.cancelled():
            task.exception()

    def _close_longest_waiting(self) -> bool:
        """Close the connection that has waited longest for its client. Return False if none waits."""
        connection = next(iter(self._waiting), None)
        if connection is None:
            return False
        self._waiting.pop(connection)()
        return True
