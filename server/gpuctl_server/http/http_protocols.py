"""uvicorn's protocols with limits on request heads and on the time of clients, and with a way to abort a connection.

uvicorn limits neither the size of a request line and headers nor the time in which they arrive. An ASGI application
cannot close the connection of a client that does not read. For that, the ``state`` of each scope gets ``cut``.
"""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio.events import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from gpuctl_server.http.connections import Connections

LARGEST_HEAD = 32 * 1024
"""Maximum size of a request line with its headers, or of the trailers of a body, bytes."""
MOST_HEADERS = 100
MOST_PIPELINED = 100
"""Maximum number of pipelined requests of a connection."""
_TOO_LARGE = f"the request line and headers are larger than {LARGEST_HEAD} bytes"
_ERRORS = {400: "BadRequest", 408: "RequestTimeout", 431: "RequestHeaderFieldsTooLarge"}
_PIECE = 16 * 1024
"""Number of bytes that are parsed at once. The limits are checked between two pieces."""
KEEP_ALIVE = 620.0
"""Seconds that a connection stays open after an answer: longer than clients and proxies keep one (httpx 5, nginx and
AWS 60, Go 90, Google Cloud 600). If the service closed it first, a request might already be on its way.
"""
LINGER = 5.0
"""Seconds in which the rest of a request is read and dropped after its answer, so that the client gets the answer."""
_STALLED = 30.0
"""Seconds in which a client must read a part of what was sent."""
_SEND_BUFFER = 128 * 1024
"""Size of the kernel's send buffer, bytes. By default it would grow to megabytes."""
_GRACE = 30.0
"""Seconds in which the client of a WebSocket may read the rest, including the close frame, after it was cut off."""
_UNREADABLE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class LimitedHttp(HttpToolsProtocol):
    """HTTP/1.1 with limits. A client that exceeds one gets 400, 408 or 431, and the connection is closed.

    :param head_timeout: seconds from the first byte of a request (for the first one: from the start of the connection)
        to the end of its headers.
    """

    def __init__(self, connections: Connections, head_timeout: float, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._connections = connections
        self._head_timeout = head_timeout
        self._deadline: TimerHandle | None = None
        self._stall: TimerHandle | None = None
        self._is_idle = True
        self._in_head = False
        self._is_over = False
        self._too_large = ""
        self._head = 0
        """Size of the request line and headers so far, bytes."""
        self._size = 0
        """Bytes since the last headers, part of a body, or request ended."""

    @property
    def _answers(self) -> bool:
        """True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    # What the client sends

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._connections.waits(self, transport.abort)
        self._expect(self._head_timeout)

    def data_received(self, data: bytes) -> None:
        """Parse data of the client, within the limits."""
        if self._is_idle:
            self._is_idle = False
            self._expect(self._head_timeout)
        for start in range(0, len(data), _PIECE):
            if self._is_over or self.transport.is_closing():
                return
            piece = data[start : start + _PIECE]
            self._size += len(piece)
            super().data_received(piece)
            if self._size > LARGEST_HEAD:
                self._reject(431, _TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._too_large = f"more than {MOST_PIPELINED} requests wait for an answer on one connection"
            raise ValueError
        super().on_message_begin()
        self._head = 0
        self._in_head = True
        self._expect(self._head_timeout)
        self.scope["state"]["cut"] = self.transport.abort

    def on_url(self, url: bytes) -> None:
        """Add a part of the request line."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header or a trailer."""
        self._count(len(name) + len(value) + len(b": \r\n"))
        if len(self.headers) >= MOST_HEADERS:
            self._too_large = f"the request has more than {MOST_HEADERS} headers"
            raise ValueError
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LARGEST_HEAD:
            self._too_large = _TOO_LARGE
            raise ValueError

    def on_headers_complete(self) -> None:
        """Pass the request to the application, which limits the time of its body."""
        self._size = 0
        self._in_head = False
        self._expect(None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        self._size = 0
        super().on_message_complete()
        if self._answers:
            self._connections.works(self)
        elif self.cycle is not None and not self._is_over:
            # The answer was complete before the body.
            self._wait_for_next()

    def handle_websocket_upgrade(self) -> None:
        """Pass the connection to the WebSocket protocol, which pings its client."""
        self._is_over = True
        self._expect(None)
        self._connections.works(self)
        super().handle_websocket_upgrade()

    # What the client receives

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        if self.pipeline or self._is_over:
            return
        if self.transport.is_closing():
            self._watch_reading()
        elif self.cycle.more_body:
            self._expect(LINGER)
        elif self._in_head:
            self._expect(self._head_timeout)
        else:
            self._wait_for_next()
        self._connections.waits(self, self.transport.abort)

    def _wait_for_next(self) -> None:
        self._is_idle = True
        self._expect(KEEP_ALIVE)

    def pause_writing(self) -> None:
        """Begin to watch if the client reads."""
        super().pause_writing()
        self._watch_reading()
        self._connections.waits(self, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client has read."""
        super().resume_writing()
        if self._answers:
            self._connections.works(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._is_over = True
        self._expect(None)
        if self._stall is not None:
            self._stall.cancel()
        self._connections.works(self)
        super().connection_lost(exc)

    # Limits

    def _expect(self, seconds: float | None) -> None:
        """Set the time limit of the client's next step, seconds; None: no limit."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expired)

    def _expired(self) -> None:
        if self._answers:
            # The client has sent a part of the next request ahead.
            self._expect(self._head_timeout)
        elif self.transport.get_write_buffer_size():
            if self._stall is None:
                self._watch_reading()
            self._expect(self._head_timeout)
        elif self._in_head and not self._is_over:
            self._reject(408, f"the request line and headers did not arrive within {self._head_timeout:g} s")
        elif self._is_idle and not self.transport.is_closing():
            self.transport.close()
            self._expect(LINGER)
        else:
            self.transport.abort()

    def _watch_reading(self, left: int | None = None) -> None:
        """Abort the connection if the client reads nothing for a while."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        size = self.transport.get_write_buffer_size()
        # While an answer is written, the buffer only shrinks if writing is paused.
        is_written = self._answers and not self.flow.write_paused
        if is_written or not (size or self.transport.is_closing()):
            return
        if left is not None and size >= left:
            self.transport.abort()
        else:
            self._stall = self.loop.call_later(_STALLED, self._watch_reading, size)

    def send_400_response(self, msg: str) -> None:
        """Reject a request that cannot be parsed, or that exceeds a limit."""
        self._reject(431 if self._too_large else 400, self._too_large or "the request is not valid HTTP/1.1")

    def _reject(self, status: int, message: str) -> None:
        """Answer a request that does not reach the application, and close the connection."""
        if self._is_over:
            return
        self._is_over = True
        if self._answers:
            # An error answer within another answer would be read as a part of it.
            self.transport.close()
            self._watch_reading()
            return
        body = json.dumps({"error": _ERRORS[status], "message": message, "details": []}).encode()
        head = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
        self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
        # Data of the client may still arrive. After an immediate close it would see a reset instead of the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._expect(LINGER)


class AbortableWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose ``cut(code, reason)`` sends a close frame, and closes the connection some time later."""

    def handle_connect(self, event: Request) -> None:
        """Limit the send buffer, and offer ``cut`` to the application."""
        own: socket.socket | None = self.transport.get_extra_info("socket")
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["state"]["cut"] = self.cut

    def data_received(self, data: bytes) -> None:
        """Answer 400 to a handshake that cannot be parsed (lines too long). uvicorn would leave the client waiting."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.transport.write(_UNREADABLE)
            self.transport.close()

    def keepalive_timeout(self) -> None:
        """Abort the connection: a client that does not answer pings does not read a close frame either."""
        super().keepalive_timeout()
        self.transport.abort()

    def cut(self, code: int, reason: str) -> None:
        """Close the connection without waiting until the client has read everything."""
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
