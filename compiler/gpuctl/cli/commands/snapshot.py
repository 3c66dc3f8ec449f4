"""``gpuctl snapshot``: save the state of a cluster for ``fit``."""

from __future__ import annotations

import sys

import click

from gpuctl.capacity.snapshot.snapshot_document import render
from gpuctl.cli.options.connection_options import ConnectionOptions, cluster_errors, kubeconfig_cluster_options
from gpuctl.cli.options.snapshot_options import take_snapshot_of_cluster


@click.command(
    "snapshot",
    short_help="Save the state of a cluster, for `fit`.",
    epilog="Example:\n\n  $ gpuctl snapshot > cluster.json",
)
@kubeconfig_cluster_options
def command(connection: ConnectionOptions) -> int:
    """Print nodes, requests of pods, quotas, priorities and CRDs of a cluster as JSON. Changes nothing.

    The snapshot contains no Secrets, and no commands, variables or annotations of pods. Lists that you may not read are
    omitted, and named on standard error; nodes and pods are required.
    """
    with cluster_errors():
        snapshot = take_snapshot_of_cluster(connection)
    for name in snapshot.unreadable:
        click.echo(f"note: {name} may not be read and are omitted", err=True)
    sys.stdout.write(render(snapshot))
    return 0
