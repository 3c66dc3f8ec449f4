"""An HTTP proxy before an API server that counts every request and fails where a test says so.

    with Proxy(plane, upstream) as proxy:
        proxy.policy = on(nth(7), after(process.kill))
        ...run a command with proxy.kubeconfig(path)...
        assert proxy.writes() == []

Plain HTTP/1.1 comes in on a loopback port, HTTPS goes out; connections are kept alive on both sides. A policy looks at
each request as it arrives and returns an action, or None to pass it on. Actions are functions of an
:class:`Exchange`; those below cover what servers, load balancers and networks do.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from control_plane import ControlPlane

CHUNK = 65536
UPSTREAM_TIMEOUT = 60.0
HANG = 600.0
"""Seconds after which a hung answer gives up by itself: far beyond the patience of any client under test."""
_WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Written as objects, but nothing is stored: questions.
_QUESTIONS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")


@dataclass(frozen=True)
class Request:
    """A request as it came in; ``number`` counts from 1 over all requests since the last :meth:`Proxy.reset`."""

    number: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The path without the query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def is_watch(self) -> bool:
        """True if the response is a stream that either side may end at any time."""
        return self.method == "GET" and (self.query.get("watch") in ("1", "true") or self.query.get("follow") == "true")

    @property
    def is_upgrade(self) -> bool:
        """True if the request opens a WebSocket, as exec and port-forward do."""
        return any(key.lower() == "upgrade" for key, _ in self.headers)

    @property
    def is_write(self) -> bool:
        """True if the request changes stored objects: not a dry run, and not a review sent by POST."""
        return (
            self.method in _WRITING
            and self.query.get("dryRun") != "All"
            and self.path.rsplit("/", 1)[-1] not in _QUESTIONS
        )

    def __str__(self) -> str:
        return f"{self.number} {self.method} {self.target}"


@dataclass
class Response:
    """A response; ``body`` as sent by the server, possibly compressed."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """A header's value."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class Record:
    """A finished request; ``status`` is the status that the client received, None if it received nothing."""

    request: Request
    status: int | None = None
    forwarded: bool = False
    problem: str = ""

    def __str__(self) -> str:
        notes = ["not forwarded"] if not self.forwarded else []
        notes += [self.problem] if self.problem else []
        return f"{self.request} -> {self.status}{' (' + ', '.join(notes) + ')' if notes else ''}"


class Broken(Exception):
    """The exchange failed; both connections are closed."""


Action = Callable[["Exchange"], None]
Policy = Callable[[Request], Action | None]
Predicate = Callable[[Request], bool]


class Exchange:
    """One request between its client and the server, as an action sees it."""

    def __init__(self, proxy: Proxy, client: socket.socket, record: Record) -> None:
        self._proxy = proxy
        self._client = client
        self._record = record
        self.request = record.request

    def forward(self) -> Response:
        """Send the request to the server and read the complete answer. A watch is not complete: its head is read."""
        self._record.forwarded = True
        if self.request.is_watch:
            connection = self._proxy.upstream.take()
            try:
                return connection.send(self.request)
            finally:
                connection.close()
        return self._proxy.upstream.exchange(self.request)

    def answer(self, response: Response, announced: int | None = None) -> None:
        """Give the client an answer; ``announced`` is the Content-Length when it shall not be the body's."""
        self._record.status = response.status
        length = len(response.body) if announced is None else announced
        headers = [item for item in response.headers if item[0].lower() not in _FRAMING]
        self._client.sendall(_head(response, [*headers, ("Content-Length", str(length))]) + response.body)

    def pass_on(self) -> None:
        """Forward the request and its response unchanged."""
        if self.request.is_upgrade:
            self.tunnel()
        elif self.request.is_watch:
            self.stream()
        else:
            self.answer(self.forward())

    def tunnel(self) -> None:
        """Relay a WebSocket both ways, until either side ends it. Both connections end with it."""
        self._record.forwarded = True
        connection = self._proxy.upstream.take()
        try:
            response = connection.send(self.request)
            self._record.status = response.status
            if response.status != 101:
                self.answer(Response(response.status, response.reason, response.headers, connection.body(response)))
                return
            self._client.sendall(_head(response, response.headers))
            while not self._proxy.closed:
                data = connection.available()
                if data:
                    self._client.sendall(data)
                    continue
                if data is None:
                    break
                ready, _, _ = select.select([connection.socket, self._client], [], [], 0.5)
                if self._client in ready:
                    said = self._client.recv(CHUNK)
                    if not said:
                        break
                    connection.socket.sendall(said)
            raise Broken
        finally:
            connection.close()

    def cut(self) -> None:
        """Close the client's connection, without a response if none was sent."""
        raise Broken

    def hang(self) -> None:
        """Say nothing more until the client goes away or the proxy is closed."""
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline and not self._proxy.closed:
            readable, _, _ = select.select([self._client], [], [], 0.2)
            if readable:
                break
        raise Broken

    def stream(self, longest: int | None = None) -> None:
        """Relay a watch as it comes, until either side ends it, or ``longest`` bytes of its body have come.

        Both connections end with it.
        """
        self._record.forwarded = True
        connection = self._proxy.upstream.take()
        try:
            response = connection.send(self.request)
            self._record.status = response.status
            if response.status != 200:
                self.answer(Response(response.status, response.reason, response.headers, connection.body(response)))
                return
            self._client.sendall(_head(response, [*response.headers, ("Connection", "close")]))
            while not self._proxy.closed:
                data = connection.available()
                if data:
                    self._client.sendall(data[:longest])
                    longest = None if longest is None else longest - len(data)
                    if longest is not None and longest <= 0:
                        break
                    continue
                if data is None:
                    break
                ready, _, _ = select.select([connection.socket, self._client], [], [], 0.5)
                if self._client in ready:
                    break
            raise Broken
        finally:
            connection.close()


