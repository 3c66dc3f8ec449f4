"""Waiting until a job has come to something."""

from __future__ import annotations

import time
from collections.abc import Collection

from gpuctl_sdk.errors import JobEnded, TimedOut

ENDED = ("succeeded", "failed")
"""The statuses of a job that has ended."""


class Watch:
    """What is waited for, and for how long. ``status`` is the newest that is known."""

    def __init__(self, job: str, until: str | Collection[str], timeout: float | None) -> None:
        self.status = ""
        self._job = job
        self._until = {until} if isinstance(until, str) else set(until)
        self._end = None if timeout is None else time.monotonic() + timeout

    def reached(self, status: str) -> bool:
        """Whether it has come to it.

        :raises JobEnded: it will not.
        """
        self.status = status
        if self.status in self._until:
            return True
        if self.status in ENDED:
            raise JobEnded(self._job, self.status)
        return False

    def pause(self, every: float) -> float:
        """How long to wait before the next look, in seconds.

        :raises TimedOut: there is no time left.
        """
        left = every if self._end is None else self._end - time.monotonic()
        if left <= 0:
            raise TimedOut(f"{self._job} is still {self.status}")
        return min(every, left)
