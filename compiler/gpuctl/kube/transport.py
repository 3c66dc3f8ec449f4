"""The way to an API server: one pool of connections, credentials that are renewed, and failures that are sentences.

What a server answers is not trusted: a redirect is not followed (it would be given the credentials), and what is read
whole is read up to a limit.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from gpuctl.about import __version__
from gpuctl.backend.api_resources import Object
from gpuctl.kube.api_errors import ConfigurationError, ConnectionFailed
from gpuctl.kube.credentials import Certificate, Credential, CredentialSource, Headers
from gpuctl.kube.proxies import Proxy
from gpuctl.kube.reasons import chain, innermost, reason_of
from gpuctl.kube.trust import Trust

if TYPE_CHECKING:
    import socket

    from gpuctl.kube.channels import Channels

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0
WATCH_TIMEOUT = 120
LARGEST = 512 * 1024 * 1024
"""Bytes of an answer that is read whole: etcd has no larger objects than 1.5 MiB, a page has 500 of them."""
_CONNECTIONS = 32
_PORTION = 1024 * 1024

# OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH.
_OTHER_NAME = frozenset({62, 64})


class ServerAccess(NamedTuple):
    """Where an API server is, how it is trusted, and as whom it is asked."""

    server: str
    trust: Trust
    source: CredentialSource
    impersonation: Headers
    proxy: Proxy | None
    context: str


class Response(NamedTuple):
    """An answer that was read whole."""

    status: int
    headers: Any
    data: bytes


class Transport:
    """Sends requests as they are, once each. Safe to use from several threads.

    ``server`` is the address, ``reached`` whether it has ever answered.
    """

    def __init__(self, access: ServerAccess) -> None:
        self._access = access
        self.server = access.server
        self.reached = False
        self._lock = threading.Lock()
        self._pool: Any = None
        self._pool_certificate: Certificate | None = None

    def close(self) -> None:
        """Let go of the sockets."""
        if self._pool is not None:
            self._pool.clear()

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "",
        *,
        accept: str | None = None,
    ) -> Response:
        """The answer, whatever its status. ``accept`` is a media type other than the connection's.

        :raises ConnectionFailed: no answer, or one without an end.
        :raises ConfigurationError: the credentials cannot be had, or not be sent.
        """
        import urllib3

        handled = sys.exc_info()[1]
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() if body is not None else None
        response = self._ask(method, self._url(path, query), data, content_type, READ_TIMEOUT, accept)
        try:
            read = bytearray()
            for portion in response.stream(_PORTION):
                read += portion
                if len(read) > LARGEST:
                    raise ConnectionFailed(
                        f"{self.server} answered with more than {LARGEST // 2**20} MiB",
                        "check the server's address, and proxies in between",
                    )
            response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise self._failure(list(chain(error, handled))) from None
        finally:
            if not response.closed:
                response.close()
        return Response(response.status, response.headers, bytes(read))

    def open(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The answer (urllib3's) to a GET, whatever its status; its body is not read yet.

        :raises ConnectionFailed: no answer.
        :raises ConfigurationError: the credentials cannot be had, or not be sent.
        """
        return self._ask("GET", self._url(path, query), None, "", WATCH_TIMEOUT + 15)

    def channels(self, path: str, query: Sequence[tuple[str, str]], protocols: tuple[str, ...]) -> Channels:
        """Open a WebSocket; as :meth:`Connection.channels`."""
        from gpuctl.kube.api_errors import ApiError
        from gpuctl.kube.channels import HANDSHAKE, open_channels

        url = f"{self.server}{path}?{urlencode(query)}".replace("http", "ws", 1)

        def opened(credential: Credential) -> Channels:
            headers = [f"{name}: {value}" for name, value in self._headers(credential)]
            connected = self._dial(credential.certificate)
            connected.settimeout(HANDSHAKE)
            return open_channels(connected, url, headers, protocols)

        credential, _ = self._prepared()
        try:
            return opened(credential)
        except ApiError as error:
            if error.status != 401 or not self._renewed(credential):
                raise
        credential, _ = self._prepared()
        return opened(credential)

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        wanted = {key: value for key, value in (query or {}).items() if value}
        return f"{self.server}{path}" + (f"?{urlencode(wanted)}" if wanted else "")

    def _ask(
        self, method: str, url: str, data: bytes | None, content_type: str, patience: float, accept: str | None = None
    ) -> Any:
        """The answer, its body not read. Credentials that are refused are renewed once: such a request did nothing."""
        import urllib3

        # What a caller is just dealing with is no cause of what goes wrong here, though Python chains the two.
        handled = sys.exc_info()[1]
        renewed = False
        while True:
            credential, pool = self._prepared()
            headers = urllib3.HTTPHeaderDict(
                {"Accept": accept or "application/json", "User-Agent": f"gpuctl/{__version__}"}
            )
            if data is not None:
                headers["Content-Type"] = content_type
            for name, value in self._headers(credential):
                # As Go sends it: http.client knows Latin-1 only.
                headers.add(name, value.encode().decode("latin-1"))
            try:
                response = pool.request(
                    method,
                    url,
                    body=data,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=patience),
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
            except urllib3.exceptions.HTTPError as error:
                raise self._failure(list(chain(error, handled))) from None
            self.reached = True
            if response.status != 401 or renewed or not self._renewed(credential):
                return response
            response.close()
            renewed = True

    def _prepared(self) -> tuple[Credential, Any]:
        """The credential of now, and the pool of connections that were made with its certificate."""
        with self._lock:
            credential = self._access.source.current()
            if self._pool is None or credential.certificate != self._pool_certificate:
                self.close()
                self._pool = self._make_pool(credential.certificate)
                self._pool_certificate = credential.certificate
            return credential, self._pool

    def _renewed(self, refused: Credential) -> bool:
        with self._lock:
            return self._access.source.renew(refused)

    def _make_pool(self, certificate: Certificate | None) -> Any:
        import urllib3

        proxy, trust = self._access.proxy, self._access.trust
        options: dict[str, Any] = {"maxsize": _CONNECTIONS}
        if self.server.startswith("https://"):
            options |= {"ssl_context": trust.context(certificate), "server_hostname": trust.name or None}
        if not trust.verify:
            import warnings

            # Somebody who switched verification off knows.
            warnings.filterwarnings("ignore", category=urllib3.exceptions.InsecureRequestWarning)
        if proxy is None:
            return urllib3.PoolManager(**options)
        return urllib3.ProxyManager(proxy.url, proxy_headers=_proxy_headers(proxy), **options)

    def _dial(self, certificate: Certificate | None) -> socket.socket:
        """A connection of its own, through the proxy if there is one, TLS and all."""
        import urllib3
        from urllib3.connection import HTTPConnection, HTTPSConnection

        handled = sys.exc_info()[1]
        target, proxy, trust = urlsplit(self.server), self._access.proxy, self._access.trust
        secure = target.scheme == "https"
        if proxy is not None and proxy.url.startswith("https:"):
            raise ConfigurationError(
                "exec and port-forward cannot go through a proxy that is itself reached by HTTPS",
                "name an http:// address of the proxy in `proxy-url` or HTTPS_PROXY",
            )
        host, port = target.hostname or "", target.port or (443 if secure else 80)
        first = urlsplit(proxy.url) if proxy is not None else None
        at: tuple[str, int] = (first.hostname or "", first.port or 80) if first is not None else (host, port)
        connection: Any
        if secure:
            context = trust.context(certificate)
            connection = HTTPSConnection(
                *at, timeout=CONNECT_TIMEOUT, ssl_context=context, server_hostname=trust.name or None
            )
        else:
            connection = HTTPConnection(*at, timeout=CONNECT_TIMEOUT)
        if proxy is not None:
            connection.set_tunnel(host, port, headers=_proxy_headers(proxy), scheme="http")
        try:
            connection.connect()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._failure(list(chain(error, handled))) from None
        connected: socket.socket = connection.sock
        return connected

    def _headers(self, credential: Credential) -> Headers:
        """As whom a request is sent."""
        # In between http.client would print the whole header.
        if not credential.authorization.isprintable() or not credential.authorization.isascii():
            raise ConfigurationError(
                "the credentials cannot be sent: they contain a line break, or another character that no token has",
                "check the user of the kubeconfig's context",
            )
        authorization = (("Authorization", credential.authorization),) if credential.authorization else ()
        return (*authorization, *self._access.impersonation)

    def _failure(self, causes: list[BaseException]) -> ConnectionFailed:
        """What an exception, with those that led to it, means to people."""
        import urllib3

        text = reason_of(causes[-1])
        sent = not any(
            isinstance(cause, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError))
            for cause in causes
        )
        where = f" (context {self._access.context})" if self._access.context else ""
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return self._untrusted(cause)
            if isinstance(cause, ssl.SSLError):
                return ConnectionFailed(
                    f"{self.server}{where} does not speak TLS as expected: {text}",
                    "check the server's address and port",
                )
        if any(isinstance(cause, urllib3.exceptions.ReadTimeoutError) for cause in causes):
            return ConnectionFailed(f"{self.server} gave no answer within {READ_TIMEOUT:.0f} s")
        through = ""
        if self._access.proxy is not None:
            through = f" through the proxy {self._access.proxy.url}"
        return ConnectionFailed(
            f"{self.server}{where} cannot be reached{through}: {text}",
            "check the context, the network and the proxy; `kubectl version` should work",
            sent=sent,
        )

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> ConnectionFailed:
        """A certificate that verification refused; nothing was sent."""
        if error.verify_code in _OTHER_NAME:
            return ConnectionFailed(
                f"the certificate of {self.server} is for another name: {innermost(error)}",
                "check the server's name, or set `tls-server-name` in the kubeconfig",
                sent=False,
            )
        return ConnectionFailed(
            f"the certificate of {self.server} is not trusted: {innermost(error)}",
            "check `certificate-authority` in the kubeconfig",
            sent=False,
        )


def _proxy_headers(proxy: Proxy) -> dict[str, str]:
    import urllib3

    if not (proxy.user or proxy.password):
        return {}
    return dict(urllib3.make_headers(proxy_basic_auth=f"{proxy.user}:{proxy.password}"))
