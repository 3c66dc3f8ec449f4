"""What the commands about the database of usage have in common: which one it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.cli.options.connecting import ClusterFailure

Function = TypeVar("Function", bound=Callable[..., Any])


def database_options(function: Function) -> Function:
    """Which database."""
    for decorate in (
        click.option(
            "--config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Settings as YAML."
        ),
        click.option(
            "--database",
            metavar="FILE",
            help="File, or URL, of the database of usage. Default: that of the settings.",
        ),
    ):
        function = decorate(function)
    return function


def stated_database(database: str | None, config: str | None) -> str:
    """The path or URL of the database: of the option, the environment, or the file of settings."""
    try:
        from gpuctl_usage.stated_settings import FILE, SettingsProblem
        from gpuctl_usage.usage_settings import UsageSettings
    except ModuleNotFoundError as error:
        raise ClusterFailure(
            f"what usage needs is not installed ({error.name})\n  = install it: `pip install 'gpuctl-k8s[server]'`"
        ) from None
    if config is not None:
        os.environ[FILE] = config
    try:
        found = UsageSettings.made({} if database is None else {"usage_database": database}).usage_database
    except SettingsProblem as error:
        raise click.UsageError(str(error)) from None
    if found is None:
        raise click.UsageError(
            "No database is set: use --database, or set `usage_database` (GPUCTL_SERVER_USAGE_DATABASE)."
        )
    return found
