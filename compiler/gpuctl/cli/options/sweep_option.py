"""``--sweep NAME``: select the jobs of a sweep instead of naming them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.language.names import is_dns_1035_label

Function = TypeVar("Function", bound=Callable[..., Any])


def _checked(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value and not is_dns_1035_label(value):
        raise click.BadParameter(f"`{value}` is not the name of a sweep", context, parameter)
    return value


def sweep_option(text: str = "All jobs of this sweep, instead of names.") -> Callable[[Function], Function]:
    """Return a decorator that adds ``--sweep``."""
    return click.option("--sweep", default="", metavar="NAME", callback=_checked, help=text)
