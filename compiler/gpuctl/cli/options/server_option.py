"""``--server``: a service instead of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.cli.command_target import note_server
from gpuctl.cli.options.command_help import ConnectionOption
from gpuctl.cli.options.completion_callbacks import complete_server

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
