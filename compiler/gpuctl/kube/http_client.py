"""HTTP to one server by urllib3: a pool of connections, TLS, proxies, and responses that another thread can end."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from urllib3 import HTTPConnectionPool, HTTPHeaderDict, HTTPResponse, PoolManager, ProxyManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.ssltransport import SSLTransport

from gpuctl.kube.credentials import Headers
from gpuctl.kube.error_text import reason_text
from gpuctl.kube.proxies import Proxy

CONNECT_TIMEOUT = 10.0
_IDLE = 32
_PORTION = 64 * 1024
_LONGEST_REFUSAL = 1024 * 1024
_PORTS = {"http": 80, "https": 443}


class NotConnected(HTTPError):
    """No connection came about, so nothing was sent; the cause is the reason."""


class _Connection(HTTPConnection):
    """A connection that reports a failure to connect apart from the failures of a request.

    ``carrier`` is the TCP socket, or the socket of the TLS session on it.
    """

    carrier: socket.socket

    def connect(self) -> None:
        try:
            super().connect()
        except (OSError, HTTPError, http.client.HTTPException, ValueError) as error:
            raise NotConnected from error
        self.carrier = self.sock.socket if isinstance(self.sock, SSLTransport) else self.sock
        # urllib3 would warn about a server whose certificate the user chose not to verify.
        self.is_verified = True


class _TlsConnection(_Connection, HTTPSConnection):
    """A :class:`_Connection` with TLS."""


class Reply:
    """A response: ``status``, ``headers``, and a body that is not read yet."""

    def __init__(self, response: HTTPResponse, carrier: socket.socket) -> None:
        self._response = response
        self._carrier = carrier
        self.status = response.status
        self.headers = response.headers

    def portions(self) -> Iterator[bytes]:
        """Yield the body as it arrives. Read to its end, the connection returns to its pool.

        :raises HTTPError: the connection broke, nothing came in time, or the body ended too early.
        """
        while data := self._response.read1(_PORTION):
            yield data

    def refusal(self) -> bytes:
        """Return the body of a response that is an error, as far as it arrives, and close the connection."""
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
        """End a waiting read from any thread.

        The reading thread must close the response. Only for a response whose connection is not used again.
        """
        with contextlib.suppress(OSError):
            # Not the method of TLS, which takes the session from under the reading thread.
            socket.socket.shutdown(self._carrier, socket.SHUT_RDWR)


class HttpClient:
    """The connections to one server, safe to use from several threads. ``name`` is the one on its certificate."""

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
        self._pool.ConnectionCls = _TlsConnection if self._pool.scheme == "https" else _Connection
        # Without TLS there is no tunnel: the proxy is asked, by the whole address.
        self._prefix = f"http://{self._server.netloc}" if proxy is not None and context is None else ""

    def send(self, method: str, target: str, fields: Headers, body: bytes | None, patience: float) -> Reply:
        """Send a request once and return the response, its body not read; a redirect is not followed.

        :param patience: the longest silence in seconds, also while the body is read.
        :raises NotConnected: nothing was sent.
        :raises HTTPError: the connection broke, nothing came in time, or what came is not HTTP.
        """
        response: Any = self._pool.urlopen(
            method,
            self._prefix + target,
            body,
            # As Go sends it: heads are in Latin-1.
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

        :raises NotConnected: it failed.
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


def is_timeout(error: Exception) -> bool:
    """Return True if nothing came in time, after a request was sent."""
    return isinstance(error, ReadTimeoutError)


def cause_of(error: Exception) -> Exception:
    """Return the exception that urllib3's own ones are about."""
    while isinstance(error, HTTPError):
        inner = error.__cause__ or next((part for part in error.args if isinstance(part, Exception)), None)
        if not isinstance(inner, Exception):
            break
        error = inner
    return error


def failure_text(error: Exception) -> str:
    """Return in words why a request or a body failed."""
    cause = cause_of(error)
    if isinstance(cause, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    if isinstance(cause, http.client.IncompleteRead):
        return "the connection was closed before the end of the answer"
    if isinstance(cause, (http.client.BadStatusLine, http.client.UnknownProtocol)):
        return "what came is no HTTP"
    return reason_text(cause)


def _port(parts: Any) -> int:
    return int(parts.port or _PORTS[parts.scheme])
