"""How long to wait before the next attempt: longer after each failure, never as long as others that failed with us."""

from __future__ import annotations

import random

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)


def jittered(seconds: float) -> float:
    """A time between half as long and one and a half times as long."""
    return seconds * (0.5 + random.random())  # noqa: S311 - jitter, not a secret


def delay_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return jittered(_PAUSES[min(max(failures, 1), len(_PAUSES)) - 1])
