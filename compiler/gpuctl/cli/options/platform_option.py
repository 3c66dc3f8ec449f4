"""The option ``--platform``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def platform_option(help: str) -> Callable[[Function], Function]:
    """Return the decorator for ``--platform``; ``GPUCTL_PLATFORM`` sets it for every command."""
    return click.option("--platform", envvar="GPUCTL_PLATFORM", type=click.Path(), metavar="FILE", help=help)
