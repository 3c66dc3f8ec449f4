"""The retry policy of requests. The operations say which of them may be repeated."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

RETRIED_STATUSES = frozenset({429, 502, 503})
"""Statuses after which the same request may succeed later."""

OUTAGE = 60.0
"""Seconds for which waits and followed logs retry a service that has responded before: it may be replaced."""


def is_outage_over(heard: float | None) -> bool:
    """Return True if there is no more reason to wait for a service.

    :param heard: when it last responded (monotonic); None: it never has.
    """
    return heard is None or time.monotonic() > heard + OUTAGE


@dataclass(frozen=True)
class Retrying:
    """Retry up to ``attempts`` times in all. Pauses double from ``pause`` to ``longest`` seconds, each shortened at
    random so that many clients do not retry at the same time. ``Retry-After`` is respected, up to ``longest``.
    """

    attempts: int = 5
    pause: float = 0.2
    longest: float = 5.0

    def after(self, attempt: int, retry_after: str | None = None) -> float:
        """Return the seconds to wait after a failed attempt; the first attempt is 1."""
        most = min(self.longest, self.pause * 2.0 ** min(attempt - 1, 30))
        drawn = most * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        stated = float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0
        return max(drawn, min(stated, self.longest))


NEVER = Retrying(attempts=1)
"""The policy without retries."""
