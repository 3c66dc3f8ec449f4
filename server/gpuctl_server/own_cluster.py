"""The platform's name for the cluster of the service, and rejection of documents that belong to other clusters."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.planner import title_of
from gpuctl.compilation import Compilation
from gpuctl.frontend.source import Source
from gpuctl.kube.cluster_identity import address_mismatch
from gpuctl.language.display_text import first_few
from gpuctl.language.platform_document import ClusterIdentity
from gpuctl.objects.api_resources import Key
from gpuctl_server.http_problems import Problem
from gpuctl_server.service_context import Service

_NAMED = 8
_SYSTEM = Key("Namespace", "", "kube-system")


def own_name(service: Service) -> str | None:
    """Return the platform's name for the cluster; None if no name, or more than one, matches."""
    clusters, stated = service.platform.clusters, service.settings.cluster
    names = [name for name in clusters if stated in (None, name) and _is_own(service, clusters[name])]
    return names[0] if len(names) == 1 else None


def _is_own(service: Service, cluster: ClusterIdentity) -> bool:
    inside = not service.connection.context
    if not inside and address_mismatch(service.connection, cluster) is not None:
        return False
    if cluster.uid is None:
        # A service in a pod has no context, and reaches the API server by an address that is only valid in the cluster.
        return not inside or service.settings.cluster is not None
    system = service.mirror.find(_SYSTEM)
    return system is not None and cluster.uid == system["metadata"]["uid"]


def cluster_for(service: Service, sources: Iterable[Source]) -> str | None:
    """Return the cluster to compile documents for; None if no document has a placement, or the cluster's name is
    unknown.
    """
    # Most documents have no placement, so that the name need not be determined.
    return own_name(service) if any("placement" in source.text.lower() for source in sources) else None


def reject_other_clusters(compilation: Compilation, cluster: str | None) -> None:
    """Raise an error if a document belongs to another cluster than the one that it was compiled for.

    :raises Problem: 400.
    """
    details = [
        {"document": title_of(document), "clusters": document.model.placement.clusters}  # type: ignore[union-attr]
        for document in compilation.left_out
    ]
    if details:
        named = (f"{item['document']} ({', '.join(item['clusters'])})" for item in details)
        raise Problem(
            400,
            f"this is the service of the cluster {cluster}; these belong to others: {first_few(named, _NAMED)}",
            error="AnotherCluster",
            details=details,
            hint="send them to the services of those clusters",
        )
