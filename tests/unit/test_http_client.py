"""The transport over real sockets: responses, timeouts, and broken connections."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate

import pytest

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.connection import Connection
from gpuctl.kube.credentials import Credential, StaticCredential
from gpuctl.kube.response_streams import ResponseStream
from gpuctl.kube.session import Session
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import ServerAccess, Transport
from support.byte_server import Server
from support.certificates import Pair, self_signed

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


Start = Callable[..., tuple[Server, Transport]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a server and a transport to it. Both are closed after the test."""
    with contextlib.ExitStack() as stack:

        def begin(
            answer: bytes, *, path: str = "", certificate: Pair | None = None, **how: object
        ) -> tuple[Server, Transport]:
            server = Server(answer, certificate=certificate, **how)  # type: ignore[arg-type]
            stack.callback(server.close)
            trust = TlsSettings(verify=False)
            access = ServerAccess(
                server.url + path, trust, StaticCredential(Credential("Bearer t")), (("Name", "grün"),), None, ""
            )
            transport = Transport(access)
            stack.callback(transport.close)
            return server, transport

        yield begin


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A self-signed certificate and its key."""
    return self_signed(tmp_path_factory.mktemp("http-client"))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "the connection was closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "the connection was closed before the end of the answer"),
        (CHUNKED + b"3\r\nhe", "the connection was closed before the end of the answer"),
        (CHUNKED + b"3\r\nhel\r\n", "the connection was closed before the end of the answer"),
        (CHUNKED + b"-1\r\n", "the connection was closed before the end of the answer"),
        (b"SSH-2.0-OpenSSH\r\n", "the response is not HTTP"),
        (b"HTTP/2 200 OK\r\n\r\n", "the response is not HTTP"),
    ],
)
def test_incomplete_response_is_an_error(start: Start, answer: bytes, text: str) -> None:
    server, transport = start(answer, hangs_up=True)
    with pytest.raises(ConnectionFailed) as caught:
        transport.send("GET", "/x")
    assert str(caught.value) == f"{server.url} cannot be reached: {text}"
    assert caught.value.sent


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (CHUNKED + b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n", b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
    ],
)
def test_whole_body_is_read(start: Start, answer: bytes, body: bytes) -> None:
    _, transport = start(answer, hangs_up=True)
    assert transport.send("GET", "/x").data == body


def test_request_line_and_headers(start: Start) -> None:
    server, transport = start(NO_CONTENT, path="/of it")
    transport.send("GET", "/a b/:c", {"d": "e f", "empty": ""})
    transport.send("POST", "/a", body={"k": "ü"}, content_type="application/json")
    # The headers and the body of a POST are sent separately; the server answers the headers.
    end = time.monotonic() + 10
    while b'{"k"' not in server.requests[-1] and time.monotonic() < end:
        time.sleep(0.01)
    get, post = (request.split(b"\r\n") for request in (server.requests[0], b"".join(server.requests[1:])))
    assert get[0] == b"GET /of%20it/a%20b/:c?d=e+f HTTP/1.1"
    # Header values are UTF-8, as Go sends them.
    assert {b"Authorization: Bearer t", "Name: grün".encode(), b"Accept-Encoding: identity"} <= {*get}
    assert f"Host: {server.url.removeprefix('http://')}".encode() in get
    assert (post[0], post[-1]) == (b"POST /of%20it/a HTTP/1.1", '{"k":"ü"}'.encode())
    assert {b"Content-Length: 10", b"Content-Type: application/json"} <= {*post}


@pytest.mark.parametrize("hours", [0, 1, -1])
def test_server_time_is_read_from_the_newest_response(start: Start, hours: int) -> None:
    """A step of the local clock after the response does not change it, and only the first question needs a request."""
    date = formatdate(time.time() + hours * 3600, usegmt=True)
    server, transport = start(f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    session = Session(Connection(transport, "default", ""))
    assert transport.clock_ahead() is None
    before = time.time()
    for _ in range(2):
        assert session.server_time() == pytest.approx(before + hours * 3600, abs=3)
    assert len(server.requests) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: before + 7200)
        assert session.server_time() == pytest.approx(before + hours * 3600, abs=3)
    if not hours:
        assert transport.clock_ahead() == 0.0, "differences below the resolution of `Date` are ignored"


def test_stalled_response_times_out(start: Start) -> None:
    server, transport = start(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell")
    with pytest.raises(ConnectionFailed) as caught:
        transport.send("GET", "/x", within=0.2)
    assert str(caught.value) == f"{server.url} gave no answer within 0 s"


def test_refused_connection_is_not_marked_as_sent(start: Start) -> None:
    server, transport = start(NO_CONTENT)
    server.close()
    with pytest.raises(ConnectionFailed, match="cannot be reached: connection refused") as caught:
        transport.send("GET", "/x")
    assert not caught.value.sent


def test_stream_yields_chunks_as_they_arrive(start: Start) -> None:
    """A watch returns each chunk without waiting for the next."""
    server, transport = start(CHUNKED + b"5\r\nfirst\r\n")
    portions = iter(ResponseStream(transport.open("/x"), "it"))
    assert next(portions) == b"first"
    server.say(b"6\r\nsecond\r\n")
    assert next(portions) == b"second"


@pytest.mark.parametrize("secure", [False, True])
def test_closing_a_stream_ends_a_blocked_read(start: Start, certificate: Pair, secure: bool) -> None:
    _, transport = start(CHUNKED + b"5\r\nfirst\r\n", certificate=certificate if secure else None)
    stream = ResponseStream(transport.open("/x"), "it")
    portions = iter(stream)
    assert next(portions) == b"first"
    threading.Timer(0.1, stream.close).start()
    begun = time.monotonic()
    with pytest.raises(ConnectionFailed, match="it broke off"):
        next(portions)
    assert time.monotonic() < begun + 5
    # Closing a second time has no effect.
    stream.close()


def test_closing_an_ended_stream_keeps_the_connection(start: Start) -> None:
    _, transport = start(CHUNKED + b"0\r\n\r\n")
    stream = ResponseStream(transport.open("/x"), "it")
    assert list(stream) == []
    transport.send("GET", "/y")
    stream.close()
    transport.send("GET", "/y")


def test_open_connections_are_reused(start: Start) -> None:
    server, transport = start(NO_CONTENT)
    for _ in range(5):
        transport.send("GET", "/x")
    assert len(server.opened) == 1
    server.hang_up()
    transport.send("GET", "/x")
    assert len(server.opened) == 2


def test_slow_responses_do_not_block_other_requests(start: Start) -> None:
    _, transport = start(NO_CONTENT, delay=0.5)
    threads = [threading.Thread(target=transport.send, args=("GET", "/x")) for _ in range(8)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() < begun + 2


def test_unread_response_closes_its_connection(start: Start) -> None:
    server, transport = start(b"HTTP/1.1 401 No\r\nContent-Length: 5\r\n\r\nhello")
    transport.open("/x").close()
    assert transport.send("GET", "/x").data == b"hello"
    assert len(server.opened) == 2
