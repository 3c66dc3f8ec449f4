"""A server that answers every request with the same bytes, for what clients make of them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time

from support.certificates import Pair


class Server:
    """A server that answers each request with the same bytes; ``opened`` counts its connections.

    ``hangs_up`` closes a connection after an answer, ``delay`` is before each answer, in seconds.
    """

    def __init__(self, answer: bytes, *, hangs_up: bool = False, delay: float = 0.0, certificate: Pair | None = None):
        self.requests: list[bytes] = []
        self.opened: list[socket.socket] = []
        self._answer = answer
        self._hangs_up = hangs_up
        self._delay = delay
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close every socket."""
        # Closed alone, it would still be listening for the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connections."""
        for opened in self.opened:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def say(self, data: bytes) -> None:
        """Send more on the newest connection."""
        self.opened[-1].sendall(data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connected = self._listener.accept()[0]
                if self._context is not None:
                    connected = self._context.wrap_socket(connected, server_side=True)
                self.opened.append(connected)
                threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, contextlib.suppress(OSError):
            while data := connected.recv(65536):
                self.requests.append(data)
                time.sleep(self._delay)
                connected.sendall(self._answer)
                if self._hangs_up:
                    return
