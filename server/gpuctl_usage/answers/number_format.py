"""Numbers and times as answers show them. What is not known is None."""

from __future__ import annotations

import time
from functools import lru_cache


def rounded(value: float | None, digits: int = 2) -> float | None:
    """A number as it is printed."""
    return None if value is None else round(value, digits)


def gpu_amount(value: float | None) -> float | int | None:
    """A number of GPUs, which most often is whole."""
    amount = rounded(value)
    return int(amount) if amount is not None and amount == int(amount) else amount


@lru_cache(maxsize=4096)
def utc_timestamp(seconds: float) -> str:
    """A time, to the second, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
