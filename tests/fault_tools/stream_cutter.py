"""Something between a client and an API server that breaks connections to pods at a chosen moment.

It ends TLS on both sides, so that what it does is what a load balancer or a server that is in a hurry does: the client
has a message, and a connection that is gone without a close_notify.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from pathlib import Path

from control_plane import ControlPlane
from fault_tools.proxy import write_kubeconfig

_PORTION = 65536
_UPGRADED = b"HTTP/1.1 101 "
# A port's first message is its number alone.
_HEADER = 3


class StreamCutter:
    """Passes everything on, from ``with`` to its end; a WebSocket ends with the first data of a channel.

    ``deaf``: what the client says in a WebSocket is not read, so that it has always more to send.
    """

    def __init__(self, plane: ControlPlane, channel: int, *, deaf: bool = False) -> None:
        self._plane = plane
        self._channel = channel
        self._deaf = deaf
        certificate = str(plane.directory / "certificates" / "apiserver.crt")
        # Clients trust the API server's own certificate: it is this one's, too.
        self._ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ours.load_cert_chain(certificate, str(plane.directory / "certificates" / "apiserver.key"))
        self._authority = Path(certificate)
        self._theirs = ssl.create_default_context(cafile=certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Keep unread bytes out of the kernel's buffers, so that they are counted.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PORTION)

    def __enter__(self) -> StreamCutter:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def kubeconfig(self, path: Path, namespace: str) -> Path:
        """Write a kubeconfig of the admin whose server this is."""
        server = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        cluster = {"server": server, "certificate-authority": str(self._authority)}
        return write_kubeconfig(path, cluster, self._plane.tokens["admin"], namespace)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with (
            contextlib.suppress(OSError),
            self._ours.wrap_socket(client, server_side=True) as near,
            socket.create_connection(("127.0.0.1", self._plane.port)) as connected,
            self._theirs.wrap_socket(connected, server_hostname="127.0.0.1") as far,
        ):
            self._relay(near, far)

    def _relay(self, near: ssl.SSLSocket, far: ssl.SSLSocket) -> None:
        sources = [near, far]
        answer = bytearray()
        upgraded = False
        while True:
            for source in select.select(sources, [], [])[0]:
                data = _available(source)
                if data is None:
                    return
                if source is near:
                    far.sendall(data)
                    continue
                answer += data
                if not upgraded and answer.startswith(_UPGRADED) and b"\r\n\r\n" in answer:
                    upgraded = True
                    end = answer.index(b"\r\n\r\n") + 4
                    near.sendall(answer[:end])
                    del answer[:end]
                    if self._deaf:
                        sources.remove(near)
                if not upgraded:
                    near.sendall(answer)
                    answer.clear()
                while upgraded and (frame := _frame(answer)):
                    near.sendall(frame[0])
                    if frame[1][:1] == bytes([self._channel]) and len(frame[1]) > _HEADER:
                        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return


def _available(source: ssl.SSLSocket) -> bytes | None:
    """Return the bytes that have arrived, empty if there are none, because TLS has messages of its own; None: the
    stream has ended.
    """
    found = b""
    source.setblocking(False)
    try:
        while data := source.recv(_PORTION):
            found += data
    except ssl.SSLWantReadError:
        return found
    finally:
        source.setblocking(True)
    return found or None


def _frame(data: bytearray) -> tuple[bytes, bytes] | None:
    """Take a complete server frame from the received bytes: the frame, and its payload."""
    if len(data) < 2:
        return None
    length, start = data[1] & 0x7F, 2
    if length >= 126:
        start = 4 if length == 126 else 10
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        return None
    frame = bytes(data[: start + length])
    del data[: start + length]
    return frame, frame[start:]
