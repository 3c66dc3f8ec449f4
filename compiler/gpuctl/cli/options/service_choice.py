"""Choosing a service instead of a cluster: ``--server``, ``GPUCTL_SERVER``, or the login."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from gpuctl.cli.command_target import is_server_stated, note_service, stated_server
from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.usecases.service.saved_logins import logins_file, read_logins, server_url
from gpuctl.usecases.service.service_client import ServiceClient


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
    kept = read_logins()
    url = server_url(stated, plain=True) if stated else kept.current
    if not url:
        return None
    server = kept.find(url)
    if server is None:
        raise ConfigurationError(f"there is no token for {url}", f"`gpuctl login {url}` asks for one")
    server_url(server.url, plain=server.plain)
    note_service()
    return ServiceClient(server, is_stated=is_server_stated())


def _has_logged_in() -> bool:
    """Return True if the file of saved logins exists; False if its directory may not be read, or there is no home."""
    try:
        return os.path.exists(logins_file())
    except RuntimeError:
        # Path.home: the user has no home directory, as in a container with any uid.
        return False
