"""uvicorn's connections, so that one can be cut off whose client does not read: an ASGI application cannot do that.

Each scope's ``state`` gets ``cut``. An answer that its client does not read would otherwise stay in memory, and its
connection open, for as long as the client likes.
"""

from __future__ import annotations

import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

_SEND_BUFFER = 128 * 1024
"""Bytes that the kernel keeps for a client: by itself it would let them grow to megabytes."""
_GRACE = 30.0
"""Seconds in which a WebSocket's client can still read what was sent, and that it is cut off."""
_UNREADABLE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class CuttableHttp(HttpToolsProtocol):
    """``cut()`` closes the connection, whatever has not gone out yet."""

    def on_message_begin(self) -> None:
        """As uvicorn's."""
        super().on_message_begin()
        self.scope["state"]["cut"] = self.transport.abort


class CuttableWebSocket(WebSocketsSansIOProtocol):
    """``cut(code, reason)`` sends a close frame behind what waits, and closes the connection some time later."""

    def handle_connect(self, event: Request) -> None:
        """As uvicorn's."""
        own: socket.socket | None = self.transport.get_extra_info("socket")
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["state"]["cut"] = self.cut

    def data_received(self, data: bytes) -> None:
        """As uvicorn's, which would leave a client waiting whose request cannot be read: of lines that are too long."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.transport.write(_UNREADABLE)
            self.transport.close()

    def keepalive_timeout(self) -> None:
        """As uvicorn's; who does not answer does not read either."""
        super().keepalive_timeout()
        self.transport.abort()

    def cut(self, code: int, reason: str) -> None:
        """Close it, without waiting for what the client has not read."""
        if self.close_sent or self.transport.is_closing():
            return
        self.stop_keepalive()
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(_GRACE, self.transport.abort)
