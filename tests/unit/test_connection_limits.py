"""Limits for unauthenticated clients, tested with a real uvicorn and the service's protocols, plain and with TLS.

Clients send heads that are too large or too slow, send nothing, or do not read the answer.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gpuctl_server.http import http_protocols
from gpuctl_server.http.connections import connection_limit
from gpuctl_server.http.http_protocols import LARGEST_HEAD, MOST_HEADERS, AbortableWebSocket, LimitedHttp
from gpuctl_server.http.limited_server import LimitedServer
from support.certificates import self_signed

HEAD_TIMEOUT = 1.0
CONNECTION_LIMIT = 20
AHEAD = 9.5 * 3600
"""Seconds by which the API server's clock is ahead of the local one."""
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
LARGE_ANSWER = 8 * 1024 * 1024


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer with the length of the body; ``/large`` with a large answer, ``/early`` before the body has arrived."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "text": "hello"})
        await receive()
        return
    size, more = 0, scope["path"] != "/early"
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = b"x" * LARGE_ANSWER if scope["path"] == "/large" else str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class RunningServer:
    """A server in a thread."""

    def __init__(self, tls: tuple[Path, Path] | None) -> None:
        self.tls = tls
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        chain, key = tls or (None, None)
        config = uvicorn.Config(
            app,
            http=LimitedHttp,
            ws=AbortableWebSocket,
            ws_ping_interval=60,
            ssl_certfile=chain,
            ssl_keyfile=key,
            timeout_graceful_shutdown=5,
            log_config=None,
        )
        self.server = LimitedServer(config, CONNECTION_LIMIT, HEAD_TIMEOUT, lambda: time.time() + AHEAD)
        self._thread = threading.Thread(target=self.server.run, args=([listening],))
        self._thread.start()
        while not self.server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def connect(self, *, handshake: bool = True) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        if self.tls is None or not handshake:
            return connection
        return ssl.create_default_context(cafile=str(self.tls[0])).wrap_socket(connection, server_hostname="localhost")

    def open(self) -> int:
        """Return the number of open connections."""
        return len(self.server.server_state.connections)

    def until_open(self, number: int) -> None:
        end = time.monotonic() + 60
        while self.open() > number:
            assert time.monotonic() < end, f"{self.open()} connections stay open"
            time.sleep(0.05)

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module", params=["plain", "tls"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    tls = None if request.param == "plain" else self_signed(tmp_path_factory.mktemp("tls"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(http_protocols, "LINGER", 0.5)
        made = RunningServer(tls)
        yield made
        made.stop()


