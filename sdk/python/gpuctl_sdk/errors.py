"""What can go wrong, as exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class GpuctlError(Exception):
    """Something went wrong; ``str()`` is for people."""


class Unreachable(GpuctlError):
    """The service gave no answer, also when it was asked again."""


class ServiceError(GpuctlError):
    """An answer that is no success.

    ``status`` is HTTP's, ``error`` what programs compare (``NotFound``, ``AlreadyExists``). ``details`` has more, one
    by one, and ``hint`` says what to do. ``request_id`` finds it in the service's log.
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


class InvalidRequest(ServiceError):
    """400: something in the request is invalid; of documents ``details`` are the diagnostics."""


class Unauthorized(ServiceError):
    """401: the token is missing, wrong, or no longer valid."""


class Forbidden(ServiceError):
    """403: the token does not give the right."""


class NotFound(ServiceError):
    """404: there is no such thing, or it may not be seen."""


class Conflict(ServiceError):
    """409: it contradicts what is there, means several things, or has to be confirmed."""


class TooManyRequests(ServiceError):
    """429: too much at once, also when it was asked again."""


BY_STATUS: dict[int, type[ServiceError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
}
