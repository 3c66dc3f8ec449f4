"""Numbers of answers: quotients of what is kept, made when they are asked for. What is not known is None."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping


def quotient(above: float, below: float) -> float | None:
    """A mean or a rate; None where there is nothing to divide by."""
    return above / below if below > 0 else None


def percentile(histogram: Mapping[int, int] | None, share: float) -> int | None:
    """The bin in which a share (0 to 1) of all is reached, by nearest rank; None of nothing."""
    total = sum(histogram.values()) if histogram else 0
    if not histogram or not total:
        return None
    rank, seen = max(1, math.ceil(share * total)), 0
    for number in sorted(histogram):
        seen += histogram[number]
        if seen >= rank:
            return number
    return None


def shown(value: float | None, digits: int = 2) -> float | None:
    """A number as it is printed."""
    return None if value is None else round(value, digits)


def counted(value: float | None) -> float | int | None:
    """A number of GPUs, which most often is whole."""
    rounded = shown(value)
    return int(rounded) if rounded is not None and rounded == int(rounded) else rounded


def stamped(seconds: float) -> str:
    """A time, to the second, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
