"""The names that shell completion offers: contexts, clusters and services, and those of objects in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

import click

from gpuctl.apply.plan.pool_labels import known_pools
from gpuctl.cli.command_target import platform_files, stated_clusters
from gpuctl.cli.options.connection_options import ConnectionOptions, open_cluster, selected_service
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.kube.configuration import context_names
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.reading.jobs.job_objects import identity_of, workloads
from gpuctl.usecases.documents.compiling import read_platform
from gpuctl.usecases.service.saved_logins import read_logins
from gpuctl.usecases.service.service_names import names_of_service

_PATIENCE = 1.0
"""Seconds for which failed requests are retried."""


def _contexts(context: click.Context) -> Iterable[str]:
    return context_names(context.params.get("kubeconfig"))


def _clusters(context: click.Context) -> Iterable[str]:
    return [name for file in platform_files() for name in read_platform(file).settings.clusters]


def _servers(context: click.Context) -> Iterable[str]:
    return (server.url for server in read_logins().servers)


def _jobs(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (identity.name for obj in workloads(scope, keys) if (identity := identity_of(obj, keys)) is not None)


def _pools(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return known_pools(scope.session, settings, keys)


def _nodes(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (node["metadata"]["name"] for node in scope.all("Node"))


def _quotas(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    named = (labels_of(item).get(settings.label("quota")) for item in scope.all("ResourceQuota"))
    return (name for name in named if name is not None)


def _queues(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    kinds = kueue_resources(scope.session)
    found = [] if kinds is None else scope.session.list_metadata(kinds["ClusterQueue"])
    return (item["metadata"]["name"] for item in found)


def _namespaces(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (item["metadata"]["name"] for item in scope.all("Namespace"))


_LOCAL: dict[str, Callable[[click.Context], Iterable[str]]] = {
    "context": _contexts,
    "cluster": _clusters,
    "server": _servers,
}
_OF_CLUSTER: dict[str, Callable[[Scope, Records, Settings], Iterable[str]]] = {
    "job": _jobs,
    "pool": _pools,
    "node": _nodes,
    "quota": _quotas,
    "queue": _queues,
    "namespace": _namespaces,
}


def names(kind: str, context: click.Context) -> Iterable[str]:
    """Return the names of a kind: without a connection, from the chosen service, or from the cluster."""
    if kind in _LOCAL:
        return _LOCAL[kind](context)
    given = context.params
    namespace = given.get("namespace")
    connection = ConnectionOptions(given.get("kubeconfig"), given.get("context"))
    service = selected_service(connection)
    if service is not None:
        with closing(service):
            return names_of_service(service, kind, namespace)
    settings = platform_settings(given.get("platform"))
    # With settings, the connection is compared with the platform's clusters, and a note is printed for an unknown one.
    known = None if stated_clusters() else Settings()
    session = open_cluster(connection, settings=known)
    session.patience = _PATIENCE
    with closing(session):
        return list(_OF_CLUSTER[kind](Scope(session, namespace), records(settings), settings))
