"""Which error means what: the exit code of a command, the status of a REST API and the word for programs, once."""

from __future__ import annotations

from typing import Any, NamedTuple


class Meaning(NamedTuple):
    """The meaning of an error.

    ``exit_code``: 1 the answer is no, 2 the question lacks something, 3 the cluster or the way to it failed. ``status``
    is HTTP's, ``name`` what a program compares.
    """

    exit_code: int
    status: int
    name: str


MEANINGS: dict[str, Meaning] = {
    "ClusterError": Meaning(3, 500, "ClusterError"),
    "ConfigurationError": Meaning(3, 503, "NotConfigured"),
    "OtherVersion": Meaning(3, 503, "NotConfigured"),
    "WrongCluster": Meaning(3, 503, "WrongCluster"),
    "ConnectionFailed": Meaning(3, 503, "Unreachable"),
    "ApiError": Meaning(3, 500, "ApiError"),
    "Changed": Meaning(3, 409, "Changed"),
    "NotThere": Meaning(1, 404, "NotFound"),
    "NoSuchJob": Meaning(1, 404, "NotFound"),
    "Absent": Meaning(1, 404, "NotFound"),
    "NoHistory": Meaning(1, 404, "NotFound"),
    "SeveralJobs": Meaning(1, 409, "SeveralFound"),
    "ForeignJob": Meaning(1, 409, "NotOurs"),
    "NoLog": Meaning(1, 404, "NoLog"),
    "NoPodRunning": Meaning(1, 409, "NoPodRunning"),
    "NotPossible": Meaning(1, 409, "NotPossible"),
    "NeedsKubeconfig": Meaning(2, 400, "NeedsKubeconfig"),
    "NotPausable": Meaning(1, 409, "NotPausable"),
    "NotRerunnable": Meaning(1, 409, "NotRerunnable"),
    "NotRevertible": Meaning(1, 409, "NotRevertible"),
    "NotRunning": Meaning(1, 409, "NotRunning"),
    "NotForwarded": Meaning(3, 409, "NotForwarded"),
    "NotStarted": Meaning(3, 409, "NotStarted"),
    "Refused": Meaning(1, 409, "Refused"),
    "Exists": Meaning(1, 409, "AlreadyExists"),
    "Forbidden": Meaning(3, 403, "Forbidden"),
    "Declined": Meaning(1, 409, "NotConfirmed"),
    "Unasked": Meaning(2, 409, "NotConfirmed"),
    "CheckpointFailed": Meaning(1, 409, "CheckpointFailed"),
    "Unrecovered": Meaning(1, 409, "NotRecovered"),
    "Held": Meaning(1, 409, "Held"),
    "NotOurSet": Meaning(1, 409, "NotOurSet"),
    "InvalidDocuments": Meaning(1, 400, "InvalidDocuments"),
    "InvalidSide": Meaning(1, 400, "InvalidDocuments"),
    "InvalidOptions": Meaning(2, 400, "InvalidOptions"),
    "DamagedSnapshot": Meaning(3, 400, "DamagedSnapshot"),
    "BuildError": Meaning(1, 409, "NotBuilt"),
    "RevisionError": Meaning(2, 400, "InvalidRevision"),
    "ServiceRefusal": Meaning(3, 503, "ServiceUnavailable"),
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


def meaning_of(error: BaseException) -> Meaning | None:
    """Return the meaning of an error by the nearest of its classes; None for an error that gpuctl does not raise."""
    for kind in type(error).__mro__:
        if kind.__module__.startswith(_PACKAGE) and kind.__name__ in MEANINGS:
            found = MEANINGS[kind.__name__]
            if kind.__name__ == "ServiceRefusal":
                return _of_service(error)
            return _of_answer(error, found) if kind.__name__ == "ApiError" else found
    return None


def _of_service(error: Any) -> Meaning:
    """Return the meaning of a service's error: that of the error that it names."""
    named = {meaning.name: meaning for meaning in MEANINGS.values()}.get(error.name)
    code = named.exit_code if named is not None else 1 if error.status in (400, 404, 409, 413) else 3
    return Meaning(code, error.status, error.name)


def _of_answer(error: Any, found: Meaning) -> Meaning:
    """Return the meaning of an error of the API server."""
    if error.status in _ANSWERS:
        return found._replace(status=error.status, name=error.reason or _ANSWERS[error.status])
    if 400 <= error.status < 500:
        return found._replace(status=400, name=error.reason or "BadRequest")
    return found._replace(status=503, name=error.reason or "ServiceUnavailable")


def failure_value(error: Any) -> dict[str, str | None]:
    """An error as ``-o json`` prints it where there is nothing else to print."""
    return {"error": error.message, "hint": error.hint}
