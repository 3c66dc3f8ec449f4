"""The service's own cluster: the one to compile documents for, and the rejection of those of other clusters."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.plan_draft import title_of
from gpuctl.compilation import Compilation
from gpuctl.frontend.diagnostics import Severity
from gpuctl.frontend.source import Source
from gpuctl.language.sentences import say
from gpuctl_server.cluster_name import cluster_name
from gpuctl_server.http.http_problems import refused_documents
from gpuctl_server.service_context import Service


def own_name(service: Service) -> str | None:
    """Return the platform's name for the cluster; None if no name, or more than one, matches."""
    return cluster_name(service.platform, service.settings.cluster, service.connection, service.mirror)


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
        named = [say("{name} ({detail})", name=item["document"], detail=item["clusters"]) for item in details]
        message = say(
            "this is the service of the cluster {cluster}; these belong to others: {objects:few8}",
            cluster=cluster,
            objects=named,
        )
        hint = say("send them to the services of those clusters")
        diagnostics = [
            document.diagnostic(Severity.ERROR, "AnotherCluster", message, ("placement",), hint)
            for document in compilation.left_out
        ]
        refused = refused_documents(400, message, diagnostics, error="AnotherCluster", hint=hint)
        refused.details = [{**item, **place} for item, place in zip(refused.details, details, strict=True)]
        raise refused
