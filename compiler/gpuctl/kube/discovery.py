"""The kinds that the API server has."""

from __future__ import annotations

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Resource


def serves(session: Session, resource: Resource) -> bool:
    """Return True if the server has the API of a kind; also if the user may not ask."""
    try:
        session.request("GET", f"/apis/{resource.api_version}")
    except ApiError as error:
        if error.is_missing:
            return False
        if not error.lacks_permission:
            raise
    return True
