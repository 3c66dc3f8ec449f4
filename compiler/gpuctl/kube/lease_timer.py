"""Expiry of leases without comparing clocks of different machines."""

from __future__ import annotations

import time


class LeaseTimer:
    """Measures how long a lease has not been renewed, by the local clock, as client-go's leader election does.

    The times in a lease come from another machine's clock and are never compared with the local one.
    """

    def __init__(self) -> None:
        self._seen: object = None
        self._since = 0.0

    def unchanged(self, lease: object) -> float:
        """Return the seconds since this state of the lease was first seen."""
        now = time.monotonic()
        if lease != self._seen:
            self._seen, self._since = lease, now
        return now - self._since
