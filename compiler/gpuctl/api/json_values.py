"""Parts of answers: lists with their length, and amounts as JSON numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any


def listed(items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The form of every list: ``items``, and how many they are in ``total``."""
    found = list(items)
    return {"items": found, "total": len(found)}


def number(value: Fraction | None) -> int | float | None:
    """An exact amount as a number: whole where it is whole, null where it is not known."""
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def to_json(value: Any) -> str:
    """An answer as text, as the commands print it: two blanks of indentation, a line break at the end."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