# Headers that say how a body is framed, or that concern one connection only.
_FRAMING = ("content-length", "transfer-encoding", "connection", "keep-alive")


def before(hook: Callable[[], object]) -> Action:
    """Call a hook instead of forwarding: the server never sees the request."""

    def act(exchange: Exchange) -> None:
        hook()
        exchange.cut()

    return act


def after(hook: Callable[[], object]) -> Action:
    """Let the server act and answer, then call a hook instead of passing the answer on."""

    def act(exchange: Exchange) -> None:
        exchange.forward()
        hook()
        exchange.cut()

    return act


def meanwhile(hook: Callable[[], object]) -> Action:
    """Call a hook, then forward the request unchanged."""

    def act(exchange: Exchange) -> None:
        hook()
        exchange.pass_on()

    return act


def delay(seconds: float) -> Action:
    """A slow server."""
    return meanwhile(lambda: time.sleep(seconds))


def respond(status: int, body: bytes = b"", content_type: str = "text/plain", **headers: str) -> Action:
    """Answer in the server's stead; underscores in the names of headers stand for hyphens."""
    fields = [("Content-Type", content_type), *((key.replace("_", "-"), value) for key, value in headers.items())]
    return lambda exchange: exchange.answer(Response(status, "Injected", list(fields), body))


def refuse(status: int, reason: str, message: str, **headers: str) -> Action:
    """Answer with a ``Status`` as the API server writes it."""
    value = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}}
    body = json.dumps({**value, "message": message, "reason": reason, "code": status}).encode()
    return respond(status, body, "application/json", **headers)


def cut_before(exchange: Exchange) -> None:
    """A connection that breaks before the server has seen the request."""
    exchange.cut()


def cut_after(exchange: Exchange) -> None:
    """A connection that breaks after the server has acted."""
    exchange.forward()
    exchange.cut()


def hang(exchange: Exchange) -> None:
    """A server that takes the request and never answers; it has not acted."""
    exchange.hang()


def hang_after(exchange: Exchange) -> None:
    """A server that has acted and whose answer never comes."""
    exchange.forward()
    exchange.hang()


