"""Devices that drivers hand out by dynamic resource allocation (DRA): where their API is."""

from __future__ import annotations

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES

_CLASSES = RESOURCES["DeviceClass"]
DEVICE_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")
"""The kinds that pods name for their devices."""


def serves_dra(session: Session) -> bool:
    """Return True if the server has the API, or does not tell: it is on by default since Kubernetes 1.34."""
    try:
        session.request("GET", f"/apis/{_CLASSES.api_version}")
    except ApiError as error:
        if not (error.is_missing or error.lacks_permission):
            raise
        return not error.is_missing
    return True


def may_offer_extended_resource(session: Session, resource: str) -> bool:
    """Return True if nodes may have more of an extended resource than they report: a DeviceClass offers it (KEP-5004).

    Also where DeviceClasses may not be read.
    """
    try:
        classes = session.list_objects(_CLASSES)[0]
    except ApiError as error:
        if not (error.is_missing or error.lacks_permission):
            raise
        return error.lacks_permission and serves_dra(session)
    return any(item["spec"].get("extendedResourceName") == resource for item in classes)
