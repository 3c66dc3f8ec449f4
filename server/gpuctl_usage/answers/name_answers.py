"""What there is to ask about: clusters, namespaces, labels and annotations, their values."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select

from gpuctl_usage.answers.query_scope import find_cluster
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import clusters
from gpuctl_usage.store.usage_queries import find_clusters, keys_of, namespaces_of, values_of
from gpuctl_usage.sums import Level


def cluster_names(database: Database) -> list[str]:
    """Return the names of all clusters, in the order in which they were first collected."""
    with database.reading() as connection:
        return [cluster.name for cluster in find_clusters(connection)]


class CollectedCluster(NamedTuple):
    """A cluster that usage is collected from; ``last_seen``: until when what holds GPUs is known."""

    name: str
    last_seen: float | None


def cluster_of(database: Database, uid: str) -> CollectedCluster | None:
    """The cluster whose namespace kube-system has a uid; None where it was never collected."""
    with database.reading() as connection:
        columns = select(clusters.c.name, clusters.c.last_seen)
        row = connection.execute(columns.where(clusters.c.uid == uid)).one_or_none()
        return None if row is None else CollectedCluster(row.name, row.last_seen)


def namespace_names(database: Database, cluster: str) -> list[str]:
    """Those in which GPUs were held.

    :raises UnknownCluster: there is no such cluster. Likewise below.
    """
    with database.reading() as connection:
        return namespaces_of(connection, find_cluster(connection, cluster).id)


def dimension_keys(database: Database, cluster: str, level: Level) -> list[str]:
    """Keys of labels, or of annotations."""
    with database.reading() as connection:
        return keys_of(connection, find_cluster(connection, cluster).id, level)


def dimension_values(database: Database, cluster: str, level: Level, key: str) -> list[str]:
    """Values of one."""
    with database.reading() as connection:
        return values_of(connection, find_cluster(connection, cluster).id, level, key)
