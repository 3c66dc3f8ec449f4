"""How a collector is doing: written by the thread that collects, read by whoever is asked about it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuctl_usage.facts import Capacity, Holding

STUCK_AFTER = 300.0
"""Seconds without a sign of life after which a collector does nothing any more: no step of it takes as long."""
WRITE_TIMEOUT = 120.0
"""Seconds without a write after which nothing is collected: where nothing changes, there is one every ten."""


class HourFigures(NamedTuple):
    """What is told of an hour that was rolled up.

    :param start: seconds since 1970; ``whole``: whether it was over.
    :param samples: measurements that count; ``dropped``: those of pods that held no GPU there.
    :param coverage: the part, 0 to 1, of what was held that was measured; None where nothing was held.
    :param open: how many sums do not agree with each other, see :mod:`gpuctl_usage.rollup.ledger`.
    """

    start: int
    whole: bool
    samples: int
    dropped: int
    coverage: float | None
    open: int


class CollectorHealth:
    """Each value is replaced as a whole, so that every thread may read it. Times are seconds since 1970.

    :ivar listed: whether everything that there is has been read once.
    :ivar known_until: until when what holds GPUs is written down; ``written_at``: when something was last written.
    :ivar rolled_until: the end of the hours of which none is missing.
    :ivar restarts: by kind how many watches had to be begun again.
    :ivar samples: measurements that snapshots were given; ``unanswered``: questions that Prometheus had no answer to.
    :ivar problem: why nothing can be written; "" where it can.
    """

    def __init__(self) -> None:
        self.cluster = ""
        self.listed = False
        self.known_until: float | None = None
        self.written_at: float | None = None
        self.write_failures = 0
        self.problem = ""
        self.samples = 0
        self.unanswered = 0
        self.rolled_until: float | None = None
        self.hours: Mapping[int, HourFigures] = {}
        self.restarts: Mapping[str, int] = {}
        self.database_bytes: int | None = None
        self.holdings: Sequence[Holding] = ()
        self.capacities: Sequence[Capacity] = ()
        self._last_loop = time.monotonic()

    def loop_ran(self) -> None:
        """It goes on."""
        self._last_loop = time.monotonic()

    def write_succeeded(self, known: float) -> None:
        """All that happened before a time is written down."""
        self.known_until, self.written_at, self.problem = known, time.time(), ""

    def write_failed(self, problem: str) -> None:
        """Something could not be written."""
        self.write_failures += 1
        self.problem = problem

    def hour_rolled_up(self, hour: HourFigures, keep_from: int) -> None:
        """An hour was rolled up; those before ``keep_from`` are not told of any more."""
        hours = {start: item for start, item in self.hours.items() if start >= keep_from}
        self.hours = {**hours, hour.start: hour}

    @property
    def last_hour(self) -> HourFigures | None:
        """The last hour that was rolled up once it was over."""
        return max((hour for hour in self.hours.values() if hour.whole), default=None)

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return time.monotonic() - self._last_loop < STUCK_AFTER

    @property
    def is_collecting(self) -> bool:
        """Whether all that happens is known, and written down."""
        recently = self.written_at is not None and time.time() - self.written_at < WRITE_TIMEOUT
        return self.is_alive and self.listed and recently and not self.problem

    def state(self) -> dict[str, Any]:
        """For people, as JSON: whether it collects, how old what is written may be, and why it cannot be written."""
        known = None if self.known_until is None else round(max(0.0, time.time() - self.known_until), 1)
        return {"collecting": self.is_collecting, "knownSecondsAgo": known, "problem": self.problem or None}