def read(connection: socket.socket) -> bytes:
    """Return all data until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while portion := connection.recv(65536):
            found += portion
    return found


def read_status(connection: socket.socket) -> int:
    """Read one answer completely; return its status."""
    return status(read_answer(connection))


def read_answer(connection: socket.socket) -> bytes:
    """Read one answer completely; return its head."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(1)
    length = int(found.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while length:
        length -= len(connection.recv(length))
    return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def refused(answer: bytes) -> tuple[int, str]:
    """Return status and error of a refusal; check that it has the form of all errors of the service."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    value = json.loads(body)
    assert set(value) == {"error", "message", "details"}
    return status(answer), value["error"]


def test_requests_within_the_limits_are_answered(running: RunningServer) -> None:
    """Keep-alive, pipelining, a chunked body, and a large head."""
    with running.connect() as connection:
        for _ in range(3):
            connection.sendall(GET + b"\r\n")
            assert read_status(connection) == 200
        connection.sendall((GET + b"\r\n") * 20 + GET + b"Connection: close\r\n\r\n")
        assert read(connection).count(b"HTTP/1.1 200") == 21
    with running.connect() as connection:
        large = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 300) for number in range(MOST_HEADERS - 3))
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + large + b"\r\n")
        for _ in range(200):
            connection.sendall(b"400\r\n" + b"b" * 1024 + b"\r\n")
        connection.sendall(b"0\r\n\r\n" + GET + b"Connection: close\r\n\r\n")
        answer = read(connection)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"\r\n\r\n204800HTTP/1.1 200" in answer
    running.until_open(0)


def test_responses_are_dated_by_the_clock_of_the_api_server(running: RunningServer) -> None:
    """Not by the local one, by which uvicorn dates them once a second."""
    dates = []
    with running.connect() as connection:
        for _ in range(12):
            connection.sendall(GET + b"\r\n")
            head = read_answer(connection)
            dates += [line[6:].decode() for line in head.split(b"\r\n") if line.lower().startswith(b"date: ")]
            time.sleep(0.1)
    ahead = [parsedate_to_datetime(date).timestamp() - time.time() for date in dates]
    assert ahead == pytest.approx([AHEAD] * 12, abs=5)


@pytest.mark.parametrize("first", [b"", GET + b"\r\n"], ids=["new", "kept alive"])
@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * (LARGEST_HEAD + 1),
        GET + b"X: " + b"a" * (LARGEST_HEAD + 1),
        GET + b"X" * (LARGEST_HEAD + 1),
        GET + b"".join(b"X-%d: a\r\n" % number for number in range(MOST_HEADERS)) + b"\r\n",
        GET + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(40)) + b"\r\n",
        GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\nX: " + b"a" * (LARGEST_HEAD + 1),
    ],
    ids=["path", "value", "name", "many", "sum", "upgrade"],
)
def test_too_large_head_gets_431(running: RunningServer, first: bytes, head: bytes) -> None:
    with running.connect() as connection:
        if first:
            connection.sendall(first)
            assert read_status(connection) == 200
        # In parts, as an attacker sends it: the parser gets a part only after the earlier ones were counted.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for start in range(0, len(head), 5000):
                connection.sendall(head[start : start + 5000])
        assert refused(read(connection)) == (431, "RequestHeaderFieldsTooLarge")
    running.until_open(0)


def test_endless_head_does_not_affect_other_clients(running: RunningServer) -> None:
    """The server drops the rest and closes the connection."""
    with running.connect() as endless:
        endless.settimeout(60)
        endless.sendall(GET + b"X: ")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(200):
                endless.sendall(b"a" * 1_000_000)
                with running.connect() as other:
                    other.sendall(GET + b"Connection: close\r\n\r\n")
                    assert status(read(other)) == 200
    running.until_open(0)


@pytest.mark.parametrize(
    "part", [b"G", GET, GET + b"X: a", b"GET / HTTP/1.1\r\n"], ids=["byte", "line", "value", "first"]
)
def test_incomplete_head_gets_408(running: RunningServer, part: bytes) -> None:
    with running.connect() as connection:
        connection.sendall(part)
        assert refused(read(connection)) == (408, "RequestTimeout")
    running.until_open(0)


@pytest.mark.parametrize("first", [b"", GET + b"\r\n"], ids=["new", "kept alive"])
def test_head_sent_byte_by_byte_gets_408(running: RunningServer, first: bytes) -> None:
    """The timeout starts at the first byte; further bytes do not extend it."""
    with running.connect() as connection:
        if first:
            connection.sendall(first)
            assert read_status(connection) == 200
        sent = 0
        connection.settimeout(HEAD_TIMEOUT / 10)
        found = b""
        while not found:
            connection.sendall(b"GET / HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[sent : sent + 1])
            sent += 1
            assert sent < 40, "the head has no time limit"
            with contextlib.suppress(TimeoutError):
                found = connection.recv(1000)
        assert status(found) == 408
    running.until_open(0)


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n\r\n\r\n"], ids=["nothing", "an empty line", "empty lines"])
def test_connection_without_a_request_is_closed(running: RunningServer, sent: bytes) -> None:
    """There is no answer, as with other web servers."""
    with running.connect() as connection:
        connection.sendall(sent)
        assert read(connection) == b""
    running.until_open(0)


def test_idle_connection_outlasts_the_timeout_of_clients(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has to close its idle connection first (httpx: after 5 s): another request may be on its way."""
    with running.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert read_status(connection) == 200
        time.sleep(5.5)
        monkeypatch.setattr(http_protocols, "KEEP_ALIVE", 0.5)
        connection.sendall(GET + b"\r\n")
        assert read_status(connection) == 200
        assert read(connection) == b""
    running.until_open(0)


def test_connection_without_a_handshake_is_closed(running: RunningServer) -> None:
    with running.connect(handshake=False) as connection:
        assert read(connection) == b""
    running.until_open(0)


def test_rest_of_a_body_is_read_for_a_limited_time(running: RunningServer) -> None:
    """Then the connection is closed, however slowly the client sends."""
    with running.connect() as connection:
        connection.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc")
        assert read_status(connection) == 200
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while time.monotonic() - begun < 60:
                connection.sendall(b"b")
                time.sleep(0.2)
        assert time.monotonic() - begun < 60
    with running.connect() as connection:
        connection.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
        assert read_status(connection) == 200
        connection.sendall(b"abc" + GET + b"Connection: close\r\n\r\n")
        assert status(read(connection)) == 200
    running.until_open(0)


@pytest.mark.parametrize(
    "trailer", [b"0\r\nX: " + b"a" * 200_000, b"0\r\n" + b"X: a\r\n" * 200, b"5;" + b"e" * 200_000]
)
def test_large_trailers_and_chunk_extensions_close_the_connection(running: RunningServer, trailer: bytes) -> None:
    with running.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for start in range(0, len(trailer), 5000):
                connection.sendall(trailer[start : start + 5000])
        read(connection)
    running.until_open(0)


def test_too_many_pipelined_requests_close_the_connection(running: RunningServer) -> None:
    with running.connect() as connection:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall((GET + b"\r\n") * 5000)
        read(connection)
    running.until_open(0)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        GET,
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab",
        GET + b"\r\n",
        b"GET /large HTTP/1.1\r\n\r\n",
    ],
    ids=["nothing", "half a line", "half a head", "half a body", "kept alive", "an answer that is not read"],
)
def test_longest_waiting_connections_are_closed_above_the_limit(running: RunningServer, sent: bytes) -> None:
    """The other connections are answered at once."""
    waiting = []
    try:
        for _ in range(3 * CONNECTION_LIMIT):
            waiting.append(running.connect())
            waiting[-1].sendall(sent)
            assert running.open() <= CONNECTION_LIMIT + 1
        begun = time.monotonic()
        with running.connect() as other:
            other.sendall(GET + b"Connection: close\r\n\r\n")
            assert status(read(other)) == 200
        assert time.monotonic() - begun < HEAD_TIMEOUT * 10
    finally:
        for connection in waiting:
            connection.close()
    running.until_open(0)


