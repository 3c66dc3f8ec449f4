"""Wait until a job has a status."""

from __future__ import annotations

import time
from collections.abc import Collection

from gpuctl_sdk.calls import Call, given, segment
from gpuctl_sdk.errors import GpuctlError, JobEnded, ServiceError, TimedOut
from gpuctl_sdk.models import JobDescription
from gpuctl_sdk.retrying import RETRIED_STATUSES, is_outage_over

ENDED = ("succeeded", "failed")
"""The statuses of a job that has ended."""


class Watch:
    """The expected statuses and the timeout. ``call`` asks for the status, ``status`` is the last known one."""

    def __init__(
        self, job: str, until: str | Collection[str], timeout: float | None, namespace: str | None = None
    ) -> None:
        self.status = ""
        self._job = job
        self._until = {until} if isinstance(until, str) else set(until)
        self._end = None if timeout is None else time.monotonic() + timeout
        self._heard: float | None = None
        query = given({"namespace": namespace})
        self.call = Call("GET", f"/jobs/{segment(job)}", JobDescription, query=query, end=self._end)

    def reached(self, status: str) -> bool:
        """Return True if the job has one of the expected statuses.

        :raises JobEnded: the job has ended with another status.
        """
        self.status, self._heard = status, time.monotonic()
        if self.status in self._until:
            return True
        if self.status in ENDED:
            raise JobEnded(self._job, self.status)
        return False

    def missed(self, error: GpuctlError) -> None:
        """Take a request that failed.

        :raises GpuctlError: the error, unless the service may be back soon.
        """
        if isinstance(error, ServiceError) and error.status not in RETRIED_STATUSES:
            raise error
        if is_outage_over(self._heard):
            raise error

    def pause(self, every: float) -> float:
        """Return the seconds to wait before the next request.

        :raises TimedOut: there is no time left.
        """
        left = every if self._end is None else self._end - time.monotonic()
        if left <= 0:
            raise TimedOut(f"{self._job} is still {self.status}")
        return min(every, left)
