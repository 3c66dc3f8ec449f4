"""Amounts of GPU time in tables: GPU-hours and percentages; unknown values are empty."""

from __future__ import annotations

from datetime import tzinfo

from gpuctl.language.sentences import say
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.gpu_time import KnownTime


def gpu_hours(seconds: float | None) -> str:
    """Return GPU-hours with one decimal, two below 0.1; a positive value is never shown as 0. "" for None."""
    if seconds is None:
        return ""
    value = seconds / HOUR
    if 0 < value < 0.005:
        return "<0.01"
    return f"{value:.2f}" if 0 < value < 0.095 else f"{value:.1f}"


def percent(value: float | None) -> str:
    """Return percent with one decimal; "" for None."""
    return "" if value is None else f"{value:.1f}%"


def coverage_percent(part: float | None) -> str:
    """Return a fraction (0 to 1) as percent; "100%" only if nothing is missing."""
    if part is None:
        return ""
    # Rounding errors of sums do not count as missing.
    return "100%" if part >= 1 - 1e-6 else f"{min(99.9, 100 * part):.1f}%"


def gpus(number: float | None) -> str:
    """Return a number of GPUs, without decimals if it is whole, else with two."""
    if number is None:
        return ""
    return f"{number:.0f}" if abs(number - round(number)) < 0.005 else f"{number:.2f}"


def known_time_text(known: KnownTime, whole: float, zone: tzinfo) -> str:
    """Return the known part of a time range: ``5 of 168 hours, 2026-10-25 15:00 to 2026-10-25 20:00``.

    :param whole: length of the range, seconds.
    """
    # A part must not be rounded up to the whole.
    shown = known.seconds if known.seconds >= whole - 1 else min(known.seconds, whole - 0.1 * HOUR)
    part, all_hours = _tenths(shown), _tenths(whole)
    if not known.start or not known.until:
        return say("{part} of {whole} hours", part=part, whole=all_hours)
    start, end = (
        parse_timestamp(text).astimezone(zone).strftime("%Y-%m-%d %H:%M") for text in (known.start, known.until)
    )
    return say("{part} of {whole} hours, {start} to {end}", part=part, whole=all_hours, start=start, end=end)


def _tenths(seconds: float) -> str:
    return f"{seconds / HOUR:.1f}".removesuffix(".0")
