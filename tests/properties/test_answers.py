"""Bodies that are cut off, and bytes that are no response: never a part for the whole, never another exception."""

from __future__ import annotations

import socket
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.credentials import Credential, StaticCredential
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import Response, ServerAccess, Transport
from properties.scale import examples


class Answer(NamedTuple):
    """A response on the wire, and the body in it."""

    head: bytes
    content: bytes
    body: bytes


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """A response with a body, by its length or in chunks."""
    body = draw(st.binary(min_size=1, max_size=300))
    status = draw(st.sampled_from([b"200 OK", b"403 Forbidden", b"409", b"500 "]))
    if draw(st.booleans()):
        return Answer(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (status, len(body)), body, body)
    rest, content = body, b""
    while rest:
        size = draw(st.integers(1, len(rest)))
        extension = draw(st.sampled_from([b"", b";a", b';a="b c"']))
        content += b"%x%b\r\n%b\r\n" % (size, extension, rest[:size])
        rest = rest[size:]
    return Answer(b"HTTP/1.1 %b\r\nTransfer-Encoding: chunked\r\n\r\n" % status, content + b"0\r\n\r\n", body)


def read(data: bytes) -> Response:
    """Return what the transport makes of the bytes of a server that then hangs up."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    access = ServerAccess("http://here", TlsSettings(), StaticCredential(Credential()), (), None, "")
    transport = Transport(access)
    with ours, theirs, patch("urllib3.util.connection.create_connection", lambda *_, **__: ours):
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        try:
            return transport.send("GET", "/x")
        finally:
            transport.close()


@examples(600)
@given(answers())
def test_bodies_are_read_unchanged(answer: Answer) -> None:
    assert read(answer.head + answer.content).data == answer.body


@examples(300)
@given(answers(), st.data())
def test_truncated_body_is_an_error(answer: Answer, data: st.DataObject) -> None:
    # A body in chunks is whole once the `0` of the last one has come.
    end = len(answer.content) - (4 if b"chunked" in answer.head else 0)
    with pytest.raises(ConnectionFailed):
        read(answer.head + answer.content[: data.draw(st.integers(0, end - 1))])


def _read_or_fail(data: bytes) -> None:
    """Read what may be a part of it, or else be refused in the one way of connections that fail."""
    try:
        found = read(data)
    except ConnectionFailed:
        return
    assert len(found.data) <= len(data)


@examples(600)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_fail_as_connection_errors(data: bytes) -> None:
    _read_or_fail(data)
    _read_or_fail(b"HTTP/1.1 200 OK\r\n" + data)
    _read_or_fail(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data)


@examples(600)
@given(answers(), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=4)), max_size=6))
def test_damaged_answers_fail_as_connection_errors(answer: Answer, damages: list[tuple[int, int, bytes]]) -> None:
    data = answer.head + answer.content
    for at, gone, instead in damages:
        at %= len(data) + 1
        data = data[:at] + instead + data[at + gone :]
    _read_or_fail(data)
