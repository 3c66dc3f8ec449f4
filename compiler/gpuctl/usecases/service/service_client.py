"""Client of the REST service, for users without a kubeconfig: use cases query it instead of a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from gpuctl.kube.api_errors import ClusterError, ConfigurationError, ConnectionFailed, seconds_to_wait
from gpuctl.kube.backoff import jittered
from gpuctl.kube.credentials import Credential, StaticCredential, bearer
from gpuctl.kube.http_client import Reply
from gpuctl.kube.proxies import proxy_for
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import Response, ServerAccess, Transport
from gpuctl.language.display_text import visible
from gpuctl.release import __version__
from gpuctl.usecases.service.saved_logins import SavedLogin

BASE = "/api/v1"
UNKNOWN_PATH = "gpuctl-unknown-path"
"""Header of a 404 response for a path that the service does not have."""
STATED_SERVER = "gpuctl-server"
"""Header of a request with the address of the service, if the user gave it with ``--server``: the commands in the
response need it, too.
"""
USAGE_NOT_CONFIGURED = "UsageNotConfigured"
"""Name of the error of a service that collects no usage."""
RESPONSE_TIMEOUT = 330.0
"""Maximum duration of a response, seconds: the service limits a change to 300."""
MARGIN = 30.0
"""Seconds that a response may take beyond the time the service itself waits."""
OUTAGE_PATIENCE = 60.0
"""Seconds for which waits and followed logs retry a service that does not respond: it may be replaced."""
_PAGE = 100
_BUSY = 429
_BUSY_PATIENCE = 6.0
"""Seconds for which a busy service (429) is retried."""
_AWAY = frozenset({502, 503, 504})
"""Statuses of a service that is shutting down, and of a proxy whose backend is missing."""


class ServiceRefusal(ClusterError):
    """An error response of the service.

    :ivar name: its code for programs; ``status``: the HTTP status.
    :ivar plan: the plan that was refused; None without one.
    :ivar answer: the whole body.
    """

    def __init__(
        self,
        status: int,
        name: str,
        message: str,
        hint: str | None = None,
        details: Any = (),
        answer: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.name = name
        self.details = details if isinstance(details, list) else []
        self.plan: Any = None
        self.answer = answer or {}


class IncompatibleVersions(ConfigurationError):
    """The service lacks a path, or responds in an unknown form."""


class NeedsKubeconfig(ClusterError):
    """The service does not offer the command or option."""


class ServiceClient:
    """A client of the service, with a token."""

    def __init__(self, server: SavedLogin, *, is_stated: bool = False) -> None:
        """Initialize the client.

        :param is_stated: the user gave the address with ``--server``.
        :raises ConfigurationError: the certificates to trust cannot be read.
        """
        self.url = server.url
        trust = TlsSettings(_authority(server.authority), "", True, server.authority)
        credential = Credential(bearer(server.token))
        headers = ((STATED_SERVER, server.url),) if is_stated else ()
        access = ServerAccess(server.url, trust, StaticCredential(credential), headers, proxy_for(server.url, ""), "")
        self._transport = Transport(access)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def known_clock_ahead(self) -> float:
        """The seconds by which the API server's clock, which dates the service's responses, is ahead of the local one;
        0 if unknown.
        """
        return self._transport.clock_ahead() or 0.0

    def server_time(self) -> float:
        """Return the time by the API server's clock, seconds since 1970. A request is sent only before the first
        response.

        :raises ClusterError: see :meth:`check`.
        """
        if self._transport.clock_ahead() is None:
            self.check()
        return time.time() + self.known_clock_ahead

    def check(self) -> None:
        """Check that the address is a gpuctl service and accepts the token.

        :raises ClusterError: it does not.
        """
        value = self.request("POST", "/auth/check", {"resource": "jobs", "action": "get"})
        if not isinstance(value.get("allowed"), bool):
            raise self.not_a_service("is not a gpuctl service")

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        within: float = RESPONSE_TIMEOUT,
    ) -> dict[str, Any]:
        """Send a request and return the response body; retry while the service is busy.

        :param query: query parameters; empty ones are left out.
        :param within: maximum duration of the response, seconds.
        :raises ServiceRefusal: the service returns an error.
        :raises ConnectionFailed: the service does not respond.
        """
        end, pause = time.monotonic() + _BUSY_PATIENCE, 0.25
        while True:
            response = self._send(method, path, body, within, query)
            wait = max(jittered(pause), seconds_to_wait(response.headers) or 0.0)
            if response.status != _BUSY or time.monotonic() + wait > end:
                return self._read(response)
            # Nothing was done.
            time.sleep(wait)
            pause = min(2 * pause, 1.0)

    @contextmanager
    def reading(self) -> Iterator[Callable[..., dict[str, Any]]]:
        """Yield a function that gets a path of the REST API, with query parameters by name; empty ones are left out.

        :raises ServiceRefusal: the status of a response is not a success.
        :raises ClusterError: no response, or a required field is missing.
        """
        try:
            yield lambda path, **query: self.request("GET", path, query=query)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._other_version() from None

    def open(self, path: str, query: Mapping[str, str], last: str = "") -> Reply:
        """Return the response to a GET of Server-Sent Events, before its body is read.

        :param last: id of the last event that was read; "" for none.
        :raises ClusterError: the service returns an error, or does not respond.
        """
        headers = (("Last-Event-ID", last),) if last else ()
        try:
            reply = self._transport.open(BASE + path, query, accept="text/event-stream", headers=headers)
        except ConnectionFailed as error:
            raise self._unreachable(error) from None
        if reply.status == 200 and reply.headers.get("content-type", "").startswith("text/event-stream"):
            return reply
        self._read(Response(reply.status, reply.headers, reply.refusal()))
        raise self.not_a_service("did not return a log")

    def is_busy(self, error: ClusterError) -> bool:
        """Return True if the service had no time for the request and did nothing."""
        return isinstance(error, ServiceRefusal) and error.status == _BUSY

    def is_away(self, error: ClusterError) -> bool:
        """Return True if the service may be back soon: it is being replaced, or the connection failed."""
        return isinstance(error, ConnectionFailed) or (isinstance(error, ServiceRefusal) and error.status in _AWAY)

    def refused_token(self, name: str = "Unauthorized") -> ServiceRefusal:
        """Return the error for a token that is not, or no longer, accepted."""
        return ServiceRefusal(
            401, name, f"{self.url} does not accept the token", f"`gpuctl login {self.url}` asks for another"
        )

    def not_a_service(self, text: str) -> ConfigurationError:
        """Return the error for an address that is not a gpuctl service."""
        return ConfigurationError(f"the server at {self.url} {text}", "check the address of the service")

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        within: float,
        query: Mapping[str, str] | None = None,
    ) -> Response:
        content = "application/json" if body is not None else ""
        given = dict(body) if body is not None else None
        try:
            return self._transport.send(method, BASE + path, query, given, content, within=within)
        except ConnectionFailed as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: ConnectionFailed) -> ConnectionFailed:
        hint = "check the address of the service (http:// or https://, and the port), the network and the proxy"
        if error.is_untrusted:
            hint = f"`gpuctl login {self.url} --certificate-authority FILE` names the certificates to trust it by"
        return ConnectionFailed(error.message, hint, sent=error.sent)

    def _read(self, response: Response) -> dict[str, Any]:
        if 300 <= response.status < 400:
            raise self.not_a_service("returned a redirect, which is not followed: it would receive the token")
        try:
            value = json.loads(response.data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) and response.status in _AWAY:
            raise ServiceRefusal(
                response.status,
                "Unreachable",
                f"the service at {self.url} is unavailable: a proxy returned status {response.status}",
                "it may be starting: try again in a moment, or ask its administrators",
            )
        if not isinstance(value, dict) or (response.status >= 400 and not isinstance(value.get("error"), str)):
            raise self.not_a_service(f"returned status {response.status}, and is not a gpuctl service")
        if response.status < 400:
            return value
        raise self._refusal(response, value)

    def _refusal(self, response: Response, value: dict[str, Any]) -> ClusterError:
        status = response.status
        message, hint = visible(str(value.get("message") or value["error"])), value.get("hint")
        if status == 401:
            return self.refused_token(value["error"])
        if UNKNOWN_PATH in response.headers:
            return self._other_version()
        said = visible(hint) if isinstance(hint, str) else None
        return ServiceRefusal(status, value["error"], message, said, value.get("details"), value)

    def _other_version(self) -> IncompatibleVersions:
        return IncompatibleVersions(
            f"incompatible versions: gpuctl {__version__} and the service at {self.url}",
            "install the version of the service; ask its administrators for it",
        )


class NoCluster:
    """The session of a command that uses a service; any access raises the error that the service does not offer it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __getattr__(self, name: str) -> Any:
        raise not_offered_by_service(self._url)


def not_offered_by_service(url: str, what: str = "this", why: str = "it needs a kubeconfig") -> NeedsKubeconfig:
    """Return the error for an operation that the service does not offer."""
    return NeedsKubeconfig(
        f"{what} does not work through the service at {url}", f"{why}: name a cluster with --context or --kubeconfig"
    )


def _authority(path: str) -> bytes | None:
    if not path:
        return None
    try:
        with open(path, "rb") as stream:
            return stream.read(1024 * 1024)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"the certificates to trust cannot be read: {path}: {reason}") from None


def pages(get: Callable[..., dict[str, Any]], path: str, **query: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the items of a paginated list, page by page.

    :param get: the function that :meth:`ServiceClient.reading` yields.
    """
    seen = 0
    for number in count(1):
        found = get(path, page=str(number), pageSize=str(_PAGE), **query)
        yield found["items"]
        seen += len(found["items"])
        if not found["items"] or seen >= found["total"]:
            return
