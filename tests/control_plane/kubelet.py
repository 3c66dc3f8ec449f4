"""The kubelets' side of ``kubectl logs``: what simulated containers write, as kubelet serves it.

kwok can serve a file as the log of a pod, but it does not look at the pod: a container that never started has a log,
and following one that has ended has no end. Here the pod's status decides, with kubelet's words. Everything else that
the API server asks of a kubelet (exec, port-forward) is passed on to kwok, or to :mod:`control_plane.streams`.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import socketserver
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

_FOLLOW_SECONDS = 0.2
_LARGEST_HEAD = 64 * 1024


class LogKey(NamedTuple):
    """Key of a log: ``container`` is "" for all containers of the pod; ``previous`` selects the run before."""

    namespace: str
    pod: str
    container: str = ""
    previous: bool = False


class Line(NamedTuple):
    """A line of a log and when it was written."""

    time: datetime
    text: bytes


class LogOptions(NamedTuple):
    """PodLogOptions of the API, as kubelet gets them in the query."""

    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since: datetime | None
    limit: int | None


class Refused(Exception):
    """kubelet has no log; the message is its words, the status is of HTTP."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Logs:
    """The logs of containers. Without a text of its own, a container prints that it is simulated, then counts."""

    def __init__(self) -> None:
        self._texts: dict[LogKey, list[Line]] = {}
        self._lock = threading.Lock()

    def write(self, key: LogKey, text: str | bytes) -> None:
        """Append lines to a log, with the time of writing; from now on it holds nothing else.

        Simulated lines that a client has read already are older, so that it takes these for new ones.
        """
        data = text.encode() if isinstance(text, str) else text
        now = datetime.now(timezone.utc)
        with self._lock:
            self._texts.setdefault(key, []).extend(Line(now, line) for line in data.removesuffix(b"\n").split(b"\n"))

    def lines(self, key: LogKey, container: dict[str, Any], start: datetime, end: datetime) -> Iterator[Line]:
        """The lines written between two times."""
        with self._lock:
            texts = self._texts.get(key) or self._texts.get(key._replace(container=""))
            texts = None if texts is None else list(texts)
        if texts is not None:
            time = start - timedelta(milliseconds=1)
            for line in texts:
                time = max(line.time, time + timedelta(milliseconds=1))
                yield Line(time, line.text)
            return
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        said = f"simulated container {container['name']}: {' '.join(words) or container['image']}"
        yield Line(start, said.replace("\n", " ").encode())
        for number in range(1, int((end - start).total_seconds()) + 1):
            yield Line(start + timedelta(seconds=number), b"step %d" % number)


