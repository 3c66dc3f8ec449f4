"""Streams to and from a pod, several over one WebSocket: what exec and port-forward are made of.

Every message begins with the number of its channel. Sources: Kubernetes' ``v5.channel.k8s.io`` and
``v4.channel.k8s.io`` (``k8s.io/apimachinery/pkg/util/remotecommand/constants.go``,
``k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go``), frames of RFC 6455. The handshake is
websocket-client's; its streams block in one direction while the other waits, so that a command fed with more than it
reads would stand still, hence the reading and writing here.
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

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
PORTION = 32 * 1024
"""Bytes of one message: what kubectl sends at once."""
_FULL = 1024 * 1024
LARGEST = 16 * 1024 * 1024
"""Bytes of a message, whole or in frames. API servers and kubelets send 32 KiB at once."""
HANDSHAKE = 30.0
KEEP_ALIVE = 20.0
"""Seconds of silence after which a ping is sent: load balancers forget what is silent for a minute."""
_CLOSING, _PING, _PONG, _BINARY = 0x8, 0x9, 0xA, 0x2
_NORMAL = 1000


class Message(NamedTuple):
    """Bytes of a channel."""

    channel: int
    data: bytes


class Channels:
    """An open WebSocket. Nothing here waits: callers poll :meth:`fileno`; for one thread at a time.

    ``protocol`` is the one that the server chose. ``closed`` tells that nothing more comes. To whoever has received an
    answer it does not matter why, so nothing is raised when the connection breaks: :attr:`failure` tells.
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
        """The socket's descriptor."""
        return self._socket.fileno()

    @property
    def has_buffered(self) -> bool:
        """Whether there is something to receive that polling does not see: TLS has decrypted it already."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    @property
    def waiting(self) -> int:
        """Bytes that wait to be sent."""
        return len(self._out)

    @property
    def can_send(self) -> bool:
        """Whether a sender may go on: there is somebody who hears it, and not too much that waits."""
        return not self.closed and not self._unsent and len(self._out) < _FULL

    @property
    def failure(self) -> ConnectionFailed | None:
        """What broke a connection that is closed; None when it ended in order, or without a word."""
        return ConnectionFailed(f"the connection to the pod broke: {self._problem}") if self._problem else None

    def send(self, channel: int, data: bytes) -> None:
        """Put data into the line, and send what goes. Nobody hears it after the other side has gone."""
        for start in range(0, max(1, len(data)), PORTION):
            self._frame(_BINARY, bytes([channel]) + data[start : start + PORTION])
        self.flush()

    def end(self, channel: int) -> bool:
        """Tell that a channel has ended; False when the server's protocol cannot."""
        if self.protocol != V5:
            return False
        self._frame(_BINARY, bytes([_CLOSE, channel]))
        self.flush()
        return True

    def keep_alive(self) -> None:
        """Send a ping, if nothing was sent for long."""
        if not self.closed and time.monotonic() > self._last + KEEP_ALIVE:
            self._frame(_PING, b"")
            self.flush()

    def flush(self) -> None:
        """Send what goes without waiting."""
        try:
            while self._out:
                sent = self._socket.send(memoryview(self._out)[:65536])
                del self._out[:sent]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return
        except OSError as error:
            # Most often the server has said all and hung up: what it said is still to be read.
            self._unsent = innermost_reason(error)
            self._out = bytearray()

    def receive(self) -> list[Message]:
        """What has come. ``closed`` tells whether it is the end."""
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
        """Hang up."""
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
        """Take a whole frame from what was received; a server's are not masked."""
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
            self._problem = f"it announced a message of more than {LARGEST // 2**20} MiB"
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
    """Return in words why the other side closed the connection, "" if it is done (RFC 6455, 5.5.1 and 7.4)."""
    code = int.from_bytes(payload[:2], "big")
    if code in (0, _NORMAL):
        return ""
    reason = visible(payload[2:125].decode("utf-8", "replace").strip())
    return f"it was closed with code {code}" + (f": {reason}" if reason else "")


def open_channels(connected: socket.socket, url: str, headers: Sequence[str], protocols: tuple[str, ...]) -> Channels:
    """Open a WebSocket over a connection to the server, which it closes when that fails.

    :raises ApiError: the API server, or the node behind it, refuses.
    :raises ConnectionFailed: no answer, or one that is none.
    """
    import websocket

    opened: Any = websocket.WebSocket()
    # A redirect is not followed: it would be given the credentials.
    options: dict[str, Any] = {"socket": connected, "redirect_limit": 0, "suppress_origin": True}
    try:
        opened.connect(url, header=[*headers, f"sec-websocket-protocol: {','.join(protocols)}"], **options)
    except websocket.WebSocketBadStatusException as error:
        raise _refusal(error) from None
    except websocket.WebSocketTimeoutException:
        raise ConnectionFailed(f"the pod's node gave no answer within {HANDSHAKE:.0f} s") from None
    except (websocket.WebSocketException, OSError, ValueError) as error:
        raise ConnectionFailed(
            f"no WebSocket to the API server came about: {innermost_reason(error)}",
            "a proxy in between may not know WebSockets",
        ) from None
    # The client library tells the protocol only of handshakes that it wrote the header of.
    return Channels(connected, (opened.getheaders() or {}).get("sec-websocket-protocol") or "")


def _refusal(error: Any) -> ClusterError:
    body = error.resp_body or b""
    body = body.encode() if isinstance(body, str) else bytes(body)
    refused = api_error(error.status_code, body, {})
    if not refused.raw and body.strip():
        # kubelet's own words, as text.
        return ApiError(error.status_code, "", body.decode("utf-8", "replace").strip())
    return refused
