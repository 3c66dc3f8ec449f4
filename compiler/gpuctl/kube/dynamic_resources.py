"""Dynamic resource allocation (DRA): whether the server has its API, and which extended resources it offers."""

from __future__ import annotations

from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.discovery import serves
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Resource

_CLASSES = RESOURCES["DeviceClass"]
_TAINT_RULES = "devicetaintrules"
# The version of Kubernetes 1.36, for servers that do not list theirs.
_TAINT_RULES_VERSION = "v1beta2"
DEVICE_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")
"""The kinds by which pods refer to their devices."""


def serves_dra(session: Session) -> bool:
    """Return True if the server has the DRA API; also if the user may not ask: it is on by default since Kubernetes
    1.34.
    """
    return serves(session, _CLASSES)


def taint_rule_resource(session: Session) -> Resource | None:
    """Return the kind DeviceTaintRule in the version that the server prefers; None if the server does not have it.

    Kubernetes 1.36 has it only if an administrator enables its API.
    """
    version: str | None = _TAINT_RULES_VERSION
    try:
        group = session.request("GET", f"/apis/{_CLASSES.group}")
        version = next(
            (item["version"] for item in group["versions"] if _has_taint_rules(session, item["version"])), None
        )
    except ApiError as error:
        if not (error.lacks_permission or error.is_missing):
            raise
    if version is None:
        return None
    return Resource(_CLASSES.group, version, _TAINT_RULES, "DeviceTaintRule", namespaced=False)


def _has_taint_rules(session: Session, version: str) -> bool:
    kinds = session.request("GET", f"/apis/{_CLASSES.group}/{version}")["resources"]
    return any(item["name"] == _TAINT_RULES for item in kinds)


def may_offer_extended_resource(session: Session, resource: str) -> bool:
    """Return True if a DeviceClass offers an extended resource (KEP-5004), so that nodes may have more than they
    report.

    Also True if DeviceClasses may not be read and the server has the DRA API.
    """
    classes = if_allowed(lambda: session.list_objects(_CLASSES)[0], None)
    if classes is None:
        return serves_dra(session)
    return any(item["spec"].get("extendedResourceName") == resource for item in classes)
