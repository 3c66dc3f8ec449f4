"""Which of the platform's clusters the service is before, and what of documents belongs there."""

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
    """What the platform calls the cluster; None where that is not known, or would be true of several."""
    clusters, stated = service.platform.clusters, service.settings.cluster
    names = [name for name in clusters if stated in (None, name) and _is_own(service, clusters[name])]
    return names[0] if len(names) == 1 else None


def _is_own(service: Service, cluster: ClusterIdentity) -> bool:
    inside = not service.connection.context
    if not inside and address_mismatch(service.connection, cluster) is not None:
        return False
    if cluster.uid is None:
        # In a pod the API server has another address than outside, and there is no context.
        return not inside or service.settings.cluster is not None
    system = service.mirror.find(_SYSTEM)
    return system is not None and cluster.uid == system["metadata"]["uid"]


def cluster_for(service: Service, sources: Iterable[Source]) -> str | None:
    """The cluster that documents are compiled for; None where none says where it belongs, or this one's name is not
    known."""
    # Of most documents nobody has to know.
    return own_name(service) if any("placement" in source.text.lower() for source in sources) else None


def refuse_elsewhere(compilation: Compilation, cluster: str | None) -> None:
    """See that all documents belong on the cluster that they were compiled for.

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
            f"this is the service of the cluster {cluster}, and these belong on others: {first_few(named, _NAMED)}",
            error="AnotherCluster",
            details=details,
            hint="send them to the services of those clusters",
        )
