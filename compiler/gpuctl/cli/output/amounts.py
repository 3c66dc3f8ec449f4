"""Amounts for people: short, rounded, without blanks."""

from __future__ import annotations

from fractions import Fraction

from gpuctl.objects.quantities import format_number

_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi")


def format_bytes(value: Fraction) -> str:
    """Bytes in the unit that leaves the fewest digits: ``256Gi``, ``503.5Gi``, ``1.5Ti``, ``0``."""
    unit, shown = "", value
    for suffix in _UNITS:
        if shown < 1024:
            break
        unit, shown = suffix, shown / 1024
    text = f"{float(shown):.1f}".removesuffix(".0") if shown.denominator != 1 else str(shown.numerator)
    return f"{text}{unit}"


def format_amount(resource: str, value: Fraction | None) -> str:
    """An amount of a resource: bytes of memory and storage, else a number; empty when it is not known."""
    if value is None:
        return ""
    return format_bytes(value) if resource.endswith(("memory", "storage")) else format_number(value)


def format_share(used: Fraction | None, total: Fraction | None) -> str:
    """Use in whole percent; empty when either is not known or there is nothing to use."""
    return "" if used is None or not total else f"{round(100 * used / total)}%"


def format_count(value: int | None) -> str:
    """A number that may not be known."""
    return "" if value is None else str(value)