def truncate(*, framed: bool) -> Action:
    """Half of the answer's body; ``framed``: with a Content-Length that fits the half, else the connection breaks."""

    def act(exchange: Exchange) -> None:
        response = exchange.forward()
        whole = len(response.body)
        response.body = response.body[: whole // 2]
        exchange.answer(response, None if framed else whole)
        exchange.cut()

    return act


def cut_stream(longest: int) -> Action:
    """A watch, or a log that is followed, whose connection breaks after some bytes."""
    return lambda exchange: exchange.stream(longest)


def html(status: int) -> Action:
    """The page of some load balancer that has no server behind it, or takes us for a browser."""
    page = b"<html><head><title>It works?</title></head><body><center><h1>nginx</h1></center></body></html>\n"
    return respond(status, page, "text/html")


def matching(
    method: str | None = None, path: str | None = None, *, writes: bool | None = None, watch: bool | None = None
) -> Predicate:
    """Requests with this method, whose path ends like this, that write (or do not), that watch (or do not)."""

    def test(request: Request) -> bool:
        return (
            (method is None or request.method == method)
            and (path is None or request.path.endswith(path))
            and (writes is None or request.is_write == writes)
            and (watch is None or request.is_watch == watch)
        )

    return test


def nth(number: int, predicate: Predicate = lambda _: True, *, last: int | None = None) -> Predicate:
    """Only the n-th request that a predicate finds, or the n-th to the ``last``-th; counts by itself."""
    lock = threading.Lock()
    seen = 0

    def test(request: Request) -> bool:
        nonlocal seen
        if not predicate(request):
            return False
        with lock:
            seen += 1
            return number <= seen <= (number if last is None else last)

    return test


def on(predicate: Predicate, action: Action) -> Policy:
    """An action for the requests that a predicate finds."""
    return lambda request: action if predicate(request) else None


def first_of(*policies: Policy) -> Policy:
    """The action of the first policy that has one; later policies see only what earlier ones let pass."""

    def decide(request: Request) -> Action | None:
        for policy in policies:
            action = policy(request)
            if action is not None:
                return action
        return None

    return decide


def from_the_first(predicate: Predicate, action: Action) -> Policy:
    """From the first request that a predicate finds, which itself is let through, every request fails."""
    begun = threading.Event()

    def policy(request: Request) -> Action | None:
        if begun.is_set():
            return action
        if predicate(request):
            begun.set()
        return None

    return policy


class _Connection:
    """A TLS connection to the API server that carries one request after another."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=UPSTREAM_TIMEOUT)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self._reader: BufferedReader = self.socket.makefile("rb")
        self.reusable = True

    def send(self, request: Request) -> Response:
        """Send a request and read the answer's head."""
        lines = [f"{request.method} {request.target} HTTP/1.1", "Host: 127.0.0.1"]
        left_out = ("host",) if request.is_upgrade else ("host", *_FRAMING)
        lines += [f"{key}: {value}" for key, value in request.headers if key.lower() not in left_out]
        if request.body:
            lines.append(f"Content-Length: {len(request.body)}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
        return _read_head(self._reader)

    def body(self, response: Response) -> bytes:
        """Read the complete body of an answer."""
        self.reusable = (response.header("Connection") or "").lower() != "close"
        if response.status in (204, 304):
            return b""
        length = response.header("Content-Length")
        if length is not None:
            return _read(self._reader, int(length))
        if (response.header("Transfer-Encoding") or "").lower() == "chunked":
            return b"".join(self._chunks())
        self.reusable = False
        return self._reader.read()

    def available(self) -> bytes | None:
        """Return the bytes of a stream that have arrived, still encoded; empty: none at the moment; None: the stream
        has ended.
        """
        self.socket.setblocking(False)
        try:
            # Callers come back until nothing is left: OpenSSL may hold what `select` on the socket does not see.
            data = self._reader.read1(CHUNK)
        except (ssl.SSLWantReadError, BlockingIOError):
            return b""
        finally:
            self.socket.settimeout(UPSTREAM_TIMEOUT)
        return data or None

    def is_open(self) -> bool:
        """Return True if the server keeps the connection open and no unread bytes are left."""
        readable, _, _ = select.select([self.socket], [], [], 0)
        return not readable

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):
            self._reader.close()
            self.socket.close()

    def _chunks(self) -> list[bytes]:
        chunks: list[bytes] = []
        while True:
            size = int(_line(self._reader).split(b";")[0], 16)
            if not size:
                break
            chunks.append(_read(self._reader, size))
            _line(self._reader)
        while _line(self._reader):
            pass
        return chunks


class Upstream:
    """The API server behind all proxies of a session: their requests share its connections."""

    def __init__(self, port: int, authority: Path) -> None:
        self._port = port
        self._authority = authority
        self._context: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def take(self) -> _Connection:
        """An open connection; raises :class:`Broken` when the server cannot be reached."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
                if self._context is None:
                    self._context = ssl.create_default_context(cafile=str(self._authority))
            if connection is None:
                try:
                    return _Connection(self._port, self._context)
                except OSError as error:
                    raise Broken(f"the API server cannot be reached: {error}") from error
            if connection.is_open():
                return connection
            connection.close()

    def exchange(self, request: Request) -> Response:
        """Send a request and read the complete response; raises :class:`Broken` without one."""
        connection = self.take()
        try:
            response = connection.send(request)
            response.body = connection.body(response)
        except (OSError, ValueError) as error:
            connection.close()
            raise Broken(f"the API server did not answer: {error}") from error
        if connection.reusable:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()
        return response

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


class Proxy:
    """A proxy on a loopback port of its own, from ``with`` to its end.

    ``token`` is sent for requests that carry none: kubectl and gpuctl send no credentials over plain HTTP.
    """

    def __init__(
        self, plane: ControlPlane, upstream: Upstream, policy: Policy | None = None, *, token: str | None = None
    ) -> None:
        self.plane = plane
        self.upstream = upstream
        self.policy = policy
        self.token = token
        self.closed = False
        self.records: list[Record] = []
        self._lock = threading.Lock()
        self._clients: set[socket.socket] = set()
        self._busy = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, name=f"proxy-{self.port}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            # Wakes the thread that accepts; closing alone would not.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for client in self._clients:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def reset(self, policy: Policy | None = None) -> None:
        """Forget what was recorded, count from 1 again, and follow another policy."""
        with self._lock:
            self.records = []
            self.policy = policy

    def writes(self) -> list[str]:
        """The requests that may have changed something, in order, readable."""
        with self._lock:
            return [str(record) for record in self.records if record.request.is_write and record.forwarded]

    def count(self) -> int:
        """Return the number of requests received."""
        with self._lock:
            return len(self.records)

    def drain(self, timeout: float = 60) -> None:
        """Wait until no request is under way but watches: a client that was killed may have left some."""
        deadline = time.monotonic() + timeout
        while self._busy:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._busy} requests are still under way after {timeout:.0f} s")
            time.sleep(0.005)

    def cut(self) -> None:
        """Break every connection of a client, watches too."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def kubeconfig(self, path: Path, *, token: str | None = None, namespace: str = "default") -> Path:
        """Write a kubeconfig whose server is this proxy; ``token``, which it sends on, is the admin's unless given."""
        self.token = token or self.plane.tokens["admin"]
        return write_kubeconfig(path, {"server": f"http://127.0.0.1:{self.port}"}, self.token, namespace)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # Whatever breaks ends this connection and no other; the record shows that there was no answer.
        try:
            with client, client.makefile("rb") as reader, contextlib.suppress(OSError, Broken, ValueError):
                while True:
                    self._handle(client, reader)
        finally:
            with self._lock:
                self._clients.discard(client)

    def _handle(self, client: socket.socket, reader: BufferedReader) -> None:
        method, target, headers, body = _read_request(reader)
        if self.token is not None and not any(key.lower() == "authorization" for key, _ in headers):
            headers = (*headers, ("Authorization", f"Bearer {self.token}"))
        with self._lock:
            record = Record(Request(len(self.records) + 1, method, target, headers, body))
            self.records.append(record)
            policy = self.policy
            self._busy += not record.request.is_watch
        exchange = Exchange(self, client, record)
        try:
            action = policy(record.request) if policy is not None else None
            if action is None:
                exchange.pass_on()
            else:
                action(exchange)
        except (OSError, Broken, ValueError) as error:
            record.problem = str(error)
            raise
        finally:
            with self._lock:
                self._busy -= not record.request.is_watch


def write_kubeconfig(path: Path, cluster: Mapping[str, Any], token: str, namespace: str = "default") -> Path:
    """A kubeconfig with one context, ``test``: the form of :class:`ControlPlane`'s, any cluster entry and token."""
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": dict(cluster)}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
        "current-context": "test",
    }
    path.touch(0o600)
    path.write_text(json.dumps(value))
    return path


