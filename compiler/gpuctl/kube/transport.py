"""Sending requests to an API server: a connection pool, renewal of credentials, and error messages.

Responses are not trusted: a redirect is not followed, because its target would receive the credentials, and the size of
a body that is read whole is limited.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError

from gpuctl.kube.api_errors import ApiError, ConfigurationError, ConnectionFailed
from gpuctl.kube.channels import HANDSHAKE, Channels, open_channels
from gpuctl.kube.credentials import ClientCertificate, Credential, CredentialSource, Headers, StaticCredential
from gpuctl.kube.http_client import HttpClient, NotConnected, Reply, failure_text, is_timeout, underlying_error
from gpuctl.kube.proxies import Proxy
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.release import __version__

READ_TIMEOUT = 60.0
WATCH_TIMEOUT = 120
LARGEST = 512 * 1024 * 1024
"""Maximum size of a body that is read whole, bytes: an object in etcd has at most 1.5 MiB, and a page has 500 of them.
"""
_CLOCK_TOLERANCE = 0.5
"""Clock difference in seconds below which clocks count as equal."""
# Characters of a path that are not percent-encoded.
_SAFE = "/%:@!$&'()*+,;=~"
# OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH.
_OTHER_NAME = frozenset({62, 64})
_SERVER = Template("the Kubernetes API server")
_AWAY = Template("the Kubernetes API server cannot be reached")
"""Message for users of a service, who need not know the API server's address."""


class ServerAccess(NamedTuple):
    """The address of an API server, its TLS settings, and the credentials for it.

    ``headers`` are sent with every request, such as those that impersonate a user.
    """

    server: str
    trust: TlsSettings
    source: CredentialSource
    headers: Headers
    proxy: Proxy | None
    context: str


class Response(NamedTuple):
    """A response whose body has been read."""

    status: int
    headers: HTTPHeaderDict
    data: bytes


class _DatedResponse(NamedTuple):
    """The time in the Date header of a response, in whole seconds, and the readings of the monotonic clock between
    which the server set it.
    """

    date: float
    sent: float
    received: float


