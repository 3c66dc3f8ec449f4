"""What the transport makes of responses, and of connections that break, over real sockets."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.credentials import Credential, StaticCredential
from gpuctl.kube.response_streams import ResponseStream
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import ServerAccess, Transport
from support.byte_server import Server
from support.certificates import Pair, self_signed

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"


Start = Callable[..., tuple[Server, Transport]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers, each with the transport to it; both end with the test."""
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
    """A certificate and its key."""
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
def test_part_of_a_response_is_an_error(start: Start, answer: bytes, text: str) -> None:
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
def test_bodies_are_read_to_their_end(start: Start, answer: bytes, body: bytes) -> None:
    _, transport = start(answer, hangs_up=True)
    assert transport.send("GET", "/x").data == body


def test_requests_as_they_are_sent(start: Start) -> None:
    server, transport = start(NOTHING, path="/of it")
    transport.send("GET", "/a b/:c", {"d": "e f", "empty": ""})
    transport.send("POST", "/a", body={"k": "ü"}, content_type="application/json")
    # The head and the body of a POST are sent one after the other.
    get, post = (request.split(b"\r\n") for request in (server.requests[0], b"".join(server.requests[1:])))
    assert get[0] == b"GET /of%20it/a%20b/:c?d=e+f HTTP/1.1"
    # In UTF-8, as Go sends it.
    assert {b"Authorization: Bearer t", "Name: grün".encode(), b"Accept-Encoding: identity"} <= {*get}
    assert f"Host: {server.url.removeprefix('http://')}".encode() in get
    assert (post[0], post[-1]) == (b"POST /of%20it/a HTTP/1.1", '{"k":"ü"}'.encode())
    assert {b"Content-Length: 10", b"Content-Type: application/json"} <= {*post}


def test_silence_is_a_timeout(start: Start) -> None:
    server, transport = start(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell")
    with pytest.raises(ConnectionFailed) as caught:
        transport.send("GET", "/x", within=0.2)
    assert str(caught.value) == f"{server.url} gave no answer within 0 s"


def test_a_server_that_is_away_was_sent_nothing(start: Start) -> None:
    server, transport = start(NOTHING)
    server.close()
    with pytest.raises(ConnectionFailed, match="cannot be reached: connection refused") as caught:
        transport.send("GET", "/x")
    assert not caught.value.sent


def test_portions_come_as_they_are_sent(start: Start) -> None:
    """What is being watched does not wait for more."""
    server, transport = start(CHUNKED + b"5\r\nfirst\r\n")
    portions = iter(ResponseStream(transport.open("/x"), "it"))
    assert next(portions) == b"first"
    server.say(b"6\r\nsecond\r\n")
    assert next(portions) == b"second"


@pytest.mark.parametrize("secure", [False, True])
def test_a_waiting_read_ends_when_another_thread_closes_the_stream(
    start: Start, certificate: Pair, secure: bool
) -> None:
    _, transport = start(CHUNKED + b"5\r\nfirst\r\n", certificate=certificate if secure else None)
    stream = ResponseStream(transport.open("/x"), "it")
    portions = iter(stream)
    assert next(portions) == b"first"
    threading.Timer(0.1, stream.close).start()
    begun = time.monotonic()
    with pytest.raises(ConnectionFailed, match="it broke off"):
        next(portions)
    assert time.monotonic() < begun + 5
    # Once more, after its end.
    stream.close()


def test_closing_a_stream_after_its_end_breaks_no_other_request(start: Start) -> None:
    _, transport = start(CHUNKED + b"0\r\n\r\n")
    stream = ResponseStream(transport.open("/x"), "it")
    assert list(stream) == []
    transport.send("GET", "/y")
    stream.close()
    transport.send("GET", "/y")


def test_connections_are_used_again_while_they_are_open(start: Start) -> None:
    server, transport = start(NOTHING)
    for _ in range(5):
        transport.send("GET", "/x")
    assert len(server.opened) == 1
    server.hang_up()
    transport.send("GET", "/x")
    assert len(server.opened) == 2


def test_slow_responses_do_not_hold_up_others(start: Start) -> None:
    _, transport = start(NOTHING, delay=0.5)
    threads = [threading.Thread(target=transport.send, args=("GET", "/x")) for _ in range(8)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() < begun + 2


def test_a_response_that_was_not_read_is_no_end_of_a_request(start: Start) -> None:
    server, transport = start(b"HTTP/1.1 401 No\r\nContent-Length: 5\r\n\r\nhello")
    transport.open("/x").close()
    assert transport.send("GET", "/x").data == b"hello"
    assert len(server.opened) == 2
