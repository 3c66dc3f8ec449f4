"""Options and settings that select the usage database."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuctl.cli.options.connection_options import ClusterFailure

if TYPE_CHECKING:
    from gpuctl_usage.usage_settings import UsageSettings

Function = TypeVar("Function", bound=Callable[..., Any])


def database_options(function: Function) -> Function:
    """Add ``--database`` and ``--config``."""
    for decorate in (
        click.option(
            "--config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Settings as YAML."
        ),
        click.option(
            "--database",
            metavar="FILE",
            help="File or URL of the usage database. Default: that of the settings.",
        ),
    ):
        function = decorate(function)
    return function


def stated_settings(config: str | None, **stated: Any) -> UsageSettings:
    """Return the usage settings: from options (None: not given), then the environment, then the file.

    :raises click.UsageError: they contain errors.
    """
    try:
        from gpuctl_usage.layered_settings import FILE, SettingsProblem
        from gpuctl_usage.usage_settings import UsageSettings
    except ModuleNotFoundError as error:
        raise ClusterFailure(
            f"the packages for usage are not installed ({error.name})\n"
            "  = install them: `pip install 'gpuctl-k8s[server]'`"
        ) from None
    if config is not None:
        os.environ[FILE] = config
    try:
        return UsageSettings.made({name: value for name, value in stated.items() if value is not None})
    except SettingsProblem as error:
        raise click.UsageError(str(error)) from None


def stated_database(database: str | None, config: str | None) -> str:
    """Return the path or URL of the database, from the option, the environment, or the file of settings."""
    return named_database(stated_settings(config, usage_database=database))


def named_database(settings: UsageSettings) -> str:
    """Return the path or URL of the database.

    :raises click.UsageError: it is not set.
    """
    if settings.usage_database is None:
        raise click.UsageError(
            "No database is set: use --database, or set `usage_database` (GPUCTL_SERVER_USAGE_DATABASE)."
        )
    return settings.usage_database
