"""The meaning of each error: exit code of a command, HTTP status of the REST API, and name for programs."""

from __future__ import annotations

from typing import Any, NamedTuple

UNDETERMINED = 2
"""Exit code of ``diff``, ``drift`` and ``impact`` when they cannot compare: 1 means that there are differences."""


class ErrorMeaning(NamedTuple):
    """The meaning of an error.

    ``exit_code``: 1 a negative result, 2 wrong usage, 3 a failure of the cluster or the connection. ``status``: the
    HTTP status. ``name``: the name that programs compare.
    """

    exit_code: int
    status: int
    name: str


MEANINGS: dict[str, ErrorMeaning] = {
    "ClusterError": ErrorMeaning(3, 500, "ClusterError"),
    "ConfigurationError": ErrorMeaning(3, 503, "NotConfigured"),
    "IncompatibleVersions": ErrorMeaning(3, 503, "NotConfigured"),
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
    "NotScalable": ErrorMeaning(1, 409, "NotScalable"),
    "NotSchedulable": ErrorMeaning(1, 409, "NotSchedulable"),
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
    "InvalidRevisionDocuments": ErrorMeaning(1, 400, "InvalidDocuments"),
    "InvalidOptions": ErrorMeaning(2, 400, "InvalidOptions"),
    "DamagedSnapshot": ErrorMeaning(3, 400, "DamagedSnapshot"),
    "BuildError": ErrorMeaning(1, 409, "NotBuilt"),
    "RevisionError": ErrorMeaning(2, 400, "InvalidRevision"),
    "ServiceRefusal": ErrorMeaning(3, 503, "ServiceUnavailable"),
}
"""Class name -> meaning. Names, because importing all modules that raise these errors would slow down the start."""

_PACKAGE = __name__.partition(".")[0] + "."
_ANSWERS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
}
"""Statuses of the API server that the REST API passes on, with Kubernetes' reasons."""


def meaning_of(error: BaseException) -> ErrorMeaning | None:
    """Return the meaning of an error by its class or nearest base class; None for errors of other packages."""
    for kind in type(error).__mro__:
        if kind.__module__.startswith(_PACKAGE) and kind.__name__ in MEANINGS:
            found = MEANINGS[kind.__name__]
            if kind.__name__ == "ServiceRefusal":
                return _of_service(error)
            return _of_answer(error, found) if kind.__name__ == "ApiError" else found
    return None


def _of_service(error: Any) -> ErrorMeaning:
    """Return the meaning of a service's error, by the error's name."""
    named = {meaning.name: meaning for meaning in MEANINGS.values()}.get(error.name)
    code = named.exit_code if named is not None else 1 if error.status in (400, 404, 409, 413) else 3
    return ErrorMeaning(code, error.status, error.name)


def _of_answer(error: Any, found: ErrorMeaning) -> ErrorMeaning:
    """Return the meaning of an error of the API server.

    Objects that it refuses, also by a webhook, are errors of the plan: ``Refused`` in the dry run, and failed steps,
    ``NotApplied``, in the execution.
    """
    if error.status in _ANSWERS:
        return found._replace(status=error.status, name=error.reason or _ANSWERS[error.status])
    if 400 <= error.status < 500:
        return found._replace(status=400, name=error.reason or "BadRequest")
    return found._replace(status=503, name=error.reason or "ServiceUnavailable")


def failure_value(error: Any) -> dict[str, str | None]:
    """Return the JSON of a command that failed and has no other output."""
    return {"error": error.message, "hint": error.hint}