def _head(response: Response, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {response.reason}", *(f"{key}: {value}" for key, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _read_head(reader: BufferedReader) -> Response:
    version, status, *reason = _line(reader).decode("latin-1").split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError(f"not HTTP: {version}")
    return Response(int(status), "".join(reason), list(_read_headers(reader)), b"")


@contextlib.contextmanager
def in_front_of(plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy before a control plane's API server, with connections of its own."""
    upstream = Upstream(plane.port, plane.directory / "certificates" / "apiserver.crt")
    with Proxy(plane, upstream) as running:
        yield running
    upstream.close()


def _read_request(reader: BufferedReader) -> tuple[str, str, tuple[tuple[str, str], ...], bytes]:
    line = _line(reader).decode("latin-1")
    if not line:
        raise Broken("the client has closed its connection")
    method, target, _ = line.split(" ")
    headers = tuple(_read_headers(reader))
    fields = {key.lower(): value for key, value in headers}
    if "transfer-encoding" in fields:
        raise ValueError("a request's body in chunks is more than this proxy understands")
    return method, target, headers, _read(reader, int(fields.get("content-length", "0")))


def _read_headers(reader: BufferedReader) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    while line := _line(reader).decode("latin-1"):
        key, _, value = line.partition(":")
        headers.append((key, value.strip()))
    return headers


def _line(reader: BufferedReader) -> bytes:
    return reader.readline(CHUNK).rstrip(b"\r\n")


def _read(reader: BufferedReader, length: int) -> bytes:
    data = reader.read(length)
    if len(data) != length:
        raise ValueError(f"{len(data)} of {length} bytes, then the connection ended")
    return data
