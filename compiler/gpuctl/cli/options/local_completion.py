"""Shell completion of names without a cluster: contexts, clusters of the platform, and services.

A completion that fails or takes too long offers nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from gpuctl.cli.command_target import platform_files
from gpuctl.usecases.saved_logins import read_logins

_LONGEST = 3.0
"""Seconds after which a completion is aborted, because the shell waits for it."""

Complete = Callable[[click.Context, click.Parameter, str], "list[str]"]


def completion_callback(names: Callable[[click.Context], Iterable[str]]) -> Complete:
    """Return a callback for click that completes the returned names; ``names`` may raise anything or block."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        # DNS, a credential plugin or a proxy may block without a deadline. Nothing has been printed yet.
        limit = threading.Timer(_LONGEST, os._exit, (0,))
        limit.daemon = True
        limit.start()
        # Click has left the context when it asks for completions, and options are read from the current context.
        # Exceptions are suppressed because a message would appear in the line that the user types.
        with suppress(Exception), context.scope(cleanup=False):
            return sorted({name for name in names(context) if name.startswith(incomplete)})
        return []

    return complete


def _contexts(context: click.Context) -> Iterable[str]:
    from gpuctl.kube.configuration import context_names

    return context_names(context.params.get("kubeconfig"))


def _clusters(context: click.Context) -> Iterable[str]:
    from gpuctl.usecases.compiling import read_platform

    return [name for file in platform_files() for name in read_platform(file).settings.clusters]


def _servers(context: click.Context) -> Iterable[str]:
    return (server.url for server in read_logins().servers)


complete_context = completion_callback(_contexts)
complete_cluster = completion_callback(_clusters)
complete_server = completion_callback(_servers)
