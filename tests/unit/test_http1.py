"""HTTP/1.1 as servers, proxies and networks speak it, over a pair of sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gpuctl.kube.connection_pool import ConnectionPool
from gpuctl.kube.http1 import Malformed, Wire

Ends = tuple[Wire, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A connection of ours, and the server's end of it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    wire = Wire(ours)
    with theirs:
        yield wire, theirs
    wire.close()


def asked(ends: Ends, answer: bytes, *, size: int = 1 << 20, end: bool = False) -> tuple[int, bytes]:
    """Status and body of an answer that comes in pieces of a size, and after which the server hangs up or not."""
    wire, theirs = ends

    def serve() -> None:
        theirs.recv(65536)
        for start in range(0, len(answer), size):
            theirs.sendall(answer[start : start + size])
        if end:
            theirs.shutdown(socket.SHUT_WR)

    server = threading.Thread(target=serve)
    server.start()
    try:
        response = wire.ask("GET", "/x", [("Host", "here")], None)
        return response.status, b"".join(response.portions())
    finally:
        server.join()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize(
    ("answer", "body", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
        (b"HTTP/1.1 200\r\ncontent-length:5 \r\n\r\nhello", b"hello", True),
        (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (CHUNKED + b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello", True),
        (CHUNKED + b"00A \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", b"0123456789", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + CHUNKED + b"0\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\n{}", b"{}", True),
    ],
)
def test_answers_however_they_are_cut(ends: Ends, answer: bytes, body: bytes, reusable: bool, size: int) -> None:
    status, found = asked(ends, answer, size=size)
    assert (status in (200, 204), found, ends[0].reusable) == (True, body, reusable)


def test_an_answer_that_ends_with_its_connection(ends: Ends) -> None:
    assert asked(ends, b"HTTP/1.1 200 OK\r\n\r\nhello", end=True) == (200, b"hello")
    assert not ends[0].reusable


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200", "cut off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "before the end"),
        (CHUNKED + b"3\r\nhe", "before the end"),
        (CHUNKED + b"3\r\nhel\r\n", "without an answer"),
        (CHUNKED + b"3\r\nhello\r\n", "longer than it says"),
        (CHUNKED + b"1_0\r\n", "no size"),
        (CHUNKED + b"-1\r\n", "no size"),
        (CHUNKED + b"0\r\n" + b"x: y\r\n" * 1000, "trailers"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "framing"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "no number"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", "no number"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "compressed"),
        (b"HTTP/2 200 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "head"),
        (b"HTTP/1.1 200 OK\r\nName : x\r\n\r\n", "head"),
    ],
)
def test_what_is_no_answer(ends: Ends, answer: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        asked(ends, answer, end=True)
    assert not ends[0].reusable


def test_requests_as_they_are_sent(ends: Ends) -> None:
    wire, theirs = ends
    theirs.sendall(b"HTTP/1.1 204 No Content\r\n\r\n" * 3)
    for method, body in (("GET", None), ("POST", None), ("PUT", "grün".encode())):
        list(wire.ask(method, "/a?b=c", [("Host", "here"), ("Name", "gr\xfcn")], body).portions())
    assert theirs.recv(65536) == (
        b"GET /a?b=c HTTP/1.1\r\nHost: here\r\nName: gr\xfcn\r\n\r\n"
        b"POST /a?b=c HTTP/1.1\r\nHost: here\r\nName: gr\xfcn\r\nContent-Length: 0\r\n\r\n"
        b"PUT /a?b=c HTTP/1.1\r\nHost: here\r\nName: gr\xfcn\r\nContent-Length: 5\r\n\r\ngr\xc3\xbcn"
    )


def test_portions_come_as_they_are_sent(ends: Ends) -> None:
    """What is being watched does not wait for more."""
    wire, theirs = ends
    theirs.sendall(CHUNKED + b"5\r\nfirst\r\n")
    portions = wire.ask("GET", "/x", [], None).portions()
    assert next(portions) == b"first"
    theirs.sendall(b"6\r\nsecond\r\n")
    assert next(portions) == b"second"


def test_a_read_that_waits_can_be_ended(ends: Ends) -> None:
    wire, theirs = ends
    theirs.sendall(CHUNKED)
    portions = wire.ask("GET", "/x", [], None).portions()
    threading.Timer(0.1, wire.abort).start()
    begun = time.monotonic()
    with pytest.raises(Malformed):
        next(portions)
    assert time.monotonic() < begun + 5, "the read's own end is after 10 s"


class Server:
    """Answers every request with 204, each connection in a thread of its own; ``delay`` is of each answer."""

    def __init__(self, delay: float = 0.0) -> None:
        self.opened = 0
        self._delay = delay
        self._ends: list[socket.socket] = []

    def make(self) -> Wire:
        ours, theirs = socket.socketpair()
        self.opened += 1
        self._ends.append(theirs)
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return Wire(ours)

    def hang_up(self) -> None:
        for end in self._ends:
            end.shutdown(socket.SHUT_RDWR)

    def _serve(self, end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            while end.recv(65536):
                time.sleep(self._delay)
                end.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


def request(pool: ConnectionPool) -> None:
    wire = pool.take()
    try:
        list(wire.ask("GET", "/x", [], None).portions())
    finally:
        pool.give(wire)


def test_connections_are_used_again_while_they_are_open() -> None:
    server = Server()
    pool = ConnectionPool(server.make)
    for _ in range(5):
        request(pool)
    assert server.opened == 1
    server.hang_up()
    request(pool)
    assert server.opened == 2
    pool.close()


def many(pool: ConnectionPool, number: int, once: Callable[[ConnectionPool], None] = request) -> None:
    threads = [threading.Thread(target=once, args=(pool,)) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_slow_answers_do_not_hold_up_others() -> None:
    server = Server(delay=0.5)
    pool = ConnectionPool(server.make)
    many(pool, 8)
    assert server.opened == 8
    pool.close()


def test_a_connection_that_streams_is_not_waited_for() -> None:
    server = Server()
    pool = ConnectionPool(server.make)
    stream = pool.take()
    pool.part_with()
    request(pool)
    request(pool)
    assert server.opened == 2
    stream.close()
    pool.close()


def test_an_answer_that_was_not_read_is_no_end_of_a_request() -> None:
    server = Server()
    pool = ConnectionPool(server.make)
    wire = pool.take()
    wire.ask("GET", "/x", [], None)
    pool.give(wire)
    request(pool)
    assert server.opened == 2
    pool.close()
