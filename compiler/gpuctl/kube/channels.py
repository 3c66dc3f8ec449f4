"""Several streams to and from a pod over one WebSocket, for exec and port-forward.

Every message begins with the number of its channel. Sources: Kubernetes' ``v5.channel.k8s.io`` and
``v4.channel.k8s.io`` (``k8s.io/apimachinery/pkg/util/remotecommand/constants.go``,
``k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go``), frames of RFC 6455. The package websocket-client makes
the handshake. Its streams block in one direction while the other waits: a command that receives more input than it
reads would hang. Therefore frames are read and written here.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed, api_error
from gpuctl.kube.error_text import innermost_reason
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
PORTION = 32 * 1024
"""Maximum payload of one message, bytes; kubectl sends the same."""
_FULL = 1024 * 1024
LARGEST = 16 * 1024 * 1024
"""Maximum size of a received message, in one frame or several, bytes. API servers and kubelets send 32 KiB at once."""
HANDSHAKE = 30.0
KEEP_ALIVE = 20.0
"""Seconds of silence after which a ping is sent: load balancers drop connections that are silent for a minute."""
_CLOSING, _PING, _PONG, _BINARY = 0x8, 0x9, 0xA, 0x2
_NORMAL = 1000


class Message(NamedTuple):
    """A received message: channel number and payload."""

    channel: int
    data: bytes


class Channels:
    """An open WebSocket. No method blocks: callers poll :meth:`fileno`. For one thread at a time.

    ``protocol`` is the one that the server chose. ``closed`` is True when nothing more will be received. A broken
    connection raises no exception, because a caller that has received its result does not need it; see :attr:`failure`.
    """

    def __init__(self, connected: socket.socket, protocol: str) -> None:
        connected.setblocking(False)
        self._socket = connected
        self.protocol = protocol
        self._in = bytearray()
        self._out = bytearray()
        self._message = bytearray()
        self._last = time.monotonic()
        self._unsent = ""
        self._problem = ""
        self.closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_buffered(self) -> bool:
        """Return True if decrypted bytes are buffered by TLS, which polling the socket does not show."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes that are not sent yet."""
        return len(self._out)

    @property
    def can_send(self) -> bool:
        """Return True if more data may be sent: the connection is open and the send buffer is not full."""
        return not self.closed and not self._unsent and len(self._out) < _FULL

    @property
    def failure(self) -> ConnectionFailed | None:
        """The error that closed the connection; None after a normal close."""
        if not self._problem:
            return None
        return ConnectionFailed(say("the connection to the pod broke: {reason}", reason=self._problem))

    def send(self, channel: int, data: bytes) -> None:
        """Queue data for a channel and send as much as the socket takes. Data is discarded after the other side has
        closed.
        """
        for start in range(0, max(1, len(data)), PORTION):
            self._frame(_BINARY, bytes([channel]) + data[start : start + PORTION])
        self.flush()

    def close_channel(self, channel: int) -> bool:
        """Close a channel. Return False if the server's protocol (v4) cannot."""
        if self.protocol != V5:
            return False
        self._frame(_BINARY, bytes([_CLOSE, channel]))
        self.flush()
        return True

    def keep_alive(self) -> None:
        """Send a ping if nothing was sent for :data:`KEEP_ALIVE` seconds."""
        if not self.closed and time.monotonic() > self._last + KEEP_ALIVE:
            self._frame(_PING, b"")
            self.flush()

    def flush(self) -> None:
        """Send as much of the queued data as the socket takes without blocking."""
        try:
            while self._out:
                sent = self._socket.send(memoryview(self._out)[:65536])
                del self._out[:sent]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return
        except OSError as error:
            # Usually the server has sent everything and closed: what it sent still has to be read.
            self._unsent = innermost_reason(error)
            self._out = bytearray()

    def receive(self) -> list[Message]:
        """Return the messages received so far; sets ``closed`` at the end of the stream."""
        try:
            data = self._socket.recv(65536)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return []
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            data = b""
        except OSError as error:
            self.closed, self._problem = True, innermost_reason(error)
            return []
        if not data:
            self.closed, self._problem = True, self._unsent
        self._in += data
        return self._messages()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def _messages(self) -> list[Message]:
        found = []
        while (frame := self._next()) is not None:
            last, opcode, payload = frame
            if opcode == _CLOSING:
                self.closed, self._problem = True, _close_reason(payload)
            elif opcode == _PING:
                self._frame(_PONG, payload)
                self.flush()
            elif opcode != _PONG:
                self._message += payload
                if last and self._message:
                    found.append(Message(self._message[0], bytes(self._message[1:])))
                if last:
                    self._message.clear()
        return found

    def _next(self) -> tuple[bool, int, bytes] | None:
        """Return the next complete frame (is last, opcode, payload), or None. A server's frames are not masked."""
        if len(self._in) < 2:
            return None
        length, start = self._in[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            if len(self._in) < start:
                return None
            length = int.from_bytes(self._in[2:start], "big")
        if length + len(self._message) > LARGEST:
            self.closed = True
            self._problem = say("it announced a message of more than {most} MiB", most=LARGEST // 2**20)
            self._in.clear()
            return None
        if len(self._in) < start + length:
            return None
        head, payload = self._in[0], bytes(self._in[start : start + length])
        del self._in[: start + length]
        return bool(head & 0x80), head & 0x0F, payload

    def _frame(self, opcode: int, payload: bytes) -> None:
        from websocket import ABNF

        self._last = time.monotonic()
        if not self._unsent:
            self._out += ABNF.create_frame(payload, opcode).format()


def _close_reason(payload: bytes) -> str:
    """Return why the other side closed the connection; "" after a normal close (RFC 6455, 5.5.1 and 7.4)."""
    code = int.from_bytes(payload[:2], "big")
    if code in (0, _NORMAL):
        return ""
    reason = visible(payload[2:125].decode("utf-8", "replace").strip())
    if not reason:
        return say("it was closed with code {code}", code=code)
    return say("it was closed with code {code}: {reason}", code=code, reason=reason)


def open_channels(connected: socket.socket, url: str, headers: Sequence[str], protocols: tuple[str, ...]) -> Channels:
    """Open a WebSocket over a connection to the server. On failure the connection is closed.

    :raises ApiError: the API server, or the node behind it, refuses.
    :raises ConnectionFailed: no response, or not a WebSocket handshake.
    """
    import websocket

    opened: Any = websocket.WebSocket()
    # A redirect is not followed: its target would receive the credentials.
    options: dict[str, Any] = {"socket": connected, "redirect_limit": 0, "suppress_origin": True}
    try:
        opened.connect(url, header=[*headers, f"sec-websocket-protocol: {','.join(protocols)}"], **options)
    except websocket.WebSocketBadStatusException as error:
        raise _refusal(error) from None
    except websocket.WebSocketTimeoutException:
        raise ConnectionFailed(
            say("the pod's node gave no answer within {seconds} s", seconds=f"{HANDSHAKE:.0f}")
        ) from None
    except (websocket.WebSocketException, OSError, ValueError) as error:
        raise ConnectionFailed(
            say("no WebSocket connection to the API server: {reason}", reason=innermost_reason(error)),
            say("a proxy in between may not support WebSockets"),
        ) from None
    # websocket-client exposes the chosen protocol only if it wrote the protocol header itself.
    return Channels(connected, (opened.getheaders() or {}).get("sec-websocket-protocol") or "")


def _refusal(error: Any) -> ClusterError:
    body = error.resp_body or b""
    body = body.encode() if isinstance(body, str) else bytes(body)
    refused = api_error(error.status_code, body, {})
    if not refused.raw and body.strip():
        # The kubelet's own message, as plain text.
        return ApiError(error.status_code, "", body.decode("utf-8", "replace").strip())
    return refused
