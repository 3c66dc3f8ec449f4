"""Choosing a service instead of a cluster: ``--server``, ``GPUCTL_SERVER``, or the login."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuctl.cli.command_target import note_server, note_service, stated_server
from gpuctl.cli.options.command_help import ConnectionOption
from gpuctl.cli.options.local_completion import complete_server
from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.usecases.saved_logins import read_logins, server_url

if TYPE_CHECKING:
    from gpuctl.usecases.service_client import ServiceClient

Function = TypeVar("Function", bound=Callable[..., Any])


def server_option(function: Function) -> Function:
    """Add ``--server``. Its value is stored for the connection and is not a parameter of the command."""
    return click.option(
        "--server",
        cls=ConnectionOption,
        metavar="URL",
        help="Use this service instead of a cluster. Default: $GPUCTL_SERVER, or that of `gpuctl login`.",
        expose_value=False,
        callback=note_server,
        shell_complete=complete_server,
    )(function)


def chosen_service(of_cluster: Sequence[str]) -> ServiceClient | None:
    """Return the client of the chosen service; None if the command works on a cluster.

    :param of_cluster: the given options that select a cluster.
    :raises ConfigurationError: there is no login for the service, or its address is not a URL.
    """
    stated = stated_server()
    if stated is not None and "--cluster" in of_cluster:
        raise click.UsageError("--server selects the service of one cluster: leave --cluster out")
    if stated is not None and of_cluster:
        raise click.UsageError(f"--server selects a service, {of_cluster[0]} a cluster: not both")
    stated = stated or os.environ.get("GPUCTL_SERVER")
    if of_cluster or (not stated and not _has_logged_in()):
        return None
    from gpuctl.usecases.service_client import ServiceClient

    kept = read_logins()
    url = server_url(stated, plain=True) if stated else kept.current
    if not url:
        return None
    server = kept.find(url)
    if server is None:
        raise ConfigurationError(f"there is no token for {url}", f"`gpuctl login {url}` asks for one")
    server_url(server.url, plain=server.plain)
    note_service()
    return ServiceClient(server)


def _has_logged_in() -> bool:
    """Return True if the file of saved logins exists; checked here because its reader is slow to import."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    directory = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".config")
    return os.path.exists(os.path.join(directory, "gpuctl", "servers.json"))
