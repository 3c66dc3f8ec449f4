"""A limit on the number of concurrent changes. No step of a change begins after shutdown was requested."""

from __future__ import annotations

import threading

from gpuctl_server.limits.fair_slots import CountedSlots

MOST = 16
"""Maximum number of concurrent changes. One caller may have three quarters of them. A change may wait minutes until
pods are gone, and reads must have threads left.
"""


class ChangeSlots(CountedSlots):
    """The running changes."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__(most, most - most // 4)
        self._ending = threading.Event()

    def end(self) -> None:
        """Request shutdown: running changes begin no new step, but restore what they have taken apart."""
        self._ending.set()

    def is_ending(self) -> bool:
        """Return True if shutdown was requested."""
        return self._ending.is_set()
