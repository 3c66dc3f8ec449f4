"""Names that a shell completes: of jobs, pools, nodes, quotas and namespaces, of contexts, clusters and services.

A completion that fails, or takes too long, completes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuctl.apply.state.records import Records
    from gpuctl.kube.scope import Scope
    from gpuctl.language.settings import Settings

_PATIENCE = 1.0
"""Seconds for which requests that fail are repeated."""
_LONGEST = 3.0
"""Seconds after which a completion is given up: the shell waits for it."""

Complete = Callable[[click.Context, click.Parameter, str], "list[str]"]


def _completing(names: Callable[[click.Context], Iterable[str]]) -> Complete:
    """Return a callback for click that completes names; they may fail in any way, or never come."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        # A name server, a credential plugin and a proxy have no deadline of ours. Nothing has been printed yet.
        limit = threading.Timer(_LONGEST, os._exit, (0,))
        limit.daemon = True
        limit.start()
        # Click has left the context when it asks for completions; options are looked up in the current one.
        # An error would be printed into the line that the user types.
        with suppress(Exception), context.scope(cleanup=False):
            return sorted({name for name in names(context) if name.startswith(incomplete)})
        return []

    return complete


def _from_cluster(kind: str, names: Callable[[Scope, Records, Settings], Iterable[str]]) -> Complete:
    def found(context: click.Context) -> list[str]:
        from gpuctl.apply.state.records import records
        from gpuctl.cli.named_clusters import stated_clusters
        from gpuctl.cli.options.connecting import asked_service, connected
        from gpuctl.cli.options.planning_options import platform_settings
        from gpuctl.kube.scope import Scope
        from gpuctl.language.settings import Settings

        given = context.params
        namespace = given.get("namespace")
        service = asked_service(given.get("kubeconfig"), given.get("context"))
        if service is not None:
            return service.ask_about(namespace, "names", list[str], which=kind)
        settings = platform_settings(given.get("platform"))
        # With settings the connection is checked against the platform's clusters, and noted if it is none of them.
        known = None if stated_clusters() else Settings()
        session = connected(given.get("kubeconfig"), given.get("context"), settings=known)
        session.patience = _PATIENCE
        with closing(session):
            return list(names(Scope(session, namespace), records(settings), settings))

    return _completing(found)


def _jobs(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.reading.job_rows import identity_of, workloads

    return (identity.name for obj in workloads(scope, keys) if (identity := identity_of(obj, keys)) is not None)


def _pools(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.apply.plan.pool_labels import known_pools

    return known_pools(scope.session, settings, keys)


def _nodes(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (node["metadata"]["name"] for node in scope.all("Node"))


def _quotas(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.backend.api_resources import labels_of

    named = (labels_of(item).get(settings.label("quota")) for item in scope.all("ResourceQuota"))
    return (name for name in named if name is not None)


def _namespaces(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (item["metadata"]["name"] for item in scope.all("Namespace"))


def _contexts(context: click.Context) -> Iterable[str]:
    from gpuctl.kube.configuration import context_names

    return context_names(context.params.get("kubeconfig"))


def _clusters(context: click.Context) -> Iterable[str]:
    from gpuctl.cli.options.choosing_cluster import platform_clusters

    return platform_clusters().by_name


def _servers(context: click.Context) -> Iterable[str]:
    from gpuctl.usecases.kept_servers import read_kept

    return (server.url for server in read_kept().servers)


complete_job = _from_cluster("job", _jobs)
complete_pool = _from_cluster("pool", _pools)
complete_node = _from_cluster("node", _nodes)
complete_quota = _from_cluster("quota", _quotas)
complete_namespace = _from_cluster("namespace", _namespaces)
complete_context = _completing(_contexts)
complete_cluster = _completing(_clusters)
complete_server = _completing(_servers)
