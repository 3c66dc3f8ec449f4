"""Objects of quotas in the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.scope import is_absent
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import QUOTA_KINDS, RESOURCES, Object


def list_quota_objects(session: Session, names: Iterable[str], label: str) -> dict[str, list[Object]]:
    """Return the objects of quotas in all namespaces, by kind; if that is forbidden, in those of the users.

    :param names: the users.
    :raises ApiError: the user may not list them there either.
    """

    def read(kind: str) -> list[Object]:
        try:
            return session.list_objects(RESOURCES[kind], labels=label)[0]
        except ApiError as error:
            if is_absent(kind, error):
                return []
            if not error.lacks_permission:
                raise
        return [obj for name in names for obj in session.list_objects(RESOURCES[kind], name, labels=label)[0]]

    return dict(zip(QUOTA_KINDS, session.each(read, QUOTA_KINDS), strict=True))
