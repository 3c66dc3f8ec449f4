"""Changes of exactly the version of an object that was read, so that no concurrent change is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpuctl.kube.api_errors import ApiError

_Result = TypeVar("_Result")

_ATTEMPTS = 20
"""Maximum attempts. Each conflict means that another client has finished, so that as many clients may write at once."""


def retried_on_conflict(change: Callable[[], _Result]) -> _Result:
    """Return the result of a function that reads an object and writes this version of it. It is called again if the
    object has changed in between.

    :raises ApiError: another error, such as a field that another manager holds, or the object changes all the time.
    """
    for left in reversed(range(_ATTEMPTS)):
        try:
            return change()
        except ApiError as error:
            if not left or not _is_version_conflict(error):
                raise
    raise AssertionError("the last attempt returns or raises")


def _is_version_conflict(error: ApiError) -> bool:
    """Return True if the object has changed since it was read, and no other manager holds the fields."""
    return error.is_conflict and not any(cause.reason == "FieldManagerConflict" for cause in error.causes)
