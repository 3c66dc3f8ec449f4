"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

AGAIN = frozenset({429, 502, 503})
"""Answers after which the same may succeed in a moment."""


@dataclass(frozen=True)
class Retrying:
    """Up to ``attempts`` in all, with pauses in seconds that double from ``pause`` to ``longest``, each shortened at
    random, so that many clients do not come back at once. ``Retry-After`` is kept, up to ``longest``."""

    attempts: int = 5
    pause: float = 0.2
    longest: float = 5.0

    def after(self, attempt: int, retry_after: str | None = None) -> float:
        """How long to wait, in seconds, after an attempt that failed; the first is 1."""
        most = min(self.longest, self.pause * 2.0 ** min(attempt - 1, 30))
        drawn = most * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        stated = float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0
        return max(drawn, min(stated, self.longest))


NEVER = Retrying(attempts=1)
"""Nothing is sent twice."""
