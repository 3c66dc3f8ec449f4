"""HTTP to one server with urllib3: a connection pool, TLS, proxies, and responses that another thread can abort."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from urllib3 import HTTPConnectionPool, HTTPHeaderDict, HTTPResponse, PoolManager, ProxyManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.ssltransport import SSLTransport

from gpuctl.kube.credentials import Headers
from gpuctl.kube.error_text import reason_text
from gpuctl.kube.proxies import Proxy
from gpuctl.language.sentences import say

CONNECT_TIMEOUT = 10.0
_IDLE = 32
_PORTION = 64 * 1024
_LONGEST_REFUSAL = 1024 * 1024
_PORTS = {"http": 80, "https": 443}


class NotConnected(HTTPError):
    """No connection could be made, so nothing was sent; ``__cause__`` is the reason."""


class _Carriers:
    """The sockets of a client's connections, to end what they do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._aborted = False

    def add(self, carrier: socket.socket) -> None:
        """Add the socket of a new connection. After :meth:`abort` it is useless."""
        with self._lock:
            self._sockets.add(carrier)
            if self._aborted:
                _shut_down(carrier)

    def abort(self) -> None:
        """Shut down all sockets, also those that are added later."""
        with self._lock:
            self._aborted = True
            for carrier in self._sockets:
                _shut_down(carrier)


class _Connection(HTTPConnection):
    """A connection that reports a failure to connect separately from failures of a request.

    ``carrier`` is the TCP socket, or the socket of the TLS session on it.
    """

    carrier: socket.socket
    carriers: _Carriers | None = None
    _dialled: socket.socket | None = None

    def connect(self) -> None:
        try:
            super().connect()
        except (OSError, HTTPError, http.client.HTTPException, ValueError) as error:
            raise NotConnected from error
        finally:
            if self._dialled is not None:
                self._dialled.close()
        self.carrier = self.sock.socket if isinstance(self.sock, SSLTransport) else self.sock
        if self.carriers is not None:
            self.carriers.add(self.carrier)
        # Otherwise urllib3 warns about a server whose certificate the user chose not to verify.
        self.is_verified = True

    def _new_conn(self) -> socket.socket:
        """Return the TCP socket of a new connection, which can be ended during a TLS handshake as well."""
        found = super()._new_conn()
        if self.carriers is not None:
            # The handshake takes the other socket over.
            self._dialled = found.dup()
            self.carriers.add(self._dialled)
        return found


class _TlsConnection(_Connection, HTTPSConnection):
    """A :class:`_Connection` with TLS."""


class Reply:
    """A response whose body is not read yet: ``status``, ``headers``."""

    def __init__(self, response: HTTPResponse, carrier: socket.socket) -> None:
        self._response = response
        self._carrier = carrier
        self.status = response.status
        self.headers = response.headers

    def portions(self) -> Iterator[bytes]:
        """Yield the body as it arrives. When it is read to its end, the connection returns to the pool.

        :raises HTTPError: the connection broke, a read timed out, or the body ended too early.
        """
        while data := self._response.read1(_PORTION):
            yield data

    def refusal(self) -> bytes:
        """Return the body of an error response, as far as it arrives, and close the connection."""
        found = bytearray()
        with contextlib.suppress(HTTPError):
            for portion in self.portions():
                found += portion
                if len(found) >= _LONGEST_REFUSAL:
                    break
        self.close()
        return bytes(found[:_LONGEST_REFUSAL])

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._response.close()

    def abort(self) -> None:
        """End a blocked read from any thread.

        The reading thread must close the response. Only for a response whose connection is not used again.
        """
        _shut_down(self._carrier)


class HttpClient:
    """The connections to one server; safe to use from several threads. ``name``: the name on its certificate."""

    def __init__(self, server: str, name: str, context: ssl.SSLContext | None, proxy: Proxy | None) -> None:
        self._server = urlsplit(server)
        self._proxy = proxy
        self._proxy_headers = dict(proxy.headers) if proxy is not None else {}
        self._tls: dict[str, Any] = {"ssl_context": context, "server_hostname": name or None} if context else {}
        options = {"maxsize": _IDLE, "socket_options": HTTPConnection.default_socket_options, **self._tls}
        manager = PoolManager(**options)
        if proxy is not None:
            trusted = ssl.create_default_context() if proxy.url.startswith("https:") else None
            manager = ProxyManager(proxy.url, proxy_headers=self._proxy_headers, proxy_ssl_context=trusted, **options)
        self._pool: HTTPConnectionPool = manager.connection_from_url(server)
        kind = _TlsConnection if self._pool.scheme == "https" else _Connection
        self._carriers = _Carriers()
        self._pool.ConnectionCls = type(kind.__name__, (kind,), {"carriers": self._carriers})
        # Without TLS there is no tunnel: the request names the whole address and goes to the proxy.
        self._prefix = f"http://{self._server.netloc}" if proxy is not None and context is None else ""

    def send(self, method: str, target: str, fields: Headers, body: bytes | None, patience: float) -> Reply:
        """Send a request once and return the response with its body unread. A redirect is not followed.

        :param patience: read timeout in seconds, also while the body is read.
        :raises NotConnected: nothing was sent.
        :raises HTTPError: the connection broke, a read timed out, or the response is not HTTP.
        """
        response: Any = self._pool.urlopen(
            method,
            self._prefix + target,
            body,
            # UTF-8 bytes as Go sends them; http.client encodes headers as Latin-1.
            HTTPHeaderDict((name, value.encode().decode("latin-1")) for name, value in fields),
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=Timeout(connect=CONNECT_TIMEOUT, read=patience),
            preload_content=False,
        )
        return Reply(response, response.connection.carrier)

    def dial(self) -> Any:
        """Return the socket of a new connection to the server, through the proxy's tunnel if there is one.

        :raises NotConnected: no connection could be made.
        """
        hop = urlsplit(self._proxy.url) if self._proxy is not None else self._server
        kind = _TlsConnection if self._tls else _Connection
        connection = kind(hop.hostname or "", _port(hop), timeout=CONNECT_TIMEOUT, **self._tls)
        if self._proxy is not None:
            connection.set_tunnel(self._server.hostname or "", _port(self._server), self._proxy_headers)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection.sock

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def abort(self) -> None:
        """End all requests from any thread. The client cannot be used after that."""
        self._carriers.abort()


def _shut_down(carrier: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not SSLSocket.shutdown, which removes the TLS session while another thread uses it.
        socket.socket.shutdown(carrier, socket.SHUT_RDWR)


def is_timeout(error: Exception) -> bool:
    """Return True if a read timed out after the request was sent."""
    return isinstance(error, ReadTimeoutError)


def underlying_error(error: Exception) -> Exception:
    """Return the exception inside urllib3's own exceptions."""
    while isinstance(error, HTTPError):
        inner = error.__cause__ or next((part for part in error.args if isinstance(part, Exception)), None)
        if not isinstance(inner, Exception):
            break
        error = inner
    return error


def failure_text(error: Exception) -> str:
    """Return the reason why a request or a body failed."""
    cause = underlying_error(error)
    if isinstance(cause, http.client.RemoteDisconnected):
        return say("the connection was closed without an answer")
    if isinstance(cause, http.client.IncompleteRead):
        return say("the connection was closed before the end of the answer")
    if isinstance(cause, (http.client.BadStatusLine, http.client.UnknownProtocol)):
        return say("the response is not HTTP")
    return reason_text(cause)


def _port(parts: Any) -> int:
    return int(parts.port or _PORTS[parts.scheme])
