"""Delays between attempts: longer after each failure, with jitter, so that clients that failed together spread out."""

from __future__ import annotations

import random

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)


def jittered(seconds: float) -> float:
    """Return a random time between 0.5 and 1.5 times ``seconds``."""
    return seconds * (0.5 + random.random())  # noqa: S311 - jitter, not a secret


def delay_after(failures: int) -> float:
    """Return the seconds to wait after this number of consecutive failures."""
    return jittered(_PAUSES[min(max(failures, 1), len(_PAUSES)) - 1])
