"""HTTP/1.1 as ``kube/http1.py`` reads it: as ``http.client`` does where an answer is one, and nothing where it is none."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.kube.http1 import Malformed, Wire
from properties.scale import examples

_LATIN = "".join(map(chr, [*range(33, 127), *range(161, 256)]))
_NAMES = st.text("ABCDXYZabcdxyz0189-_.!#$%&'*+^`|~", min_size=1, max_size=12).map(lambda name: f"x{name}")
_VALUES = st.lists(st.text(_LATIN, min_size=1, max_size=9), max_size=3).map(" ".join)
_SPACE = st.sampled_from(["", " ", "\t", "  "])
_ENDS = st.sampled_from(["\r\n", "\n"])


class Read(NamedTuple):
    """What was read of an answer."""

    status: int
    fields: dict[str, str]
    body: bytes
    reusable: bool


class Answer(NamedTuple):
    """An answer as it is on the wire, and what it says."""

    interim: list[int]
    head: bytes
    content: bytes
    framing: str
    expected: Read

    @property
    def final(self) -> bytes:
        """The bytes without those of heads before the last one."""
        return self.head + self.content

    @property
    def wire(self) -> bytes:
        """All bytes."""
        return b"".join(b"HTTP/1.1 %d Wait\r\nX: y\r\n\r\n" % status for status in self.interim) + self.final


@st.composite
def _chunked(draw: st.DrawFn, body: bytes) -> bytes:
    parts = []
    while body:
        size = draw(st.integers(1, len(body)))
        spelt = draw(st.sampled_from([f"{size:x}", f"{size:X}", f"{size:04x}"]))
        extension = draw(st.sampled_from(["", ";a", ";a=b", '; a="b c"']))
        parts.append(f"{spelt}{extension}\r\n".encode() + body[:size] + b"\r\n")
        body = body[size:]
    trailers = draw(st.lists(st.tuples(_NAMES, _VALUES), max_size=3))
    end = "".join(f"{name}: {value}\r\n" for name, value in trailers)
    return b"".join(parts) + f"{draw(st.sampled_from(['0', '000', '0;a=b']))}\r\n{end}\r\n".encode("latin-1")


@st.composite
def answers(draw: st.DrawFn, framings: tuple[str, ...] = ("length", "chunked", "close", "none")) -> Answer:
    """Answers of every form that RFC 9112 lets a server choose without being asked."""
    framing = draw(st.sampled_from(framings))
    status = draw(st.sampled_from([204, 304] if framing == "none" else [200, 201, 400, 403, 409, 429, 500, 503]))
    body = b"" if framing == "none" else draw(st.binary(max_size=300))
    minor, stays = draw(st.sampled_from([0, 1])), draw(st.sampled_from(["", "close", "keep-alive", "Keep-Alive"]))
    said = draw(st.dictionaries(_NAMES, _VALUES, max_size=5))
    if stays:
        said["Connection"] = stays
    content = body
    if framing == "length":
        said["Content-Length"] = draw(st.sampled_from(["{}", "0{}", "00{}"])).format(len(body))
    elif framing == "chunked":
        said["Transfer-Encoding"] = draw(st.sampled_from(["chunked", "Chunked"]))
        content = draw(_chunked(body))
    spelling = st.sampled_from([str, str.lower, str.upper])
    lines = [f"HTTP/1.{minor} {status}{draw(st.sampled_from(['', ' ', ' OK', ' Not so']))}"]
    lines += [
        f"{draw(spelling)(name)}:{draw(_SPACE)}{value}" for name, value in draw(st.permutations(list(said.items())))
    ]
    end = draw(_ENDS)
    lasting = stays != "close" and (minor == 1 or bool(stays)) and framing != "close"
    # Of several of one name the first counts, here and there: which it is, is the permutation's.
    wanted: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        wanted.setdefault(name.lower(), value.strip(" \t"))
    interim = draw(st.lists(st.sampled_from([100, 102, 103]), max_size=3))
    head = end.join([*lines, "", ""]).encode("latin-1")
    return Answer(interim, head, content, framing, Read(status, wanted, body, lasting))


def read(data: bytes) -> Read:
    """What our client makes of what a server says before it hangs up."""
    ours, theirs = socket.socketpair()
    wire = Wire(ours)
    try:
        ours.settimeout(10)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        reply = wire.ask("GET", "/x", [("Host", "here")], None)
        body = b"".join(reply.portions())
        return Read(reply.status, dict(reply.headers.items()), body, wire.reusable)
    finally:
        wire.close()
        theirs.close()


def read_by_the_standard_library(data: bytes) -> Read:
    """The same by ``http.client``."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with http.client.HTTPResponse(ours, method="GET") as response:
            response.begin()
            fields = {name.lower(): response.headers[name] for name in response.headers}
            return Read(response.status, fields, response.read(), not response.will_close)


@examples(600)
@given(answers())
def test_answers_are_read_as_they_are(answer: Answer) -> None:
    assert read(answer.wire) == answer.expected


@examples(600)
@given(answers())
def test_answers_are_read_as_the_standard_library_reads_them(answer: Answer) -> None:
    # Of heads before the last it knows 100 alone.
    data = answer.wire if set(answer.interim) <= {100} else answer.final
    assert read(data) == read_by_the_standard_library(data)


@examples(300)
@given(answers(("length", "chunked", "none")), st.data())
def test_no_part_of_an_answer_is_taken_for_the_whole(answer: Answer, data: st.DataObject) -> None:
    """Unlike what the standard library makes of it: it returns the part without a word."""
    cut = answer.wire[: data.draw(st.integers(0, len(answer.wire) - 1))]
    with pytest.raises(Malformed):
        read(cut)


def _tried(data: bytes) -> None:
    """What is read of it is a part of it; otherwise it is refused, and in no other way than what is no answer."""
    try:
        found = read(data)
    except (OSError, Malformed):
        return
    assert 200 <= found.status <= 999
    assert len(found.body) <= len(data)
    assert len(found.fields) <= 256


@examples(600)
@given(st.binary(max_size=400))
def test_anything_at_all(data: bytes) -> None:
    _tried(data)
    _tried(b"HTTP/1.1 200 OK\r\n" + data)
    _tried(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data)


@examples(600)
@given(answers(), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=4)), max_size=6))
def test_answers_that_were_damaged(answer: Answer, damages: list[tuple[int, int, bytes]]) -> None:
    data = answer.wire
    for at, gone, instead in damages:
        at %= len(data) + 1
        data = data[:at] + instead + data[at + gone :]
    _tried(data)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"),
        (b"", b"x" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0", b"0" * 1000),
    ],
    ids=["100", "103", "fields", "trailers", "line", "size"],
)
def test_what_has_no_end_is_given_up(begin: bytes, more: bytes) -> None:
    """A server that goes on and on is not heard for ever."""
    ours, theirs = socket.socketpair()
    wire = Wire(ours)

    def serve() -> None:
        with contextlib.suppress(OSError):
            theirs.sendall(begin)
            while True:
                theirs.sendall(more)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    with theirs, pytest.raises(Malformed):
        list(wire.ask("GET", "/x", [("Host", "here")], None).portions())
    wire.close()
    server.join()
