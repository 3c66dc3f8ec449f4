"""Rounding of numbers and formatting of times in answers. None means unknown."""

from __future__ import annotations


def rounded(value: float | None, digits: int = 2) -> float | None:
    """Return a value rounded to ``digits`` decimals."""
    return None if value is None else round(value, digits)


def gpu_amount(value: float | None) -> float | int | None:
    """Return a number of GPUs, as an integer if it is whole."""
    amount = rounded(value)
    return int(amount) if amount is not None and amount == int(amount) else amount
