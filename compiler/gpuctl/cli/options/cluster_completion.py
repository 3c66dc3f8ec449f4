"""Shell completion of names from the cluster: jobs, pools, nodes, quotas, queues and namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

import click

from gpuctl.cli.command_target import stated_clusters
from gpuctl.cli.options.local_completion import Complete, completion_callback
from gpuctl.cli.options.planning_options import platform_settings
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.ownership_metadata import Records, records

if TYPE_CHECKING:
    from gpuctl.kube.scope import Scope

_PATIENCE = 1.0
"""Seconds for which failed requests are retried."""


def _from_cluster(kind: str, names: Callable[[Scope, Records, Settings], Iterable[str]]) -> Complete:
    def found(context: click.Context) -> list[str]:
        from gpuctl.cli.options.connection_options import open_cluster, selected_service
        from gpuctl.kube.scope import Scope
        from gpuctl.usecases.service_names import names_of_service

        given = context.params
        namespace = given.get("namespace")
        service = selected_service(given.get("kubeconfig"), given.get("context"))
        if service is not None:
            with closing(service):
                return names_of_service(service, kind, namespace)
        settings = platform_settings(given.get("platform"))
        # With settings, the connection is compared with the platform's clusters, and a note is printed for an unknown
        # one.
        known = None if stated_clusters() else Settings()
        session = open_cluster(given.get("kubeconfig"), given.get("context"), settings=known)
        session.patience = _PATIENCE
        with closing(session):
            return list(names(Scope(session, namespace), records(settings), settings))

    return completion_callback(found)


def _jobs(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.reading.jobs.job_objects import identity_of, workloads

    return (identity.name for obj in workloads(scope, keys) if (identity := identity_of(obj, keys)) is not None)


def _pools(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.apply.plan.pool_labels import known_pools

    return known_pools(scope.session, settings, keys)


def _nodes(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (node["metadata"]["name"] for node in scope.all("Node"))


def _quotas(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    named = (labels_of(item).get(settings.label("quota")) for item in scope.all("ResourceQuota"))
    return (name for name in named if name is not None)


def _namespaces(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (item["metadata"]["name"] for item in scope.all("Namespace"))


def _queues(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.kube.kueue import kueue_resources

    kinds = kueue_resources(scope.session)
    found = [] if kinds is None else scope.session.list_metadata(kinds["ClusterQueue"])
    return (item["metadata"]["name"] for item in found)


complete_job = _from_cluster("job", _jobs)
complete_pool = _from_cluster("pool", _pools)
complete_node = _from_cluster("node", _nodes)
complete_quota = _from_cluster("quota", _quotas)
complete_queue = _from_cluster("queue", _queues)
complete_namespace = _from_cluster("namespace", _namespaces)
