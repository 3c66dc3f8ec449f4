"""Connections to a port of a pod, each through a WebSocket of its own.

Source: ``k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go``. Channel 0 is data, channel 1 errors; both begin
with the port in two bytes. The protocol cannot close one direction alone: when the client has finished sending, the pod
does not learn it.
"""

from __future__ import annotations

import re
import select
import socket
import time

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.channels import V4, Channels
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key

_DATA, _ERROR = 0, 1
_HEADER = 2
_TICK = 1_000
_FULL = 1024 * 1024
"""The pod is not read while this number of bytes waits for the client."""
LINGER = 30.0
"""Seconds of silence before a connection is closed whose client has finished sending or disconnected; both look the
same.
"""
_REFUSED = re.compile(r"connection refused")


class NotForwarded(ClusterError):
    """The pod's side of a connection failed: nothing listens on the port, or the connection broke."""


def forward_connection(session: Session, pod: Key, port: int, client: socket.socket) -> None:
    """Forward a client's connection to a port of a pod until either side closes it.

    :raises ApiError: the user may not, or the pod does not run.
    :raises NotForwarded: nothing listens on the port.
    :raises ConnectionFailed: the connection to the pod broke.
    """
    channels = session.channels(f"{pod.path}/portforward", [("ports", str(port))], (V4,))
    try:
        problem = _join(channels, client)
        failure = channels.failure
    finally:
        channels.close()
    if problem:
        if _REFUSED.search(problem):
            raise NotForwarded(f"nothing listens on port {port} of pod {pod.name}")
        raise NotForwarded(f"port {port} of pod {pod.name}: {' '.join(problem.split())[:300]}")
    if failure is not None:
        raise failure


def _join(channels: Channels, client: socket.socket) -> str:
    """Copy bytes in both directions. Return the error of the pod's side, or ""."""
    client.setblocking(False)
    to_client = bytearray()
    heads = {_DATA: _HEADER, _ERROR: _HEADER}
    problem = b""
    silent: float | None = None
    while to_client or not channels.closed:
        poll = select.poll()
        if not channels.closed:
            # Backpressure: the pod is not read while the client does not read.
            wanted = (select.POLLIN if len(to_client) < _FULL else 0) | (select.POLLOUT if channels.unsent_bytes else 0)
            poll.register(channels.fileno(), wanted)
        reads = silent is None and channels.can_send
        if reads or to_client:
            poll.register(client, (select.POLLIN if reads else 0) | (select.POLLOUT if to_client else 0))
        ready = dict(poll.poll(0 if channels.has_buffered and len(to_client) < _FULL else _TICK))
        try:
            if reads and client.fileno() in ready:
                silent = _read(client, channels)
            if channels.unsent_bytes:
                channels.flush()
            if not channels.closed and len(to_client) < _FULL:
                for channel, data in channels.receive():
                    skipped = min(len(data), heads.get(channel, 0))
                    heads[channel] = heads.get(channel, 0) - skipped
                    if channel == _ERROR:
                        problem += data[skipped:]
                    elif channel == _DATA:
                        to_client += data[skipped:]
                        silent = time.monotonic() if silent is not None else None
            if to_client:
                _write(client, to_client)
        except (BrokenPipeError, ConnectionResetError):
            return ""
        if silent is not None and not to_client and time.monotonic() > silent + LINGER:
            return ""
        channels.keep_alive()
    return problem.decode("utf-8", "replace")


def _read(client: socket.socket, channels: Channels) -> float | None:
    """Forward what the client has sent. Return the time at the end of its stream, else None."""
    try:
        data = client.recv(65536)
    except BlockingIOError:
        return None
    if not data:
        return time.monotonic()
    channels.send(_DATA, data)
    return None


def _write(client: socket.socket, data: bytearray) -> None:
    try:
        while data:
            del data[: client.send(memoryview(data)[:65536])]
    except BlockingIOError:
        return
