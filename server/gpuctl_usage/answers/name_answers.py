"""What there is to ask about: clusters, namespaces, labels and annotations, their values."""

from __future__ import annotations

from gpuctl_usage.answers.scopes import cluster_named
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.usage_queries import find_clusters, keys_of, namespaces_of, values_of
from gpuctl_usage.sums import Level


def cluster_names(database: Database) -> list[str]:
    """The first that was collected, which is the default, first."""
    with database.reading() as connection:
        return [cluster.name for cluster in find_clusters(connection)]


def namespace_names(database: Database, cluster: str) -> list[str]:
    """Those in which GPUs were held.

    :raises UnknownCluster: there is no such cluster. Likewise below.
    """
    with database.reading() as connection:
        return namespaces_of(connection, cluster_named(connection, cluster).id)


def dimension_keys(database: Database, cluster: str, level: Level) -> list[str]:
    """Keys of labels, or of annotations."""
    with database.reading() as connection:
        return keys_of(connection, cluster_named(connection, cluster).id, level)


def dimension_values(database: Database, cluster: str, level: Level, key: str) -> list[str]:
    """Values of one."""
    with database.reading() as connection:
        return values_of(connection, cluster_named(connection, cluster).id, level, key)
