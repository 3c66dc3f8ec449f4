"""Creating an object where another one has just gone: quotas may count that for a while."""

from __future__ import annotations

from collections.abc import Callable

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object


def create_unless_exists(session: Session, obj: Object, *, apply: bool, wait: Callable[[], bool]) -> bool:
    """Create an object, by server-side apply if ``apply``; False when there is one of its name.

    :param wait: called when a quota has no room: it waits a moment, or says that there is no time left.
    :raises ApiError: refused for another reason, or for a quota when no time is left.
    """
    while True:
        try:
            if apply:
                session.apply(obj)
            else:
                session.create(obj)
            return True
        except ApiError as error:
            if error.exists_already:
                return False
            if not error.exceeds_quota or not wait():
                raise
