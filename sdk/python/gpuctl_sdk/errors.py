"""What can go wrong, as exceptions. None of them has the token, and none the text of an answer that is no error's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class GpuctlError(Exception):
    """Something went wrong; ``str()`` is for people."""


class Unreachable(GpuctlError):
    """The service gave no answer, also when it was asked again."""


class TimedOut(GpuctlError):
    """It took longer than was allowed. What a request does may be done nevertheless."""


class UnexpectedAnswer(GpuctlError):
    """An answer that is none of this API's: what answers at this address is something else."""


class JobEnded(GpuctlError):
    """A job has ended, and not as it was waited for; ``status`` is what it is."""

    def __init__(self, job: str, status: str) -> None:
        super().__init__(f"{job} is {status}")
        self.status = status


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

    def __reduce__(self) -> tuple[Any, ...]:
        """As what it is made of: it can go from one process to another."""
        return type(self), (self.status, self.error, self.message, self.details, self.hint, self.request_id)


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