def test_pending_handshakes_above_the_limit_do_not_block_clients(running: RunningServer) -> None:
    waiting = [running.connect(handshake=False) for _ in range(3 * CONNECTION_LIMIT)]
    with running.connect() as other:
        other.sendall(GET + b"Connection: close\r\n\r\n")
        assert status(read(other)) == 200
    for connection in waiting:
        connection.close()
    running.until_open(0)


def test_active_requests_are_not_closed_above_the_limit(running: RunningServer) -> None:
    """A WebSocket counts as an active request and outlives any number of idle connections."""
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    with running.connect() as followed:
        followed.sendall(GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\n" + key + b"\r\n")
        assert status(followed.recv(1000)) == 101
        idle = [running.connect() for _ in range(3 * CONNECTION_LIMIT)]
        time.sleep(HEAD_TIMEOUT * 2)
        # A masked text frame, as clients send it.
        followed.sendall(b"\x81\x82\x00\x00\x00\x00hi")
        assert followed.recv(1000) == b"\x81\x05hello"
        for connection in idle:
            connection.close()
    running.until_open(0)


def test_connection_limit_follows_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most half of the open files are reserved for other uses; the soft limit is raised as far as allowed."""
    limits = [(300, 300)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.append(wanted))
    assert connection_limit(2048) == 150
    limits[:] = [(1024, 4096)]
    assert connection_limit(2048) == 2048
    assert limits[-1] == (4096, 4096)
    limits[:] = [(1024, resource.RLIM_INFINITY)]
    assert connection_limit(100_000) == 65_536 - 512
