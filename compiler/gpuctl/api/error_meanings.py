"""Which error means what: the exit code of a command, the status of a REST API and the word for programs, once."""

from __future__ import annotations

from typing import Any, NamedTuple


class ErrorMeaning(NamedTuple):
    """The meaning of an error.

    ``exit_code``: 1 the answer is no, 2 the question lacks something, 3 the cluster or the way to it failed. ``status``
    is HTTP's, ``name`` what a program compares.
    """

    exit_code: int
    status: int
    name: str


MEANINGS: dict[str, ErrorMeaning] = {
    "ClusterError": ErrorMeaning(3, 500, "ClusterError"),
    "ConfigurationError": ErrorMeaning(3, 503, "NotConfigured"),
    "OtherVersion": ErrorMeaning(3, 503, "NotConfigured"),
    "WrongCluster": ErrorMeaning(3, 503, "WrongCluster"),
    "ConnectionFailed": ErrorMeaning(3, 503, "Unreachable"),
    "ApiError": ErrorMeaning(3, 500, "ApiError"),
    "Changed": ErrorMeaning(3, 409, "Changed"),
    "NotThere": ErrorMeaning(1, 404, "NotFound"),
    "NoSuchJob": ErrorMeaning(1, 404, "NotFound"),
    "JobNotFound": ErrorMeaning(1, 404, "NotFound"),
    "NoHistory": ErrorMeaning(1, 404, "NotFound"),
    "SeveralJobs": ErrorMeaning(1, 409, "SeveralFound"),
    "ForeignJob": ErrorMeaning(1, 409, "NotOurs"),
    "NoLog": ErrorMeaning(1, 404, "NoLog"),
    "NoPodRunning": ErrorMeaning(1, 409, "NoPodRunning"),
    "NotPossible": ErrorMeaning(1, 409, "NotPossible"),
    "NeedsKubeconfig": ErrorMeaning(2, 400, "NeedsKubeconfig"),
    "NotPausable": ErrorMeaning(1, 409, "NotPausable"),
    "NotRerunnable": ErrorMeaning(1, 409, "NotRerunnable"),
    "NotRevertible": ErrorMeaning(1, 409, "NotRevertible"),
    "NotRunning": ErrorMeaning(1, 409, "NotRunning"),
    "NotForwarded": ErrorMeaning(3, 409, "NotForwarded"),
    "NotStarted": ErrorMeaning(3, 409, "NotStarted"),
    "Refused": ErrorMeaning(1, 409, "Refused"),
    "AlreadyExists": ErrorMeaning(1, 409, "AlreadyExists"),
    "RightsMissing": ErrorMeaning(3, 403, "Forbidden"),
    "Declined": ErrorMeaning(1, 409, "NotConfirmed"),
    "ConfirmationMissing": ErrorMeaning(2, 409, "NotConfirmed"),
    "CheckpointFailed": ErrorMeaning(1, 409, "CheckpointFailed"),
    "RecoveryIncomplete": ErrorMeaning(1, 409, "NotRecovered"),
    "LeaseHeld": ErrorMeaning(1, 409, "Held"),
    "NotOurSet": ErrorMeaning(1, 409, "NotOurSet"),
    "InvalidDocuments": ErrorMeaning(1, 400, "InvalidDocuments"),
    "InvalidSide": ErrorMeaning(1, 400, "InvalidDocuments"),
    "InvalidOptions": ErrorMeaning(2, 400, "InvalidOptions"),
    "DamagedSnapshot": ErrorMeaning(3, 400, "DamagedSnapshot"),
    "BuildError": ErrorMeaning(1, 409, "NotBuilt"),
    "RevisionError": ErrorMeaning(2, 400, "InvalidRevision"),
    "ServiceRefusal": ErrorMeaning(3, 503, "ServiceUnavailable"),
}
"""By the name of the class: to import all that can fail would cost more than most of what does fail."""

_PACKAGE = __name__.partition(".")[0] + "."
_ANSWERS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
}
"""Statuses of the API server that are those of a REST API before it, with Kubernetes' own words for them."""


def meaning_of(error: BaseException) -> ErrorMeaning | None:
    """Return the meaning of an error by the nearest of its classes; None for an error that gpuctl does not raise."""
    for kind in type(error).__mro__:
        if kind.__module__.startswith(_PACKAGE) and kind.__name__ in MEANINGS:
            found = MEANINGS[kind.__name__]
            if kind.__name__ == "ServiceRefusal":
                return _of_service(error)
            return _of_answer(error, found) if kind.__name__ == "ApiError" else found
    return None


def _of_service(error: Any) -> ErrorMeaning:
    """Return the meaning of a service's error: that of the error that it names."""
    named = {meaning.name: meaning for meaning in MEANINGS.values()}.get(error.name)
    code = named.exit_code if named is not None else 1 if error.status in (400, 404, 409, 413) else 3
    return ErrorMeaning(code, error.status, error.name)


def _of_answer(error: Any, found: ErrorMeaning) -> ErrorMeaning:
    """Return the meaning of an error of the API server."""
    if error.status in _ANSWERS:
        return found._replace(status=error.status, name=error.reason or _ANSWERS[error.status])
    if 400 <= error.status < 500:
        return found._replace(status=400, name=error.reason or "BadRequest")
    return found._replace(status=503, name=error.reason or "ServiceUnavailable")


def failure_value(error: Any) -> dict[str, str | None]:
    """An error as ``-o json`` prints it where there is nothing else to print."""
    return {"error": error.message, "hint": error.hint}