class Kubelet:
    """A TLS server for what the API server asks of kubelets."""

    def __init__(self, port: int, certificates: Path, api: str, token: str, kwok_port: int) -> None:
        self.logs = Logs()
        self._kwok_port = kwok_port
        self.streams_port: int | None = None
        self._api = api
        self._token = token
        # Made once, and without proxies: these come from the environment, which tests change.
        trusted = ssl.create_default_context(cafile=str(certificates / "apiserver.crt"))
        self._client = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        self._server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # By default the API server does not verify a kubelet's certificate, so its own is used.
        self._server_context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        kubelet = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # A client may go away at any time, and so may the control plane.
                with contextlib.suppress(OSError):
                    kubelet._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections."""
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, raw: socket.socket) -> None:
        with self._server_context.wrap_socket(raw, server_side=True) as connection:
            head = _read_head(connection)
            target = head.split(b" ", 2)[1].decode("ascii", "replace") if head.count(b" ") >= 2 else ""
            if target.startswith("/containerLogs/"):
                self._serve_logs(connection, target)
            elif head:
                self._pass_on(connection, head)

    def _serve_logs(self, connection: ssl.SSLSocket, target: str) -> None:
        parts = urlsplit(target)
        _, _, namespace, pod, container = parts.path.split("/", 4)
        options = _options(parts.query)
        key = LogKey(namespace, pod, container, options.previous)
        written = False
        try:
            for lines in self._read(key, options):
                if not written:
                    _send_head(connection, 200)
                    written = True
                for line in lines:
                    _send_chunk(connection, line)
                # The client has nothing more to say: what can be read now is its end.
                if select.select([connection], [], [], 0)[0]:
                    return
        except Refused as error:
            if not written:
                _send_head(connection, error.status)
                _send_chunk(connection, str(error).encode())
        connection.sendall(b"0\r\n\r\n")

    def _read(self, key: LogKey, options: LogOptions) -> Iterator[list[bytes]]:
        """Encoded lines in portions, as they come; the end of it is the end of the log."""
        sent: int | None = None
        budget = options.limit
        asked: tuple[str, datetime] | None = None
        first = b""
        while True:
            pod = self._pod(key)
            run = _run(pod, key)
            of = (pod["metadata"]["uid"], run.start)
            if asked not in (None, of):
                # The requested run has ended, and another one has begun, possibly in the next pod of the name and in
                # the same second.
                return
            asked = of
            container = _container(pod, key)
            end = run.end or datetime.now(timezone.utc)
            lines = list(self.logs.lines(key, container, run.start, end))
            if sent and lines[0].text != first:
                # What a test has written takes the place of what was simulated: all of it is new.
                sent = 0
            first = lines[0].text if lines else b""
            fresh = lines[sent or 0 :]
            if sent is None:
                fresh = [line for line in fresh if options.since is None or line.time >= options.since]
                if options.tail is not None:
                    fresh = fresh[max(0, len(fresh) - options.tail) :]
            sent = len(lines)
            portion = []
            for line in fresh:
                stamp = line.time.isoformat(timespec="microseconds").replace("+00:00", "000Z ")
                data = (stamp.encode() if options.timestamps else b"") + line.text + b"\n"
                if budget is not None:
                    data = data[:budget]
                    budget -= len(data)
                portion.append(data)
            yield portion
            if not options.follow or run.end is not None or budget == 0:
                return
            time.sleep(_FOLLOW_SECONDS)

    def _pod(self, key: LogKey) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{quote(key.namespace)}/pods/{quote(key.pod)}"
        request = urllib.request.Request(self._api + path, headers={"Authorization": f"Bearer {self._token}"})
        try:
            with self._client.open(request, timeout=10) as response:
                result: dict[str, Any] = json.load(response)
                return result
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise Refused(f'pod "{key.pod}" does not exist', 404) from None
            raise

    def _pass_on(self, connection: ssl.SSLSocket, head: bytes) -> None:
        streams = head.split(b" ", 2)[1].startswith((b"/exec/", b"/portForward/")) and self.streams_port
        with socket.create_connection(("127.0.0.1", streams or self._kwok_port), timeout=10) as kwok:
            kwok.sendall(head)
            # One thread for both directions: a TLS connection may not be read and written at the same time.
            while True:
                ready: list[socket.socket] = [connection]
                if not connection.pending():
                    ready, _, _ = select.select([connection, kwok], [], [])
                for source in ready:
                    data = source.recv(64 * 1024)
                    if not data:
                        return
                    (kwok if source is connection else connection).sendall(data)


class _Run(NamedTuple):
    """One run of a container; ``end`` is None while it is running."""

    start: datetime
    end: datetime | None


def _run(pod: dict[str, Any], key: LogKey) -> _Run:
    """Return the run that a log belongs to; pkg/kubelet/kubelet_pods.go, validateContainerLogStatus."""
    status = pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
    found = next((item for item in statuses if item["name"] == key.container), None)
    where = f'container "{key.container}" in pod "{key.pod}"'
    if found is None:
        raise Refused(f"{where} is not available")
    state, last = found.get("state") or {}, (found.get("lastState") or {}).get("terminated")
    ended = state.get("terminated")
    if key.previous:
        if not last:
            raise Refused(f'previous terminated container "{key.container}" in pod "{key.pod}" not found')
        return _ended(last)
    if "running" in state:
        return _Run(_time(state["running"]["startedAt"]), None)
    if ended:
        if not ended.get("containerID"):
            raise Refused(f"{where} is terminated")
        return _ended(ended)
    if last:
        return _ended(last)
    reason = (state.get("waiting") or {}).get("reason", "no logs yet")
    words = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }
    raise Refused(f"{where} is waiting to start: {words.get(reason, reason)}")


def _ended(terminated: dict[str, Any]) -> _Run:
    return _Run(_time(terminated["startedAt"]), _time(terminated["finishedAt"]))


def _container(pod: dict[str, Any], key: LogKey) -> dict[str, Any]:
    spec = pod["spec"]
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        if container["name"] == key.container:
            result: dict[str, Any] = container
            return result
    raise Refused(f'container "{key.container}" not found in pod "{key.pod}"', 404)


def _options(query: str) -> LogOptions:
    values = {name: items[-1] for name, items in parse_qs(query).items()}
    since = None
    if "sinceTime" in values:
        since = _time(values["sinceTime"])
    elif "sinceSeconds" in values:
        since = datetime.now(timezone.utc) - timedelta(seconds=int(values["sinceSeconds"]))
    return LogOptions(
        follow=values.get("follow") == "true",
        previous=values.get("previous") == "true",
        timestamps=values.get("timestamps") == "true",
        tail=int(values["tailLines"]) if "tailLines" in values else None,
        since=since,
        limit=int(values["limitBytes"]) if "limitBytes" in values else None,
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _read_head(connection: ssl.SSLSocket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _LARGEST_HEAD:
        more = connection.recv(4096)
        if not more:
            return b""
        data += more
    return data


def _send_head(connection: ssl.SSLSocket, status: int) -> None:
    phrase = {200: "OK", 400: "Bad Request", 404: "Not Found"}[status]
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
    connection.sendall(f"{head}Connection: close\r\n\r\n".encode())


def _send_chunk(connection: ssl.SSLSocket, data: bytes) -> None:
    if data:
        connection.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")
