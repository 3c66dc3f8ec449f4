"""Rounding that keeps sums exact."""

from __future__ import annotations

import math
from collections.abc import Sequence

_ROUNDING_ERROR = 1e-6
"""Units by which additions may make an amount too small."""


def round_to_sum(amounts: Sequence[float], unit: float) -> list[int]:
    """Round amounts to whole units so that their sum equals the rounded sum.

    Each amount is rounded up or down. Those with the largest remainders are rounded up, the first of equals before
    others.
    """
    # Rounding errors of additions can make an amount negative.
    exact = [max(0.0, amount) / unit for amount in amounts]
    floors = [math.floor(value + _ROUNDING_ERROR) for value in exact]
    missing = math.floor(sum(exact) + 0.5) - sum(floors)
    order = sorted(range(len(exact)), key=lambda number: (floors[number] - exact[number], number))
    for number in order[: max(0, missing)]:
        floors[number] += 1
    return floors
