"""Names that queries can use: clusters, namespaces, and keys and values of labels and annotations."""

from __future__ import annotations

from gpuctl_usage.answers.query_scope import find_cluster
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.usage_queries import StoredCluster, find_clusters, keys_of, namespaces_of, values_of
from gpuctl_usage.sums import Level


def cluster_names(database: Database) -> list[str]:
    """Return the names of all clusters, in the order in which they were first collected."""
    with database.reading() as connection:
        return [cluster.name for cluster in find_clusters(connection)]


def cluster_of(database: Database, uid: str) -> StoredCluster | None:
    """Return the cluster whose namespace kube-system has this uid; None if it was never collected."""
    with database.reading() as connection:
        return next((cluster for cluster in find_clusters(connection) if cluster.uid == uid), None)


def namespace_names(database: Database, cluster: str) -> list[str]:
    """Return the namespaces in which GPUs were held.

    :raises UnknownCluster: the cluster does not exist. Likewise for the functions below.
    """
    with database.reading() as connection:
        return namespaces_of(connection, find_cluster(connection, cluster).id)


def dimension_keys(database: Database, cluster: str, level: Level) -> list[str]:
    """Return the keys of labels or annotations."""
    with database.reading() as connection:
        return keys_of(connection, find_cluster(connection, cluster).id, level)


def dimension_values(database: Database, cluster: str, level: Level, key: str) -> list[str]:
    """Return the values of a key."""
    with database.reading() as connection:
        return values_of(connection, find_cluster(connection, cluster).id, level, key)
