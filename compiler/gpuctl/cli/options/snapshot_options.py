"""The option ``--snapshot``: a file that ``gpuctl snapshot`` wrote, read instead of the cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, BinaryIO, TypeVar

import click

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.cli.command_target import is_server_stated, stated_clusters
from gpuctl.cli.options.connection_options import ConnectionOptions, open_cluster
from gpuctl.usecases.documents.snapshot_files import read_snapshot

Function = TypeVar("Function", bound=Callable[..., Any])


def snapshot_option(help: str) -> Callable[[Function], Function]:
    """Return the decorator for ``--snapshot FILE``, parameter ``snapshot_file``."""
    return click.option("--snapshot", "snapshot_file", type=click.Path(), metavar="FILE", help=help)


def check_snapshot_option(snapshot_file: str | None, connection: ConnectionOptions, inputs: Sequence[str] = ()) -> None:
    """Reject ``--snapshot`` together with a cluster or service, and standard input for both documents and snapshot.

    :raises click.UsageError: such a combination was given.
    """
    if snapshot_file is not None and is_server_stated():
        raise click.UsageError("--snapshot replaces the cluster: leave --server out")
    if snapshot_file is not None and stated_clusters():
        raise click.UsageError("--snapshot replaces the cluster: leave --cluster out")
    if snapshot_file is not None and connection != ConnectionOptions():
        raise click.UsageError("--snapshot replaces the cluster: leave --context and --kubeconfig out")
    if snapshot_file == "-" and "-" in inputs:
        raise click.UsageError("standard input is either the documents or the snapshot")


def snapshot_source(name: str | None) -> str | BinaryIO | None:
    """Return the value of ``--snapshot``; for ``-`` the stream of standard input."""
    return sys.stdin.buffer if name == "-" else name


def chosen_snapshot(name: str | None, connection: ConnectionOptions) -> Snapshot | None:
    """Return the snapshot in a file, or one of the cluster that the options select; None without either.

    :raises ClusterError: the file cannot be read, or is not a snapshot.
    """
    source = snapshot_source(name)
    if source is not None:
        return read_snapshot(source)
    is_named = stated_clusters() or connection != ConnectionOptions()
    return take_snapshot_of_cluster(connection) if is_named else None


def take_snapshot_of_cluster(connection: ConnectionOptions) -> Snapshot:
    """Take a snapshot of the cluster that the options select."""
    with closing(open_cluster(connection)) as session:
        return take_snapshot(session)
