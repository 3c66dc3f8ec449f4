"""Choosing a cluster by ``--cluster``, and checking that the connection leads to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from gpuctl.cli.command_target import note_clusters, platform_files, stated_clusters
from gpuctl.cli.options.command_help import ConnectionOption
from gpuctl.cli.options.completion_callbacks import complete_cluster
from gpuctl.kube.cluster_identity import WrongCluster, find_cluster_name
from gpuctl.kube.not_found import suggestion
from gpuctl.kube.session import Session
from gpuctl.language.display_text import visible
from gpuctl.language.settings import Settings

if TYPE_CHECKING:
    from gpuctl.language.platform_document import ClusterIdentity

Function = TypeVar("Function", bound=Callable[..., Any])


class Clusters(NamedTuple):
    """The clusters of a platform by name, and the file that defines them."""

    by_name: dict[str, ClusterIdentity]
    file: str

    def find(self, name: str) -> ClusterIdentity:
        """Return the cluster with this name.

        :raises InvalidOptions: the platform does not define it.
        """
        if name in self.by_name:
            return self.by_name[name]
        from gpuctl.usecases.documents.change_options import InvalidOptions

        if not self.by_name:
            where = f"{self.file} names no clusters" if self.file else "there is no platform.yaml that names clusters"
            raise InvalidOptions(
                f"--cluster {visible(name)}: {where}: write `clusters: {{{visible(name)}: {{server: URL}}}}` there, or "
                "name the file that does with --platform"
            )
        near = suggestion(name, self.by_name)
        raise InvalidOptions(
            f"--cluster {visible(name)}: {self.file} names no such cluster: {near}"
            + (f" it names {', '.join(self.by_name)}" if near.endswith("?") else "")
        )


def _cluster_option(help: str) -> Callable[[Function], Function]:
    return click.option(
        "--cluster",
        cls=ConnectionOption,
        metavar="NAME",
        multiple=True,
        expose_value=False,
        callback=note_clusters,
        shell_complete=complete_cluster,
        help=help,
    )


cluster_option = _cluster_option("A cluster that the platform defines.")
"""Adds ``--cluster``. Its value is stored for the connection and is not a parameter of the command."""
several_clusters_option = _cluster_option("A cluster that the platform defines; repeatable for documents.")
"""Adds ``--cluster`` to a command that applies, compares or deletes documents on several clusters."""


def stated_cluster() -> str | None:
    """Return the value of ``--cluster``; None if it was not given.

    :raises click.UsageError: it was given several times.
    """
    names = stated_clusters()
    if len(names) > 1:
        command = click.get_current_context().command_path
        raise click.UsageError(f"`{command}` works on one cluster: give --cluster once, and call it for each")
    return names[0] if names else None


def platform_clusters(settings: Settings | None = None) -> Clusters:
    """Return the clusters of the command's platform.

    :param settings: the platform's, if they have been read.
    :raises InvalidDocuments: there are errors in the platform's file.
    """
    files = platform_files()
    if settings is not None:
        return Clusters(dict(settings.clusters), files[0] if files else "")
    by_name: dict[str, ClusterIdentity] = {}
    for file in files:
        from gpuctl.usecases.documents.compiling import read_platform

        by_name |= read_platform(file).settings.clusters
    return Clusters(by_name, files[0] if files else "")


def chosen_context(name: str, cluster: ClusterIdentity, context: str | None) -> str | None:
    """Return the context to connect with: the given one, else the cluster's.

    :raises InvalidOptions: they contradict each other.
    """
    if cluster.context is not None and context not in (None, cluster.context):
        from gpuctl.usecases.documents.change_options import InvalidOptions

        raise InvalidOptions(
            f"--context {visible(context or '')} and --cluster {name} contradict each other: the context of {name} is "
            f"{visible(cluster.context)}; leave --context out"
        )
    return cluster.context or context


def check_known_cluster(session: Session, clusters: Clusters, *, changes: bool) -> None:
    """Check, if no cluster was chosen, that the session is connected to one of the platform's clusters, if it defines
    any.

    A command that only reads prints a note. A command that changes a cluster fails, because a cluster that the
    repository does not define is most likely the wrong one.

    :raises WrongCluster: it is another cluster, and the command changes it.
    """
    if find_cluster_name(session, clusters.by_name, ask=changes) is not None:
        return
    place = f"the context {session.context}" if session.context else "the service account of this pod"
    said = (
        f"{place} leads to {session.server}, which is not one of the clusters in {clusters.file}: "
        f"{', '.join(clusters.by_name)}"
    )
    if changes:
        raise WrongCluster(said, "choose one with --cluster, or add this one to `clusters` in that file")
    click.echo(f"note: {said}", err=True)
