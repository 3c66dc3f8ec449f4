"""``--server``: a service instead of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.cli.command_target import note_server
from gpuctl.cli.options.command_help import ConnectionOption
from gpuctl.cli.options.completion_callbacks import complete_server

Function = TypeVar("Function", bound=Callable[..., Any])


def _server_option(*, hidden: bool = False) -> Callable[[Function], Function]:
    return click.option(
        "--server",
        cls=ConnectionOption,
        metavar="URL",
        help="Use this service instead of a cluster. Default: $GPUCTL_SERVER, or that of `gpuctl login`.",
        hidden=hidden,
        expose_value=False,
        callback=note_server,
        shell_complete=complete_server,
    )


server_option = _server_option()
"""Adds ``--server``. Its value is stored for the connection and is not a parameter of the command."""
hidden_server_option = _server_option(hidden=True)
"""Adds ``--server`` to a command that no service offers: the help does not list it, and its error says why."""
