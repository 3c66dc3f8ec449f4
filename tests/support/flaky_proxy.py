"""A TCP proxy before the service that fails connections in their turn, as networks and load balancers do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

AWAY = b'{"error": "ServiceUnavailable", "message": "away", "details": []}'
_ANSWER = b"HTTP/1.1 %d Away\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


class FlakyProxy:
    """``plan`` has what becomes of the next connections: a status (answered with it), ``refused`` (closed at once),
    ``cut`` (the request is carried out, its answer lost); without a plan they pass. ``failed`` counts."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._upstream = (where.hostname, where.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.plan: list[int | str] = []
        self.failed = 0
        self._open: list[socket.socket] = []

    def reopen(self) -> None:
        """Accept connections again at the same address."""
        self._listener = socket.create_server(("127.0.0.1", urlsplit(self.url).port or 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        """Until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def close(self) -> None:
        """End it, with its connections; a second time nothing happens."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Cut what is connected."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _handle(self, client: socket.socket) -> None:
        action = self.plan.pop(0) if self.plan else "pass"
        with client, suppress(OSError):
            if action != "pass":
                self.failed += 1
            if isinstance(action, int):
                _read_request(client)
                client.sendall(_ANSWER % (action, len(AWAY), AWAY))
            elif action != "refused":
                self._relay(client, answers=action == "pass")

    def _relay(self, client: socket.socket, *, answers: bool) -> None:
        with socket.create_connection(self._upstream) as server:
            self._open.append(server)
            if not answers:
                server.sendall(_read_request(client))
                server.recv(1)
                return
            there = threading.Thread(target=_pass_on, args=(client, server), daemon=True)
            there.start()
            _pass_on(server, client)
            there.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(client)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += _more(client)
    return head + b"\r\n\r\n" + body


def _more(client: socket.socket) -> bytes:
    data = client.recv(65536)
    if not data:
        raise ConnectionResetError
    return data


@contextmanager
def flaky(url: str) -> Iterator[FlakyProxy]:
    """A proxy before a service, for as long as the block lasts."""
    proxy = FlakyProxy(url)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(timeout=10)
