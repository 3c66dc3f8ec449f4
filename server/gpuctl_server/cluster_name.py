"""The platform's name for the cluster of the service."""

from __future__ import annotations

from gpuctl.kube.cluster_identity import KUBE_SYSTEM, address_mismatch
from gpuctl.kube.connection import Connection
from gpuctl.language.platform_document import ClusterIdentity
from gpuctl.language.settings import Settings
from gpuctl_server.mirror.mirror import Mirror


def cluster_name(platform: Settings, stated: str | None, connection: Connection, mirror: Mirror) -> str | None:
    """Return the platform's name for the cluster; None if no name, or more than one, matches.

    :param stated: the setting `cluster`.
    """
    clusters = platform.clusters
    names = [
        name for name in clusters if stated in (None, name) and _is_own(clusters[name], stated, connection, mirror)
    ]
    return names[0] if len(names) == 1 else None


def _is_own(cluster: ClusterIdentity, stated: str | None, connection: Connection, mirror: Mirror) -> bool:
    inside = not connection.context
    if not inside and address_mismatch(connection, cluster) is not None:
        return False
    if cluster.uid is None:
        # A service in a pod has no context, and reaches the API server by an address that is only valid in the cluster.
        return not inside or stated is not None
    system = mirror.find(KUBE_SYSTEM)
    return system is not None and cluster.uid == system["metadata"]["uid"]
