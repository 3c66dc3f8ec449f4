"""The option ``--platform``, and the settings of the file that it names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.frontend.platform_file import find_platform
from gpuctl.language.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])


def platform_option(help: str) -> Callable[[Function], Function]:
    """Return the decorator for ``--platform``; ``GPUCTL_PLATFORM`` sets it for every command."""
    return click.option("--platform", envvar="GPUCTL_PLATFORM", type=click.Path(), metavar="FILE", help=help)


def platform_settings(platform: str | None) -> Settings:
    """Return the platform's settings for a command without documents. Errors in the file end the command with exit
    code 1.
    """
    if platform is None and find_platform(".") is None:
        # The modules that read and check the file take longer to import than a small cluster takes to respond.
        return Settings()
    from gpuctl.cli.output import text
    from gpuctl.frontend.invalid_documents import InvalidDocuments
    from gpuctl.usecases.documents.compiling import read_platform

    try:
        loaded = read_platform(platform)
    except InvalidDocuments as error:
        text.write(error.diagnostics, error.sources, sys.stderr)
        raise click.exceptions.Exit(1) from None
    text.write(loaded.diagnostics, loaded.sources, sys.stderr)
    return loaded.settings
