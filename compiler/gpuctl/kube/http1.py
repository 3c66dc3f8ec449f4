"""HTTP/1.1 over one connection: requests as they are sent, answers as they come.

Rules: RFC 9112. It is ours because ``http.client`` takes a part of an answer for the whole (``read1``), loses what
comes with a head such as 103, reads trailers without an end, and costs `get jobs`, `get nodes` and `get pools` 5 to
12 ms of CPU time more, of 140 to 155; urllib3 is built on it. A connection can be cut from another thread, which ends
a read that waits.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from io import BufferedReader

_LONGEST_LINE = 64 * 1024
_MOST_FIELDS = 256
_MOST_HEADS = 32
_PORTION = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (.*))?")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class Malformed(ValueError):
    """What came is no HTTP/1.1, or ended too early."""


class _Lines(Protocol):
    """What gives lines."""

    def readline(self, limit: int, /) -> bytes:
        """Up to the end of a line, or of the limit."""


class Fields(Mapping[str, str]):
    """The fields of a head, by name in any case; of several of one name the first."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def getlist(self, name: str) -> list[str]:
        """All of one name, in order."""
        return self._values.get(name.lower(), [])


class Head(NamedTuple):
    """What an answer begins with; ``minor`` is of the protocol's version."""

    minor: int
    status: int
    reason: str
    fields: Fields


class Wire:
    """A connection that carries one request after another; for one thread at a time, but for :meth:`abort`.

    ``reusable`` tells whether another request may follow: the last answer was read to its end, and the server has not
    said that it is its last.
    """

    def __init__(self, connected: socket.socket, beneath: socket.socket | None = None) -> None:
        self._socket = connected
        self._beneath = beneath or connected
        self._reader = cast("BufferedReader", connected.makefile("rb", _PORTION))
        self.reusable = False

    def ask(self, method: str, target: str, fields: Iterable[tuple[str, str]], body: bytes | None) -> Reply:
        """Send a request and read the head of its answer. Fields are sent as they are given, in Latin-1.

        :raises OSError: the connection broke; ``TimeoutError``: nothing came in time.
        :raises Malformed: what came is no answer.
        """
        self.reusable = False
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body or b'')}")
        # A server that has heard enough answers and hangs up: its answer is still to be read.
        with contextlib.suppress(BrokenPipeError):
            self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        # Before the answer there may be heads such as 103 that are none.
        for _ in range(_MOST_HEADS):
            head = read_head(self._reader)
            if head.status >= 200:
                return Reply(self, self._reader, head)
        raise Malformed("it does not come to an answer")

    def wait_at_most(self, seconds: float) -> None:
        """How long to wait for whatever comes next."""
        self._socket.settimeout(seconds)

    def is_open(self) -> bool:
        """Whether an idle connection is still that: the server has not hung up, nor said what nobody asked."""
        poll = select.poll()
        poll.register(self._beneath.fileno(), select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        """Cut it, from any thread: who reads from it finds it broken, and closes it."""
        with contextlib.suppress(OSError):
            # Not TLS's own, which is not for two threads.
            socket.socket.shutdown(self._beneath, socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the socket."""
        self.reusable = False
        with contextlib.suppress(OSError):
            self._reader.close()
        self._socket.close()
        self._beneath.close()


class Reply:
    """An answer: ``status``, ``headers``, and a body that is not read yet."""

    def __init__(self, wire: Wire, reader: BufferedReader, head: Head) -> None:
        self._wire = wire
        self._reader = reader
        self.status = head.status
        self.headers = head.fields
        said = (head.fields.get("Connection") or "").lower()
        self._lasting = "close" not in said and (head.minor == 1 or "keep-alive" in said)

    def portions(self) -> Iterator[bytes]:
        """The body in portions, each as soon as it has come. Read to its end, the connection may carry another request.

        :raises OSError: the connection broke; ``TimeoutError``: nothing came in time.
        :raises Malformed: it ended too early, or is in no form that was asked for.
        """
        coding = (self.headers.get("Content-Encoding") or "identity").lower()
        if coding != "identity":
            raise Malformed(f"it is compressed ({coding[:20]}), which nobody asked for")
        framing, length = self.headers.get("Transfer-Encoding"), self.headers.getlist("Content-Length")
        if self.status in (204, 304):
            pass
        elif framing is not None:
            if framing.lower() != "chunked":
                raise Malformed("its framing is unknown")
            yield from self._chunks()
        elif length:
            if len(set(length)) > 1 or not re.fullmatch(r"[0-9]{1,15}", length[0]):
                raise Malformed("its length is no number")
            yield from self._exactly(int(length[0]))
        else:
            self._lasting = False
            while data := self._reader.read1(_PORTION):
                yield data
        self._wire.reusable = self._lasting

    def read(self, limit: int) -> bytes:
        """The body up to ``limit`` bytes."""
        found = bytearray()
        for portion in self.portions():
            found += portion
            if len(found) >= limit:
                break
        return bytes(found[:limit])

    def close(self) -> None:
        """Let go of the connection, whether or not the body was read."""
        self._wire.close()

    def abort(self) -> None:
        """As :meth:`Wire.abort`."""
        self._wire.abort()

    def _exactly(self, left: int) -> Iterator[bytes]:
        while left:
            data = self._reader.read1(min(left, _PORTION))
            if not data:
                raise Malformed("the connection was closed before the end of the answer")
            left -= len(data)
            yield data

    def _chunks(self) -> Iterator[bytes]:
        while True:
            match = _SIZE.fullmatch(read_line(self._reader))
            if match is None:
                raise Malformed("a chunk has no size")
            size = int(match[1], 16)
            if not size:
                break
            yield from self._exactly(size)
            if read_line(self._reader):
                raise Malformed("a chunk is longer than it says")
        for _ in range(_MOST_FIELDS):
            if not read_line(self._reader):
                return
        raise Malformed("it has too many trailers")


def read_head(reader: _Lines) -> Head:
    """The head of an answer.

    :raises Malformed: what comes is none.
    """
    first = read_line(reader)
    match = _STATUS.fullmatch(first)
    if match is None:
        raise Malformed("what came is no HTTP")
    fields: list[tuple[str, str]] = []
    while line := read_line(reader):
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise Malformed("a line of its head is none")
        fields.append((name, value.strip(" \t")))
        if len(fields) > _MOST_FIELDS:
            raise Malformed("its head has too many fields")
    return Head(int(match[1]), int(match[2]), (match[3] or b"").decode("latin-1").strip(), Fields(fields))


def read_line(reader: _Lines) -> bytes:
    """A line without its end."""
    line = reader.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        if len(line) == _LONGEST_LINE:
            raise Malformed("a line of its head has no end")
        raise Malformed("the connection was closed without an answer" if not line else "the answer was cut off")
    return line.rstrip(b"\r\n")
