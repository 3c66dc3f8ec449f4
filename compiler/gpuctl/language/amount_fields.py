"""The types of amounts: quantities, memory, shares of cards, durations, percentages.

See :mod:`gpuctl.language.fields`.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic_core import PydanticCustomError

from gpuctl.language.display_text import shorten
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Check, Scalar, cached, no_variables
from gpuctl.language.gpu_cards import parse_share
from gpuctl.language.sentences import say
from gpuctl.language.spelling import suggest_name
from gpuctl.objects.durations import DAY, MAX_SECONDS, format_duration, is_too_long, parse_duration, suggest_duration
from gpuctl.objects.quantities import parse_quantity, suggest_cores, suggest_quantity


@cached
def check_quantity(value: str) -> str:
    """Return a quantity as written, after checking that it is not negative."""
    amount = parse_quantity(value)
    if amount is None:
        raise _no_quantity(value, suggest_cores(value) or suggest_quantity(value))
    if amount.numerator < 0:
        raise field_error("GPU206", say("`{value}` is negative", value=shorten(value)))
    return value


def _no_quantity(value: str, better: str | None) -> PydanticCustomError:
    return field_error(
        "GPU208",
        say("`{value}` is not a Kubernetes quantity such as `500m`, `2` or `128Gi`", value=shorten(value)),
        suggest_name(better) or no_variables(value),
    )


@cached
def _positive_quantity(value: str) -> str:
    check_quantity(value)
    if parse_quantity(value) == 0:
        raise field_error("GPU206", say("the quantity is zero"), say("give an amount, or remove the line"))
    return value


def least_memory_of(value: str) -> str:
    """Return the amount in a condition on GPU memory: ``>=80Gi`` and ``80Gi`` -> ``80Gi``."""
    return value.removeprefix(">=").strip()


def _gpu_memory(value: str) -> str:
    least = least_memory_of(value)
    amount = parse_quantity(least)
    if amount is None or amount <= 0:
        better = suggest_quantity(least) if amount is None else None
        hint = suggest_name(better and f">={better}") or no_variables(value)
        if least.startswith(("<", ">")):
            bound = least.lstrip("<>= ")
            amount = parse_quantity(bound)
            is_least = least.startswith(">") and amount is not None and amount > 0
            hint = (
                say("write `{text}`", text=f">={bound}")
                if is_least
                else say("write the least memory that is enough, such as `>=40Gi`")
            )
        raise field_error(
            "GPU227", say("`{value}` is not a minimum of memory such as `>=40Gi`", value=shorten(value)), hint
        )
    _memory(least)
    return value


@cached
def _memory(value: str) -> str:
    amount = parse_quantity(value)
    if amount is None:
        raise _no_quantity(value, suggest_quantity(value))
    _positive_quantity(value)
    # 4 MiB is the lowest memory limit that container runtimes accept (runc; containerd with systemd: 6 MiB).
    if amount < 4 * 2**20:
        if amount >= 1:
            message = say(
                "`{value}` is {number:byte}; no container starts with less than 4Mi of memory",
                value=value,
                number=int(amount),
            )
        else:
            message = say(
                "`{value}` is a fraction of a byte; no container starts with less than 4Mi of memory", value=value
            )
        # `512m` is 0.512 bytes. Slurm's `32768` are MiB.
        number = re.match(r"(?a)(\d{1,7}(?:\.\d{1,2})?)(m?)\Z", value)
        unit = "Mi" if number is not None and (number[2] or float(number[1]) >= 4096) else "Gi"
        hint = suggest_name(f"{number[1]}{unit}") if number is not None else None
        raise field_error("GPU208", message, hint)
    return value


def _fraction(value: str) -> str | None:
    """Return the fraction for a percentage of one card, ``50%`` -> ``0.5``; None for other text."""
    match = re.fullmatch(r"(?a)\s*(\d{1,3}(?:\.\d{1,3})?)\s*%\s*", value)
    return f"{float(match[1]) / 100:g}" if match and 0 < float(match[1]) <= 100 else None


def _device_count(value: str) -> str:
    if value not in ("true", "false") and not re.fullmatch(r"[1-9][0-9]{0,8}", value):
        message = say(
            "`{value}` is neither a number of devices, greater than 0, nor `true` or `false`", value=shorten(value)
        )
        raise field_error("GPU206", message, say("write `true` for the platform's number, or remove the line"))
    return value


@cached
def _share(value: str) -> str:
    amount = parse_share(value)
    if amount is None:
        better = _fraction(value) or suggest_quantity(value)
        raise field_error(
            "GPU208",
            say(
                "`{value}` is neither an amount of GPU memory such as `2Gi` nor a fraction of a card such as "
                "`0.5` or `50%`",
                value=shorten(value),
            ),
            suggest_name(better) or no_variables(value),
        )
    if amount <= 0:
        raise field_error("GPU206", say("gpu-share `{value}` is not greater than 0", value=shorten(value)))
    if value.endswith("%") and amount > 1:
        raise field_error("GPU206", say("gpu-share `{value}` is more than one card", value=shorten(value)))
    if 1 < amount < 2**20:
        raise field_error(
            "GPU206",
            say("gpu-share `{value}` is more than one card and less than one mebibyte", value=shorten(value)),
            say("write `{value}Gi` for GPU memory, or a fraction from 0 to 1 of a card", value=value)
            if value.isdigit()
            else None,
        )
    return value


@cached
def _duration(value: str) -> str:
    if parse_duration(value) is None:
        if is_too_long(value):
            longest = format_duration(MAX_SECONDS // DAY * DAY)
            message = say(
                "`{value}` is longer than Kubernetes can count ({most} s)",
                value=shorten(value),
                most=MAX_SECONDS,
            )
            raise field_error("GPU209", message, say("write at most `{most}`, or remove the line", most=longest))
        better = suggest_duration(value)
        hint = suggest_name(better) or no_variables(value)
        if value.isascii() and value.isdigit() and len(value) < 10:
            number = int(value)
            hint = say("write `{value}s`, `{value}m` or `{value}h`", value=number) if number else say("write `0s`")
        raise field_error(
            "GPU209", say("`{value}` is not a duration such as `30s`, `45m`, `12h` or `7d`", value=shorten(value)), hint
        )
    return value


@cached
def _positive_duration(value: str) -> str:
    # A zero without a unit gets one useful hint, not first `0s` and then this.
    if re.fullmatch(r"0{1,9}", value) or parse_duration(_duration(value)) == 0:
        raise field_error("GPU206", say("the duration is zero"), say("give a time, or remove the line"))
    return value


@cached
def _percentage(value: str) -> str:
    if re.fullmatch(r"(?a)(100(\.0{1,3})?|\d{1,2}(\.\d{1,3})?) ?%?", value) is None or not percent(value):
        message = say("`{value}` is not a percentage of more than 0 such as `5%`", value=shorten(value))
        raise field_error("GPU206", message, no_variables(value))
    return value


def percent(value: str) -> float:
    """Return a :data:`Percentage` as a number: ``5%`` -> 5.0."""
    return float(value.rstrip("% "))


def _count_or_percent(value: str) -> str:
    if re.fullmatch(r"(?a)\d{1,9}|(100|\d{1,2})%", value) is None:
        hint = no_variables(value) or say("write a number such as `1`, or a percentage such as `25%`")
        raise field_error(
            "GPU206", say("`{value}` is neither a whole number nor a whole percentage", value=shorten(value)), hint
        )
    return value


Quantity = Annotated[str, Scalar.TEXT, Check(check_quantity, "Kubernetes quantity")]
PositiveQuantity = Annotated[str, Scalar.TEXT, Check(_positive_quantity, "Kubernetes quantity > 0")]
Memory = Annotated[str, Scalar.TEXT, Check(_memory, "Kubernetes quantity >= 4Mi")]
DeviceCount = Annotated[str, Scalar.TEXT, Check(_device_count, "number > 0, true or false")]
Share = Annotated[str, Scalar.TEXT, Check(_share, "GPU memory or fraction of a card")]
GpuMemory = Annotated[str, Scalar.TEXT, Check(_gpu_memory, "minimum of memory")]
Duration = Annotated[str, Scalar.TEXT, Check(_duration, "duration")]
PositiveDuration = Annotated[str, Scalar.TEXT, Check(_positive_duration, "duration > 0")]
Percentage = Annotated[str, Scalar.TEXT, Check(_percentage, "percentage")]
CountOrPercent = Annotated[str, Scalar.TEXT, Check(_count_or_percent, "number or percentage")]
