"""Durations as values of options: ``90s``, ``5m``, ``1h30m``, ``7d``."""

from __future__ import annotations

import math
from functools import partial

import click

from gpuctl.objects.durations import parse_duration


def read_duration(
    context: click.Context,
    parameter: click.Parameter,
    value: str | None,
    *,
    is_timeout: bool = False,
    may_be_zero: bool = False,
) -> int | None:
    """Return the seconds of an option's value; None if the option is not given.

    :param is_timeout: a number without a unit is accepted too, as seconds.
    :raises click.BadParameter: the value is not a duration, or is zero.
    """
    if value is None:
        return None
    is_plain = is_timeout and value.isascii() and value.isdigit()
    seconds = parse_duration(f"{value}s" if is_plain else value, most=math.inf)
    if seconds is None or (seconds == 0 and not may_be_zero):
        raise click.BadParameter(f"`{value}` is not a duration such as 90s, 5m or 1h30m", context, parameter)
    return seconds


read_timeout = partial(read_duration, is_timeout=True)
