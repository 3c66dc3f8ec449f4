"""The table of error meanings: every exception that can reach a caller is in it, and it has no other entries."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import gpuctl
from gpuctl.api.error_meanings import MEANINGS, ErrorMeaning, meaning_of
from gpuctl.kube.api_errors import ApiError, ConnectionFailed
from gpuctl.usecases.documents.change_options import InvalidOptions

INTERNAL_EXCEPTIONS = {
    "CannotSet": "becomes an InvalidOptions",
    "CodeProblem": "becomes a diagnostic",
    "CronProblem": "becomes a diagnostic",
    "DamagedSecret": "becomes a skipped Secret, or a problem of the recovery",
    "DecisionRefused": "becomes an error of the plan",
    "InvalidEntry": "becomes a problem of the recovery",
    "ExecAbandoned": "becomes the failure of a checkpoint",
    "InvalidSelector": "becomes a wrong option, or a problem of the request",
    "InvalidLedger": "becomes a rejection of the service that sent it",
    "NeverMatches": "becomes a diagnostic, or the status of a schedule",
    "NotYaml": "becomes a ConfigurationError, or an empty value",
    "NotUnderstood": "becomes a script without commands, or an Unreadable",
    "NotConnected": "becomes a failed connection",
    "NotAFile": "becomes a diagnostic",
    "InOtherSet": "becomes an error of the plan",
    "NoPlace": "becomes the reason in the ledger why a step of a script is dropped",
    "ReadError": "becomes a diagnostic",
    "UnexpectedNode": "becomes a failure in the report about nodes",
    "UnknownFieldRead": "becomes a diagnostic",
    "Unreadable": "becomes the failure of an import",
    "UnknownMatch": "becomes a doubt about the count of devices",
}
"""Exceptions that are caught inside gpuctl, and what they become."""
STATUSES = {400, 401, 403, 404, 409, 413, 429, 500, 503}


def exception_classes(kind: type[BaseException] = Exception) -> Iterator[type[BaseException]]:
    """Yield every exception class of the package, at any depth of inheritance."""
    for module in pkgutil.walk_packages(gpuctl.__path__, "gpuctl."):
        if not module.name.startswith("gpuctl.cli") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    waiting = [kind]
    while waiting:
        found = waiting.pop().__subclasses__()
        waiting += found
        yield from (one for one in found if one.__module__.startswith("gpuctl.") and "gpuctl.cli" not in one.__module__)


def test_every_exception_has_a_meaning() -> None:
    names = {one.__name__ for one in exception_classes() if not one.__name__.startswith("_")}
    assert names - INTERNAL_EXCEPTIONS.keys() == MEANINGS.keys()
    assert names > INTERNAL_EXCEPTIONS.keys()
    assert MEANINGS.keys().isdisjoint(INTERNAL_EXCEPTIONS)


@pytest.mark.parametrize("name", MEANINGS)
def test_meanings_have_documented_exit_codes_and_statuses(name: str) -> None:
    meaning = MEANINGS[name]
    assert meaning.exit_code in {1, 2, 3}
    assert meaning.status in STATUSES
    assert meaning.name.isidentifier()
    # Exit code 3: the cluster failed, or access was denied. Mistakes in the request have other codes.
    assert (meaning.exit_code == 3) == (
        meaning.status in {403, 500, 503} or name in {"Changed", *OTHER_CLUSTER_FAILURES}
    )


OTHER_CLUSTER_FAILURES = {"NotForwarded", "NotStarted", "DamagedSnapshot"}


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (401, "Unauthorized", (401, "Unauthorized")),
        (403, "", (403, "Forbidden")),
        (404, "NotFound", (404, "NotFound")),
        (409, "AlreadyExists", (409, "AlreadyExists")),
        (413, "", (413, "RequestEntityTooLarge")),
        (422, "Invalid", (400, "Invalid")),
        (429, "", (429, "TooManyRequests")),
        (500, "InternalError", (503, "InternalError")),
        (504, "", (503, "ServiceUnavailable")),
    ],
)
def test_api_server_errors_map_to_statuses(status: int, reason: str, expected: tuple[int, str]) -> None:
    assert meaning_of(ApiError(status, reason, "no")) == ErrorMeaning(3, *expected)


def test_subclasses_inherit_meanings_and_foreign_errors_have_none() -> None:
    class SubclassOfConnectionFailed(ConnectionFailed):
        """A subclass defined outside gpuctl."""

    assert meaning_of(SubclassOfConnectionFailed("away")) == MEANINGS["ConnectionFailed"]
    assert meaning_of(InvalidOptions("no")) == MEANINGS["InvalidOptions"]
    assert meaning_of(ValueError("no")) is None
    assert meaning_of(KeyboardInterrupt()) is None
