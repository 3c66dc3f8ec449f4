"""The way to an API server: one pool of connections, credentials that are renewed, and failures that are sentences.

Credentials, TLS, exec plugins and proxies are the official client's.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from gpuctl import __version__
from gpuctl.cluster.errors import ConfigurationError, ConnectionFailed
from gpuctl.cluster.resources import Object

if TYPE_CHECKING:
    from gpuctl.cluster.channels import Channels

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0
WATCH_TIMEOUT = 120

# OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH.
_OTHER_NAME = frozenset({62, 64})


class Transport:
    """Sends requests as they are, once each. Safe to use from several threads.

    ``server`` is the address, ``reached`` whether it has ever answered.
    """

    def __init__(self, client: Any, context: str) -> None:
        self._configuration = client.configuration
        self._pool = client.rest_client.pool_manager
        self.server: str = self._configuration.host.rstrip("/")
        self._context = context
        self.reached = False
        self._auth_lock = threading.Lock()

    def close(self) -> None:
        """Let go of the sockets."""
        self._pool.clear()

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "",
        *,
        stream: bool = False,
        accept: str | None = None,
    ) -> Any:
        """The answer (urllib3's), whatever its status; with ``stream`` its body is not read yet.

        :raises ConnectionFailed: no answer.
        :raises ConfigurationError: the credentials cannot be had, or not be sent.
        """
        import urllib3

        # What a caller is just dealing with is no cause of what goes wrong here, though Python chains the two.
        handled = sys.exc_info()[1]
        url = f"{self.server}{path}"
        if query:
            url += "?" + urlencode({key: value for key, value in query.items() if value})
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() if body is not None else None
        try:
            response = self._pool.request(
                method,
                url,
                body=data,
                headers=self._headers(content_type if data is not None else None)
                | ({"Accept": accept} if accept else {}),
                timeout=urllib3.Timeout(
                    connect=CONNECT_TIMEOUT, read=READ_TIMEOUT if not stream else WATCH_TIMEOUT + 15
                ),
                preload_content=not stream,
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise self._failure(list(_chain(error, handled))) from None
        self.reached = True
        return response

    def channels(self, path: str, query: Sequence[tuple[str, str]], protocols: tuple[str, ...]) -> Channels:
        """Open a WebSocket; as :meth:`Connection.channels`."""
        from gpuctl.cluster.channels import open_channels

        url = f"{self.server}{path}?{urlencode(query)}".replace("http", "ws", 1)
        return open_channels(self._configuration, url, self._headers(None).get("Authorization"), protocols)

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"gpuctl/{__version__}"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        with self._auth_lock:
            # May run an exec plugin again when its token has expired.
            try:
                token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            except Exception as error:
                raise ConfigurationError(
                    f"the credentials could not be renewed: {innermost(error)}", "log in again"
                ) from None
        if token:
            # A token's file ends with a line break, and in between http.client would print the whole header.
            headers["Authorization"] = token.strip()
            if not headers["Authorization"].isprintable() or not token.isascii():
                raise ConfigurationError(
                    "the credentials cannot be sent: they contain a line break, or another character that no token has",
                    "check the user of the kubeconfig's context",
                )
        return headers

    def _failure(self, causes: list[BaseException]) -> ConnectionFailed:
        """What an exception, with those that led to it, means to people."""
        import urllib3

        text = _said(causes[-1])
        sent = not any(
            isinstance(cause, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError))
            for cause in causes
        )
        where = f" (context {self._context})" if self._context else ""
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
        if any(isinstance(cause, urllib3.exceptions.ProxyError) for cause in causes):
            # Without the password that its address may have.
            proxy = urlsplit(self._configuration.proxy or "")
            through = f" through the proxy {proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"
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


def _chain(error: BaseException | None, end: BaseException | None = None) -> Iterator[BaseException]:
    """An exception and what led to it, up to ``end``."""
    seen: set[int] = set()
    while error is not None and error is not end and id(error) not in seen:
        seen.add(id(error))
        yield error
        reason = getattr(error, "reason", None)
        error = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__


def _of_file(error: OSError) -> str:
    return f": {error.filename}" if error.filename else ""


def innermost(error: BaseException) -> str:
    """The innermost reason of an exception, without addresses of objects in memory."""
    return _said(list(_chain(error))[-1])


def _said(last: BaseException) -> str:
    if isinstance(last, ssl.SSLCertVerificationError):
        return last.verify_message.rstrip(".")
    if isinstance(last, OSError) and last.strerror:
        # OpenSSL's have their code before them and a line of C behind.
        return re.sub(r"^\[.*?\] | \(_\w+\.c:\d+\)$", "", last.strerror).lower() + _of_file(last)
    text = " ".join(str(last).split()) or type(last).__name__
    if ">: " in text:
        text = text.split(">: ", 1)[1]
    return text[:300]
