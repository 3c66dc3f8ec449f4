"""A way to a server that can be cut, closed and opened again under one address."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class CutWay:
    """Carries connections to a server. ``deaf``: what it answers does not come back, and the connection ends."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self.deaf = False
        self.url = f"http://127.0.0.1:{self._port}"
        self._serve()

    def cut(self) -> None:
        """End all connections that there are."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no further connections, and end the open ones."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def reopen(self) -> None:
        """Take connections again."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._target)
                self._open |= {client, server}
                threading.Thread(target=self._carry, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._carry, args=(server, client, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self.deaf:
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            self._open.discard(one)
