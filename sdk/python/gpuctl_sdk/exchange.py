"""The parts of an exchange that both clients share: requests from calls, results and errors from responses."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from gpuctl_sdk.calls import Call
from gpuctl_sdk.errors import BY_STATUS, GpuctlError, ServiceError, TimedOut, UnexpectedAnswer, Unreachable
from gpuctl_sdk.retrying import RETRIED_STATUSES, Retrying

BASE = "/api/v1"
__version__ = "0.1.0"
TIMEOUT, TIMEOUT_OF_CHANGES = 75.0, 660.0
"""Default timeouts in seconds. The service holds a request for at most 60, and a change for at most 600."""
CONNECTING = 10.0
LAST_REQUEST = 1.0
"""Seconds for a request that begins when the call's time is over, such as the last one of a wait."""
Token = str | Callable[[], str]
"""A token, or a function that returns the current one."""


_USAGE_ERRORS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
"""Names of errors of the usage paths, which return a name only as the reason of some."""


_DELETED_BEFORE = "an earlier attempt of this deletion ended without a result: it may have succeeded"


class Wait(NamedTuple):
    """Seconds to wait before a request is retried."""

    seconds: float


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Exchange:
    """The address of the service, the token, the retry policy and the timeout."""

    def __init__(
        self,
        url: str,
        token: Token,
        retrying: Retrying,
        insecure_plain_http: bool = False,
        timeout: float | None = None,
    ) -> None:
        where = urlsplit(url)
        is_address = where.scheme in ("http", "https") and where.netloc and "@" not in where.netloc
        if not is_address or where.query or where.fragment:
            raise ValueError("the address of the service is invalid: it must look like https://gpuctl.example.com")
        if where.scheme == "http" and not insecure_plain_http and not _is_loopback(where.hostname or ""):
            raise ValueError(
                "the token would be sent without encryption: use https://, or `insecure_plain_http=True` in a network "
                "that you do not share"
            )
        self.url = url.rstrip("/").removesuffix(BASE) + BASE
        self.retrying = retrying
        self._timeout = timeout
        self._token = token
        self.authorization()

    def authorization(self) -> dict[str, str]:
        """Return the authorization header.

        :raises ValueError: the token is empty or has invalid characters.
        """
        token = self._token if isinstance(self._token, str) else self._token()
        if not token or not token.isascii() or not token.isprintable() or token != token.strip():
            raise ValueError("the token is empty or has invalid characters")
        return {"Authorization": f"Bearer {token}"}

    def request(self, call: Call) -> dict[str, Any]:
        """Return a call as keyword arguments for httpx."""
        query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in call.query.items()}
        headers = {**call.headers, **self.authorization()}
        headers |= {"Accept": "application/json", "User-Agent": f"gpuctl-sdk-python/{__version__}"}
        return {
            "method": call.method,
            "url": f"{self.url}{call.path}",
            "params": query or None,
            "json": call.body,
            "headers": headers,
            "timeout": self._timeout_of(call),
        }

    def _timeout_of(self, call: Call) -> httpx.Timeout:
        seconds = self._timeout
        if seconds is None:
            seconds = TIMEOUT_OF_CHANGES if call.waits else TIMEOUT
        if call.end is not None:
            seconds = min(seconds, max(call.end - time.monotonic(), LAST_REQUEST))
        return httpx.Timeout(seconds, connect=min(seconds, CONNECTING))

    def answered(self, call: Call, attempt: int, response: httpx.Response) -> Any | Wait:
        """Return the result of a response, or a :class:`Wait` before a retry.

        :raises ServiceError: the response is an error.
        :raises UnexpectedAnswer: the response is not one of this API.
        """
        if response.is_success:
            return _value(call, response)
        may_be_done = call.method == "DELETE" and attempt > 1
        error = error_of(response.status_code, response.headers, response.content, may_be_done=may_be_done)
        wait = self._wait(call, attempt, response.headers.get("retry-after"))
        if response.status_code not in RETRIED_STATUSES or wait is None:
            raise error
        return wait

    def failed(self, call: Call, attempt: int, error: httpx.RequestError) -> Wait:
        """Return a :class:`Wait` before a retry of a request that got no response.

        :raises TimedOut: the request timed out.
        :raises Unreachable: the request is not retried.
        """
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            raise TimedOut(f"{call.method} {call.path}: no response in time") from None
        wait = self._wait(call, attempt)
        if wait is None:
            raise unreachable(self.url, error) from None
        return wait

    def _wait(self, call: Call, attempt: int, retry_after: str | None = None) -> Wait | None:
        """Return the pause before the next attempt; None if the request is not sent again."""
        wait = Wait(self.retrying.after(attempt, retry_after))
        is_late = call.end is not None and time.monotonic() + wait.seconds > call.end
        return wait if call.repeatable and attempt < self.retrying.attempts and not is_late else None


def unreachable(url: str, error: BaseException) -> GpuctlError:
    return Unreachable(f"{url} cannot be reached: {str(error) or type(error).__name__}")


def error_of(status: int, headers: Mapping[str, str], body: bytes, *, may_be_done: bool = False) -> ServiceError:
    """Return the error of an unsuccessful response.

    :param may_be_done: an earlier attempt of a deletion may have succeeded, so that a 404 is no failure.
    """
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    identity = headers.get("x-request-id", "")
    kind = BY_STATUS.get(status, ServiceError)
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        # A proxy between client and service answered; its body may be an HTML page.
        return kind(status, "HTTPError", f"the response has status {status} and is not from gpuctl", (), None, identity)
    error, message = str(value.get("error", "Error")), value["message"]
    if "code" in value and "error" in value:
        # The usage paths return the kind of error in `message`, and what is wrong in `error`.
        error, message = str(value.get("reason") or _USAGE_ERRORS.get(status, "Error")), error
    details = value.get("details")
    return kind(
        status,
        error,
        message,
        details if isinstance(details, list) else (),
        _DELETED_BEFORE if may_be_done and status == 404 else value.get("hint"),
        identity,
    )


def _value(call: Call, response: httpx.Response) -> Any:
    try:
        return TypeAdapter(call.answer).validate_python(response.json())
    except ValidationError as error:
        places = ", ".join(".".join(map(str, item["loc"])) or "all" for item in error.errors(include_input=False)[:5])
        raise UnexpectedAnswer(f"{call.method} {call.path}: the response does not match the API: {places}") from None
    except ValueError:
        raise UnexpectedAnswer(f"{call.method} {call.path}: the response is not JSON") from None
