"""A cluster for commands that only look at one: itself, or the file that ``gpuctl snapshot`` wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from gpuctl.capacity.snapshot import Snapshot

Function = TypeVar("Function", bound=Callable[..., Any])


def snapshot_option(help: str) -> Callable[[Function], Function]:
    """``--snapshot FILE``, as ``snapshot_file``."""
    return click.option("--snapshot", "snapshot_file", type=click.Path(), metavar="FILE", help=help)


def check_choice(
    snapshot_file: str | None, kubeconfig: str | None, context: str | None, inputs: Sequence[str] = ()
) -> None:
    """Refuse two clusters, and two uses of standard input.

    :raises click.UsageError: so it is.
    """
    if snapshot_file is not None and (kubeconfig is not None or context is not None):
        raise click.UsageError("--snapshot stands in for a cluster: leave --context and --kubeconfig out")
    if snapshot_file == "-" and "-" in inputs:
        raise click.UsageError("standard input is either the documents or the snapshot")


def loaded(name: str) -> Snapshot:
    """The snapshot in a file, or in standard input (``-``).

    :raises ClusterError: it cannot be read, or is none.
    """
    from gpuctl.capacity.snapshot import DamagedSnapshot, load
    from gpuctl.kube.api_errors import ClusterError

    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return load(data.decode(), "standard input" if name == "-" else name)
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except DamagedSnapshot as error:
        raise ClusterError(str(error), error.hint) from None
    except UnicodeDecodeError:
        raise ClusterError(f"{name} is not a snapshot: it is not UTF-8 text") from None


def taken(kubeconfig: str | None, context: str | None) -> Snapshot:
    """A snapshot of the cluster that the options name."""
    from gpuctl.apply.state.cluster_snapshot import take_snapshot
    from gpuctl.cli.options.connecting import connected

    session = connected(kubeconfig, context)
    try:
        return take_snapshot(session)
    finally:
        session.close()


def tell_unreadable(snapshot: Snapshot) -> None:
    """Say on standard error what an answer does not take into account."""
    if snapshot.unreadable:
        names = ", ".join(snapshot.unreadable)
        click.echo(f"note: {names} could not be read; what they decide is not in this answer", err=True)
    if snapshot.missing:
        names = ", ".join(snapshot.missing)
        click.echo(f"note: the snapshot is an older gpuctl's, without {names}, which may decide, too", err=True)
