"""Amounts in tables: short, rounded, without blanks."""

from __future__ import annotations

from fractions import Fraction

from gpuctl.objects.quantities import format_number

_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi")


def rounded_bytes(value: Fraction) -> str:
    """Return bytes, rounded, in the unit with the fewest digits: ``256Gi``, ``503.5Gi``, ``1.5Ti``, ``0``."""
    unit, shown = "", value
    for suffix in _UNITS:
        if shown < 1024:
            break
        unit, shown = suffix, shown / 1024
    text = f"{float(shown):.1f}".removesuffix(".0") if shown.denominator != 1 else str(shown.numerator)
    return f"{text}{unit}"


def rounded_amount(resource: str, value: Fraction | None) -> str:
    """Return a rounded amount of a resource: bytes for memory and storage, else a number; "" for None."""
    if value is None:
        return ""
    return rounded_bytes(value) if resource.endswith(("memory", "storage")) else format_number(value)


def format_share(used: Fraction | None, total: Fraction | None) -> str:
    """Return use in whole percent; "" if an amount is unknown or the total is 0."""
    return "" if used is None or not total else f"{round(100 * used / total)}%"


def format_count(value: int | None) -> str:
    """Return a number as text; "" for None."""
    return "" if value is None else str(value)
