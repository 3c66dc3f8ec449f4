"""What a shell completes from the cluster: names of jobs, pools and nodes. Whatever fails, it completes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuctl.apply.state.records import Records
    from gpuctl.kube.scope import Scope
    from gpuctl.language.settings import Settings

_PATIENCE = 1.0
"""Seconds that somebody who has pressed the tab key waits at most for a cluster that answers with errors."""

Complete = Callable[[click.Context, click.Parameter, str], "list[str]"]


def _completing(kind: str, names: Callable[[Scope, Records, Settings], Iterable[str]]) -> Complete:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from gpuctl.apply.state.records import records
        from gpuctl.cli.named_clusters import stated_clusters
        from gpuctl.cli.options.connecting import asked_service, connected
        from gpuctl.cli.options.planning_options import platform_settings
        from gpuctl.kube.api_errors import ClusterError
        from gpuctl.kube.scope import Scope
        from gpuctl.language.settings import Settings
        from gpuctl.usecases.change_options import InvalidOptions

        given = context.params
        try:
            service = asked_service(given.get("kubeconfig"), given.get("context"))
            if service is not None:
                told = service.ask_about(given.get("namespace"), "names", list[str], which=kind)
                service.close()
                return sorted({name for name in told if name.startswith(incomplete)})
            settings = platform_settings(given.get("platform"))
            # Whoever presses the tab key wants no note about the cluster.
            known = None if stated_clusters() else Settings()
            session = connected(given.get("kubeconfig"), given.get("context"), settings=known)
            session.patience = _PATIENCE
            try:
                found = names(Scope(session, given.get("namespace")), records(settings), settings)
                return sorted({name for name in found if name.startswith(incomplete)})
            finally:
                session.close()
        except (ClusterError, InvalidOptions, click.ClickException, OSError):
            return []

    return complete


def _jobs(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.reading.job_rows import identity_of, workloads

    return (identity.name for obj in workloads(scope, keys) if (identity := identity_of(obj, keys)) is not None)


def _pools(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    from gpuctl.apply.plan.pool_labels import known_pools

    return known_pools(scope.session, settings, keys)


def _nodes(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (node["metadata"]["name"] for node in scope.all("Node"))


def _namespaces(scope: Scope, keys: Records, settings: Settings) -> Iterable[str]:
    return (item["metadata"]["name"] for item in scope.all("Namespace"))


complete_job = _completing("job", _jobs)
complete_pool = _completing("pool", _pools)
complete_node = _completing("node", _nodes)
complete_namespace = _completing("namespace", _namespaces)


def complete_deletion(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """``delete KIND NAME...``: the kind first, then what there is of it."""
    given = list(context.params.get("arguments") or ())
    if not given:
        return [kind for kind in ("job", "pool", "quota", "namespace") if kind.startswith(incomplete)]
    of_kind = {"job": complete_job, "pool": complete_pool, "namespace": complete_namespace, "ns": complete_namespace}
    complete = of_kind.get(given[0])
    return complete(context, parameter, incomplete) if complete else []
