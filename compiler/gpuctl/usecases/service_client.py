"""The service instead of a cluster, for those who have no kubeconfig: what a use case would find out is asked of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gpuctl.kube.api_errors import ClusterError, ConfigurationError, ConnectionFailed, NotPossible
from gpuctl.kube.credentials import Credential, Fixed, bearer
from gpuctl.kube.pauses import jittered
from gpuctl.kube.proxies import proxy_for
from gpuctl.kube.transport import Response, ServerAccess, Transport
from gpuctl.kube.trust import Trust
from gpuctl.language.wording import visible
from gpuctl.release import __version__
from gpuctl.usecases.wire import NotOfThisForm, decode, encode

if TYPE_CHECKING:
    from gpuctl.kube.scope import Scope
    from gpuctl.usecases.kept_servers import KeptServer

BASE = "/api/v1"
_MARGIN = 30.0
"""Seconds that an answer may take longer than what the service waits for."""
PATIENCE = 6.0
"""Seconds for which a busy service is asked again."""
Value = TypeVar("Value")


class ServiceRefusal(ClusterError):
    """An answer of the service that is no success: ``name`` is its word, ``status`` HTTP's, ``details`` say more.

    ``plan`` is the one that was refused, None where there is none.
    """

    def __init__(self, status: int, name: str, message: str, hint: str | None = None, details: Any = ()) -> None:
        super().__init__(message, hint)
        self.status = status
        self.name = name
        self.details = details if isinstance(details, list) else []
        self.plan: Any = None


class ServiceClient:
    """A service, asked by the owner of a token."""

    def __init__(self, server: KeptServer) -> None:
        """:raises ConfigurationError: the certificates to trust cannot be read."""
        self.url = server.url
        trust = Trust(_authority(server.authority), "", True, server.authority)
        credential = Credential(bearer(server.token))
        access = ServerAccess(server.url, trust, Fixed(credential), (), proxy_for(server.url, ""), "")
        self._transport = Transport(access)

    def close(self) -> None:
        """Let go of the sockets."""
        self._transport.close()

    def check(self) -> None:
        """See that the service is one, and accepts the token.

        :raises ClusterError: it does not.
        """
        value = self.request("POST", "/auth/check", {"resource": "jobs", "action": "get"})
        if not isinstance(value.get("allowed"), bool):
            raise self._stranger("answers, but not as gpuctl's service does")

    def ask(self, question: str, kind: type[Value], scope: Scope | None = None, **arguments: Any) -> Value:
        """What a use case finds out, of this type; what it notes goes to the scope.

        :raises ClusterError: what the use case would raise, or the service fails.
        """
        namespace = None if scope is None else scope.namespace
        body = {"namespace": namespace, "arguments": encode(arguments)}
        value = self.request("POST", f"/command-line/{question}", body, within=patience_for(arguments))
        try:
            answer = value["answer"]
            if scope is not None:
                for note in value["notes"]:
                    scope.note(str(note))
            return decode(kind, answer)
        except (NotOfThisForm, KeyError, TypeError):
            raise self._other_version(value) from None

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, within: float | None = None
    ) -> dict[str, Any]:
        """The answer to a request; a busy service is asked again.

        :param within: seconds that it may take; None for as long as a change that says nothing of it.
        :raises ServiceRefusal: it is no success.
        :raises ConnectionFailed: there is none.
        """
        end, pause = time.monotonic() + PATIENCE, 0.25
        while True:
            response = self._send(method, path, body, patience_for({}) if within is None else within)
            if response.status != 429 or time.monotonic() + pause > end:
                return self._read(response)
            # Nothing was done yet.
            time.sleep(jittered(pause))
            pause = min(2 * pause, 1.0)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, within: float) -> Response:
        content = "application/json" if body is not None else ""
        given = dict(body) if body is not None else None
        try:
            return self._transport.send(method, BASE + path, None, given, content, within=within)
        except ConnectionFailed as error:
            raise ConnectionFailed(
                error.message,
                "check the service's address, the network and the proxy; --certificate-authority of `gpuctl login` "
                "names whom to trust",
                sent=error.sent,
            ) from None

    def _read(self, response: Response) -> dict[str, Any]:
        if 300 <= response.status < 400:
            raise self._stranger("redirects elsewhere, which is not followed: the token would go there")
        try:
            value = json.loads(response.data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or (response.status >= 400 and not isinstance(value.get("error"), str)):
            raise self._stranger(f"answered with status {response.status}, and not as gpuctl's service does")
        if response.status < 400:
            return value
        raise self._refusal(response.status, value)

    def _refusal(self, status: int, value: dict[str, Any]) -> ClusterError:
        message, hint = visible(str(value.get("message") or value["error"])), value.get("hint")
        if status == 401:
            return ServiceRefusal(
                401,
                value["error"],
                f"{self.url} does not accept the token",
                f"`gpuctl login {self.url}` asks for another",
            )
        if status == 404 and message == "there is nothing at this path":
            return self._other_version(value)
        said = visible(hint) if isinstance(hint, str) else None
        return ServiceRefusal(status, value["error"], message, said, value.get("details"))

    def _stranger(self, text: str) -> ConfigurationError:
        return ConfigurationError(f"what is at {self.url} {text}", "check the address of the service")

    def _other_version(self, value: Mapping[str, Any]) -> ClusterError:
        version = value.get("version")
        theirs = f"gpuctl {visible(str(version))[:40]}" if version else "another version of gpuctl"
        return ConfigurationError(
            f"the service at {self.url} is {theirs}, this is gpuctl {__version__}: they do not understand each other",
            "install the version of the service; its administrators know it",
        )


def patience_for(arguments: Mapping[str, Any]) -> float:
    """Seconds for an answer: a little longer than the service itself waits for what is asked for with these."""
    from gpuctl.usecases.change_options import LONGEST_BY_SERVICE, RunOptions

    run = arguments.get("run")
    asked = run.timeout if isinstance(run, RunOptions) else RunOptions().timeout
    return min(asked, LONGEST_BY_SERVICE) + _MARGIN


class NoCluster:
    """Stands where a session would: what is asked of it has no way through the service."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __getattr__(self, name: str) -> Any:
        raise not_by_service(self._url)


def not_by_service(url: str, what: str = "this") -> NotPossible:
    """The refusal of what the service does not offer."""
    return NotPossible(
        f"{what} does not work through the service at {url}",
        "it needs a kubeconfig: name its cluster with --context or --kubeconfig",
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
