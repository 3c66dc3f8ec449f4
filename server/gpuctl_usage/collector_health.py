"""State of a collector: written by the collecting thread, read by the threads that serve metrics and probes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuctl_usage.facts import Capacity, Holding

STUCK_AFTER = 300.0
"""Seconds without a loop of the collector after which it counts as stuck; no step takes that long."""
WRITE_TIMEOUT = 120.0
"""Seconds without a write after which the collector is not ready; without changes it writes every ten seconds."""


class HourFigures(NamedTuple):
    """Figures of an hour that was rolled up.

    :param start: seconds since 1970; ``whole``: True if the hour was over.
    :param samples: number of measurements; ``dropped``: measurements of pods that held no GPU on that node.
    :param coverage: measured part of the held GPU time, 0 to 1; None if no GPU was held.
    :param open: number of contradicting sums, see :mod:`gpuctl_usage.rollup.ledger`.
    """

    start: int
    whole: bool
    samples: int
    dropped: int
    coverage: float | None
    open: int


class CollectorHealth:
    """State of a collector. Each value is replaced as a whole, so that any thread may read it. Times are seconds since
    1970.

    :ivar now: returns the time by the clock of ``known_until`` and ``rolled_until``, that of the API server.
    :ivar listed: True once all kinds have been listed. :ivar known_until: time until which the stored holdings are
    complete; ``written_at``: time of the last write. :ivar rolled_until: end of the last hour before which no hour is
    missing. :ivar restarts: number of restarted watches by kind. :ivar samples: number of measurements used for
    snapshots; ``unanswered``: number of failed Prometheus queries. :ivar problem: why the database cannot be written;
    "" if it can.
    """

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.time
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
        """Record that the collector's loop is running."""
        self._last_loop = time.monotonic()

    def write_succeeded(self, known: float) -> None:
        """Record a write; ``known`` is the time until which the stored data are complete."""
        self.known_until, self.written_at, self.problem = known, time.time(), ""

    def write_failed(self, problem: str) -> None:
        """Record a failed write."""
        self.write_failures += 1
        self.problem = problem

    def hour_rolled_up(self, hour: HourFigures, keep_from: int) -> None:
        """Record an hour, and forget those before ``keep_from``."""
        hours = {start: item for start, item in self.hours.items() if start >= keep_from}
        self.hours = {**hours, hour.start: hour}

    @property
    def last_hour(self) -> HourFigures | None:
        """Return the last complete hour that was rolled up."""
        return max((hour for hour in self.hours.values() if hour.whole), default=None)

    @property
    def is_alive(self) -> bool:
        """Return True if the collector's loop is running."""
        return time.monotonic() - self._last_loop < STUCK_AFTER

    @property
    def is_collecting(self) -> bool:
        """Return True if all events are received and written."""
        recently = self.written_at is not None and time.time() - self.written_at < WRITE_TIMEOUT
        return self.is_alive and self.listed and recently and not self.problem

    def state(self) -> dict[str, Any]:
        """Return the state as JSON for /readyz: whether the collector is collecting, the age of its data, and why it
        cannot write.
        """
        known = None if self.known_until is None else round(max(0.0, self.now() - self.known_until), 1)
        return {"collecting": self.is_collecting, "knownSecondsAgo": known, "problem": self.problem or None}
