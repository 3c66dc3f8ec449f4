"""Creation of an object after a deletion: quotas may still count the deleted object for a while."""

from __future__ import annotations

from collections.abc import Callable

from gpuctl.apply.run.remaining_indexes import create_remaining
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES


def create_unless_exists(session: Session, obj: Object, *, apply: bool, wait: Callable[[], bool]) -> bool:
    """Create an object, by server-side apply if ``apply``; return False if its name is taken.

    :param wait: called if a quota has no room: waits a moment, or returns False if no time is left.
    :raises ApiError: refused for another reason, or for a quota when no time is left.
    """
    while True:
        try:
            if apply:
                session.apply(obj)
            elif FINISHED_INDEXES in annotations_of(obj):
                create_remaining(session, obj)
            else:
                session.create(obj)
            return True
        except ApiError as error:
            if error.exists_already:
                return False
            if not error.exceeds_quota or not wait():
                raise