class Transport:
    """Sends requests once each, without retries. Safe to use from several threads.

    ``server``: the address. ``reached``: the server has responded at least once.
    """

    def __init__(self, access: ServerAccess) -> None:
        self._access = access
        self.server = access.server
        self.reached = False
        self._dated: _DatedResponse | None = None
        self._lock = threading.Lock()
        self._client: HttpClient | None = None
        self._client_certificate: ClientCertificate | None = None
        parts = urlsplit(access.server)
        self._prefix = quote(parts.path, safe=_SAFE)
        self._always = (
            ("Host", parts.netloc),
            ("Accept-Encoding", "identity"),
            ("User-Agent", f"gpuctl/{__version__}"),
        )

    def with_credential(self, credential: Credential | None, impersonation: Headers = ()) -> Transport:
        """Return a transport to the same server with another user's credential, or (None) with the current one and
        impersonation headers. No state or socket is shared.
        """
        source = self._access.source if credential is None else StaticCredential(credential)
        return Transport(self._access._replace(source=source, headers=impersonation))

    def clock_ahead(self) -> float | None:
        """Return the seconds by which the API server's clock is ahead of the local one, from the newest response; None
        before the first one with a Date.

        0 if the difference is within the resolution of that header plus the duration of the request.
        """
        if self._dated is None:
            return None
        date, sent, received = self._dated
        ahead = date + 0.5 + time.monotonic() - (sent + received) / 2 - time.time()
        return ahead if abs(ahead) > 0.5 + (received - sent) / 2 + _CLOCK_TOLERANCE else 0.0

    def close(self) -> None:
        """Close the idle connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

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
        """Send a request and return the response, whatever its status.

        :param accept: a media type other than JSON.
        :param within: read timeout, seconds.
        :raises ConnectionFailed: no response, or an incomplete or too large one.
        :raises ConfigurationError: the credentials cannot be obtained or sent.
        """
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() if body is not None else None
        response = self._request(method, _target(path, query), data, content_type, within, accept)
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
                        public=say(
                            "{server} answered with more than {most} MiB", server=say(_SERVER), most=LARGEST // 2**20
                        ),
                    )
        except HTTPError as error:
            raise self._failure(error, within) from None
        finally:
            response.close()
        return Response(response.status, response.headers, b"".join(read))

    def open(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str | None = None,
        headers: Headers = (),
    ) -> Reply:
        """Send a GET and return the response, whatever its status, with its body unread. Its connection is not used
        again.

        :param accept: as in :meth:`send`.
        :raises ConnectionFailed: no response.
        :raises ConfigurationError: the credentials cannot be obtained or sent.
        """
        patience = WATCH_TIMEOUT + 15
        return self._request("GET", _target(path, query), None, "", patience, accept, last=True, headers=headers)

    def channels(self, path: str, query: Sequence[tuple[str, str]], protocols: tuple[str, ...]) -> Channels:
        """Open a WebSocket, see :meth:`gpuctl.kube.api_requests.ApiRequests.channels`."""
        url = f"{self.server}{path}?{urlencode(query)}".replace("http", "ws", 1)

        def open_with(credential: Credential, client: HttpClient) -> Channels:
            headers = [f"{name}: {value}" for name, value in self._headers(credential)]
            connected = self._dial(client)
            connected.settimeout(HANDSHAKE)
            return open_channels(connected, url, headers, protocols)

        credential, client = self._current_client()
        try:
            return open_with(credential, client)
        except ApiError as error:
            if error.status != 401 or not self._renew_credential(credential):
                raise
        return open_with(*self._current_client())

    def _request(
        self,
        method: str,
        target: str,
        data: bytes | None,
        content_type: str,
        patience: float,
        accept: str | None = None,
        *,
        last: bool = False,
        headers: Headers = (),
    ) -> Reply:
        """Return the response with its body unread. After 401 the credentials are renewed and the request is sent once
        more.

        :param last: the connection is not used again, so that the reply can be aborted from another thread.
        """
        renewed = False
        while True:
            credential, client = self._current_client()
            fields = [*self._always, ("Accept", accept or "application/json"), *headers]
            if data is not None:
                fields.append(("Content-Type", content_type))
            if last:
                fields.append(("Connection", "close"))
            fields += self._headers(credential)
            sent = time.monotonic()
            try:
                response = client.send(method, self._prefix + target, tuple(fields), data, patience)
            except HTTPError as error:
                raise self._failure(error, patience) from None
            self.reached = True
            self._note_date(response.headers, sent)
            if response.status != 401 or renewed or not self._renew_credential(credential):
                return response
            response.close()
            renewed = True

    def _note_date(self, headers: HTTPHeaderDict, sent: float) -> None:
        with contextlib.suppress(TypeError, ValueError):
            date = parsedate_to_datetime(headers.get("Date") or "").timestamp()
            self._dated = _DatedResponse(date, sent, time.monotonic())

    def _current_client(self) -> tuple[Credential, HttpClient]:
        """Return the current credential, and a client whose connections use its certificate."""
        with self._lock:
            credential = self._access.source.current()
            if self._client is None or credential.certificate != self._client_certificate:
                # Requests with the previous certificate may be in progress: their client is freed after the last of
                # them.
                trust = self._access.trust
                context = trust.context(credential.certificate) if self.server.startswith("https://") else None
                self._client = HttpClient(self.server, trust.name, context, self._access.proxy)
                self._client_certificate = credential.certificate
            return credential, self._client

    def _renew_credential(self, refused: Credential) -> bool:
        with self._lock:
            return self._access.source.renew(refused)

    def _dial(self, client: HttpClient) -> socket.socket:
        """Return the socket of a new connection, for polling. Not possible through an HTTPS proxy (TLS within TLS).

        :raises ConnectionFailed: no connection could be made.
        """
        proxy = self._access.proxy
        if proxy is not None and proxy.url.startswith("https:"):
            raise ConfigurationError(
                say("exec and port-forward cannot go through a proxy that is itself reached by HTTPS"),
                say("name an http:// address of the proxy in `proxy-url` or HTTPS_PROXY"),
            )
        try:
            connected: socket.socket = client.dial()
        except NotConnected as error:
            raise self._failure(error, 0) from None
        return connected

    def _headers(self, credential: Credential) -> Headers:
        """Return the headers for authentication, and those of every request."""
        # Checked here because http.client would put the rejected value into its error message.
        if not credential.authorization.isprintable() or not credential.authorization.isascii():
            raise ConfigurationError(
                say(
                    "the credentials cannot be sent: they contain a line break, or another character that no token has"
                ),
                say("check the user of the kubeconfig's context"),
            )
        authorization = (("Authorization", credential.authorization),) if credential.authorization else ()
        return (*authorization, *self._access.headers)

    def _failure(self, error: Exception, within: float) -> ConnectionFailed:
        """Return the error for a request without a response. If it was sent, the server may have acted on it."""
        if is_timeout(error):
            form = Template("{server} gave no answer within {within} s")
            return ConnectionFailed(
                say(form, server=self.server, within=f"{within:.0f}"),
                public=say(form, server=say(_SERVER), within=f"{within:.0f}"),
            )
        where = f" (context {self._access.context})" if self._access.context else ""
        sent = not isinstance(error, NotConnected)
        cause = underlying_error(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return self._untrusted(cause)
        text = failure_text(error)
        if isinstance(cause, ssl.SSLError):
            return ConnectionFailed(
                f"{self.server}{where} does not speak TLS as expected: {text}",
                "check the server's address and port",
                public=say(_AWAY),
            )
        through = f" through the proxy {self._access.proxy.url}" if self._access.proxy is not None else ""
        return ConnectionFailed(
            f"{self.server}{where} cannot be reached{through}: {text}",
            "check the context, the network and the proxy; `kubectl version` should work",
            sent=sent,
            public=say(_AWAY),
        )

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> ConnectionFailed:
        """Return the error for a certificate that failed verification; nothing was sent."""
        if error.verify_code in _OTHER_NAME:
            return ConnectionFailed(
                f"the certificate of {self.server} is for another name: {failure_text(error)}",
                "check the server's name, or set `tls-server-name` in the kubeconfig",
                sent=False,
                public=say(_AWAY),
            )
        return ConnectionFailed(
            f"the certificate of {self.server} is not trusted: {failure_text(error)}",
            "check `certificate-authority` in the kubeconfig",
            sent=False,
            is_untrusted=True,
            public=say(_AWAY),
        )


def _target(path: str, query: Mapping[str, str] | None) -> str:
    wanted = {key: value for key, value in (query or {}).items() if value}
    return quote(path, safe=_SAFE) + (f"?{urlencode(wanted)}" if wanted else "")
