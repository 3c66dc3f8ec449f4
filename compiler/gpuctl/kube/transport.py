"""The way to an API server: one pool of connections, credentials that are renewed, and failures that are sentences.

What a server answers is not trusted: a redirect is not followed (it would be given the credentials), and what is read
whole is read up to a limit.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from gpuctl.kube.api_errors import ConfigurationError, ConnectionFailed
from gpuctl.kube.connection_pool import ConnectionPool
from gpuctl.kube.credentials import Certificate, Credential, CredentialSource, Fixed, Headers
from gpuctl.kube.dialing import Dialled, dial, proxy_fields
from gpuctl.kube.http1 import Fields, Malformed, Reply, Wire
from gpuctl.kube.proxies import Proxy
from gpuctl.kube.reasons import reason_of
from gpuctl.kube.trust import Trust
from gpuctl.objects.api_resources import Object
from gpuctl.release import __version__

if TYPE_CHECKING:
    from gpuctl.kube.channels import Channels

READ_TIMEOUT = 60.0
WATCH_TIMEOUT = 120
LARGEST = 512 * 1024 * 1024
"""Bytes of an answer that is read whole: etcd has no larger objects than 1.5 MiB, a page has 500 of them."""
# What a path may hold as it is.
_SAFE = "/%:@!$&'()*+,;=~"
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
    headers: Fields
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
        self._pool: ConnectionPool | None = None
        self._pool_certificate: Certificate | None = None
        self._always, self._prefix = _addressed(access)

    def on_behalf(self, credential: Credential | None, impersonation: Headers = ()) -> Transport:
        """The way to the same server for somebody else: with a credential of theirs instead of ours, or (None) with
        ours, asking to act as them. Nothing is shared, no socket either."""
        source = self._access.source if credential is None else Fixed(credential)
        return Transport(self._access._replace(source=source, impersonation=impersonation))

    def close(self) -> None:
        """Let go of the sockets."""
        if self._pool is not None:
            self._pool.close()

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "",
        *,
        accept: str | None = None,
        within: float = READ_TIMEOUT,
    ) -> Response:
        """The answer, whatever its status. ``accept`` is a media type other than JSON's, ``within`` the
        longest silence in seconds.

        :raises ConnectionFailed: no answer, or one without an end.
        :raises ConfigurationError: the credentials cannot be had, or not be sent.
        """
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() if body is not None else None
        pool, wire, response = self._ask(method, _target(path, query), data, content_type, within, accept)
        read: list[bytes] = []
        size = 0
        try:
            for portion in response.portions():
                read.append(portion)
                size += len(portion)
                if size > LARGEST:
                    raise ConnectionFailed(
                        f"{self.server} answered with more than {LARGEST // 2**20} MiB",
                        "check the server's address, and proxies in between",
                    )
        except (OSError, Malformed) as error:
            raise self._failure(error, within) from None
        finally:
            pool.give(wire)
        return Response(response.status, response.headers, b"".join(read))

    def open(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        *,
        accept: str | None = None,
    ) -> Reply:
        """The answer to a GET, or with a body in JSON to a POST, whatever its status; what it says is not read yet, and
        its connection not used again. ``accept`` as in :meth:`send`.

        :raises ConnectionFailed: no answer.
        :raises ConfigurationError: the credentials cannot be had, or not be sent.
        """
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() if body is not None else None
        method, content = ("GET", "") if data is None else ("POST", "application/json")
        pool, _, response = self._ask(method, _target(path, query), data, content, WATCH_TIMEOUT + 15, accept)
        pool.part_with()
        return response

    def channels(self, path: str, query: Sequence[tuple[str, str]], protocols: tuple[str, ...]) -> Channels:
        """Open a WebSocket; as :meth:`Session.channels`."""
        from gpuctl.kube.api_errors import ApiError
        from gpuctl.kube.channels import HANDSHAKE, open_channels

        url = f"{self.server}{path}?{urlencode(query)}".replace("http", "ws", 1)

        def opened(credential: Credential) -> Channels:
            headers = [f"{name}: {value}" for name, value in self._headers(credential)]
            connected = self._dial(self._context(credential.certificate), streaming=True).connected
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

    def _ask(
        self,
        method: str,
        target: str,
        data: bytes | None,
        content_type: str,
        patience: float,
        accept: str | None = None,
    ) -> tuple[ConnectionPool, Wire, Reply]:
        """The answer, its body not read. Credentials that are refused are renewed once: such a request did nothing."""
        renewed = False
        while True:
            credential, pool = self._prepared()
            fields = [*self._always, ("Accept", accept or "application/json")]
            if data is not None:
                fields.append(("Content-Type", content_type))
            # As Go sends it: heads are in Latin-1.
            fields += [(name, value.encode().decode("latin-1")) for name, value in self._headers(credential)]
            wire = pool.take()
            try:
                wire.wait_at_most(patience)
                response = wire.ask(method, self._prefix + target, fields, data)
            except (OSError, Malformed) as error:
                pool.give(wire)
                raise self._failure(error, patience) from None
            except BaseException:
                pool.give(wire)
                raise
            self.reached = True
            if response.status != 401 or renewed or not self._renewed(credential):
                return pool, wire, response
            response.close()
            pool.give(wire)
            renewed = True

    def _prepared(self) -> tuple[Credential, ConnectionPool]:
        """The credential of now, and the pool of connections that were made with its certificate."""
        with self._lock:
            credential = self._access.source.current()
            if self._pool is None or credential.certificate != self._pool_certificate:
                self.close()
                context = self._context(credential.certificate)
                self._pool = ConnectionPool(lambda: self._dial(context).wire())
                self._pool_certificate = credential.certificate
            return credential, self._pool

    def _renewed(self, refused: Credential) -> bool:
        with self._lock:
            return self._access.source.renew(refused)

    def _context(self, certificate: Certificate | None) -> ssl.SSLContext | None:
        return self._access.trust.context(certificate) if self.server.startswith("https://") else None

    def _dial(self, context: ssl.SSLContext | None, *, streaming: bool = False) -> Dialled:
        """A connection of its own; a ``streaming`` one is polled, which TLS within TLS cannot be.

        :raises ConnectionFailed: none came about.
        """
        proxy = self._access.proxy
        if streaming and proxy is not None and proxy.url.startswith("https:"):
            raise ConfigurationError(
                "exec and port-forward cannot go through a proxy that is itself reached by HTTPS",
                "name an http:// address of the proxy in `proxy-url` or HTTPS_PROXY",
            )
        try:
            return dial(self.server, self._access.trust.name, context, proxy)
        except (OSError, ValueError) as error:
            raise self._unreachable(error, sent=False) from None

    def _headers(self, credential: Credential) -> Headers:
        """As whom a request is sent."""
        # In between it would be in the message.
        if not credential.authorization.isprintable() or not credential.authorization.isascii():
            raise ConfigurationError(
                "the credentials cannot be sent: they contain a line break, or another character that no token has",
                "check the user of the kubeconfig's context",
            )
        authorization = (("Authorization", credential.authorization),) if credential.authorization else ()
        return (*authorization, *self._access.impersonation)

    def _failure(self, error: Exception, within: float) -> ConnectionFailed:
        """What it means to people that a request was not answered: it may have been acted on."""
        if isinstance(error, TimeoutError):
            return ConnectionFailed(f"{self.server} gave no answer within {within:.0f} s")
        return self._unreachable(error, sent=True)

    def _unreachable(self, error: Exception, *, sent: bool) -> ConnectionFailed:
        where = f" (context {self._access.context})" if self._access.context else ""
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._untrusted(error)
        text = reason_of(error)
        if isinstance(error, ssl.SSLError):
            return ConnectionFailed(
                f"{self.server}{where} does not speak TLS as expected: {text}",
                "check the server's address and port",
            )
        through = f" through the proxy {self._access.proxy.url}" if self._access.proxy is not None else ""
        return ConnectionFailed(
            f"{self.server}{where} cannot be reached{through}: {text}",
            "check the context, the network and the proxy; `kubectl version` should work",
            sent=sent,
        )

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> ConnectionFailed:
        """A certificate that verification refused; nothing was sent."""
        if error.verify_code in _OTHER_NAME:
            return ConnectionFailed(
                f"the certificate of {self.server} is for another name: {reason_of(error)}",
                "check the server's name, or set `tls-server-name` in the kubeconfig",
                sent=False,
            )
        return ConnectionFailed(
            f"the certificate of {self.server} is not trusted: {reason_of(error)}",
            "check `certificate-authority` in the kubeconfig",
            sent=False,
            is_untrusted=True,
        )


def _addressed(access: ServerAccess) -> tuple[Headers, str]:
    """The fields of every request, and what is before the path of each."""
    parts = urlsplit(access.server)
    before = quote(parts.path, safe=_SAFE)
    fields = (("Host", parts.netloc), ("Accept-Encoding", "identity"), ("User-Agent", f"gpuctl/{__version__}"))
    if access.proxy is not None and parts.scheme == "http":
        # Without TLS there is no tunnel: the proxy is asked, by the whole address.
        return (*fields, *proxy_fields(access.proxy)), f"http://{parts.netloc}{before}"
    return fields, before


def _target(path: str, query: Mapping[str, str] | None) -> str:
    wanted = {key: value for key, value in (query or {}).items() if value}
    return quote(path, safe=_SAFE) + (f"?{urlencode(wanted)}" if wanted else "")
