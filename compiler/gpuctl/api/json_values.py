"""Parts of responses: amounts as JSON numbers, and changed fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any


def number(value: Fraction | None) -> int | float | None:
    """Return an exact amount as a number: an int if it is whole; None stays None."""
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def rounded(value: float | None, digits: int = 2) -> float | None:
    """Return a value rounded to ``digits`` decimals; None, if it is unknown, stays None."""
    return None if value is None else round(value, digits)


def gpu_amount(value: float | None) -> float | int | None:
    """Return a number of GPUs, as an integer if it is whole."""
    amount = rounded(value)
    return int(amount) if amount is not None and amount == int(amount) else amount


def change_values(changes: Iterable[tuple[str, Any, Any]]) -> list[dict[str, Any]]:
    """Return changed fields, each a path, an old and a new value, as JSON objects."""
    return [{"path": path, "from": old, "to": new} for path, old, new in changes]


def to_json(value: Any) -> str:
    """Return a response as text: indented by two, with a line break at the end."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
