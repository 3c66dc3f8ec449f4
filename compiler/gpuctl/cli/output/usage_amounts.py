"""Amounts of GPU time for people: GPU-hours, shares, and what is not known as nothing."""

from __future__ import annotations

_HOUR = 3600


def gpu_hours(seconds: float | None) -> str:
    """GPU-hours, to a tenth; less than that to two digits, so that what is something is never shown as nothing."""
    if seconds is None:
        return ""
    value = seconds / _HOUR
    return f"{value:.2g}" if 0 < value < 0.095 else f"{value:.1f}"


def percent(value: float | None) -> str:
    """Percent, to a tenth; empty when it is not known."""
    return "" if value is None else f"{value:.1f}%"


def covered(part: float | None) -> str:
    """A part, 0 to 1, in percent: 100% only when nothing is missing."""
    if part is None:
        return ""
    # What additions lose is not missing.
    return "100%" if part >= 1 - 1e-6 else f"{min(99.9, 100 * part):.1f}%"


def gpus(number: float | None) -> str:
    """A number of GPUs: whole where it is, else to a tenth."""
    if number is None:
        return ""
    return f"{number:.0f}" if abs(number - round(number)) < 0.005 else f"{number:.1f}"
