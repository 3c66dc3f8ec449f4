"""Exceptions of the clients. None contains the token, or the text of a response that is not an error of the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class GpuctlError(Exception):
    """Base class of the errors; ``str()`` is a message for people."""


class Unreachable(GpuctlError):
    """The service did not respond, also after retries."""


class TimedOut(GpuctlError):
    """The call took longer than its timeout. The server may still have executed the request."""


class UnexpectedAnswer(GpuctlError):
    """The response is not one of this API: the server at this address is not a gpuctl service."""


class JobEnded(GpuctlError):
    """``job`` has ended with another status than expected; ``status`` has it."""

    def __init__(self, job: str, status: str) -> None:
        super().__init__(f"{job} is {status}")
        self.job = job
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, so that the error can be passed between processes."""
        return type(self), (self.job, self.status)


class ServiceError(GpuctlError):
    """An error response of the service.

    ``status`` is the HTTP status, ``error`` the stable name for programs (``NotFound``, ``AlreadyExists``). ``details``
    lists further information, ``hint`` says what to do, and ``request_id`` identifies the request in the service's log.
    """

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        details: Sequence[Any] = (),
        hint: str | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(f"{message} ({error}, {status})" + (f"; {hint}" if hint else ""))
        self.status = status
        self.error = error
        self.message = message
        self.details = list(details)
        self.hint = hint
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, so that the error can be passed between processes."""
        return type(self), (self.status, self.error, self.message, self.details, self.hint, self.request_id)


class InvalidRequest(ServiceError):
    """400: the request is invalid; for documents, ``details`` has the diagnostics."""


class Unauthorized(ServiceError):
    """401: the token is missing, wrong, or no longer valid."""


class Forbidden(ServiceError):
    """403: the token does not grant the right."""


class NotFound(ServiceError):
    """404: the object does not exist, or the caller may not see it."""


class Conflict(ServiceError):
    """409: the request conflicts with the current state, is ambiguous, or needs confirmation."""


class TooManyRequests(ServiceError):
    """429: too many requests, also after retries."""


BY_STATUS: dict[int, type[ServiceError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
}
