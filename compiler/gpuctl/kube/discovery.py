"""The kinds that the API server has."""

from __future__ import annotations

from typing import NamedTuple

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


_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)


class ServedKinds(NamedTuple):
    """Kinds that the server has.

    :param unknown: groups whose kinds are not known, because the server behind them does not respond.
    """

    resources: list[Resource]
    unknown: list[str]


def namespaced_kinds(session: Session) -> ServedKinds:
    """Return the kinds of objects in namespaces that can be listed and deleted, each in the first version that has it.

    :raises ApiError: the user may not ask, or the server is older than Kubernetes 1.27.
    """
    found: dict[tuple[str, str], Resource] = {}
    unknown = []
    for path in ("/api", "/apis"):
        for group in session.request("GET", path, accept=_AGGREGATED).get("items") or []:
            name = group["metadata"].get("name") or ""
            for version in group.get("versions") or []:
                if version.get("freshness") == "Stale":
                    unknown.append(name)
                for item in version.get("resources") or []:
                    if item.get("scope") == "Namespaced" and {"list", "delete"} <= set(item.get("verbs") or ()):
                        kind = str((item.get("responseKind") or {}).get("kind"))
                        resource = Resource(name, version["version"], item["resource"], kind)
                        found.setdefault((name, resource.plural), resource)
    return ServedKinds(list(found.values()), unknown)
