"""A clock with the time of the API server."""

from __future__ import annotations

import threading
import time

from gpuctl.kube.session import Session


class ServerClock:
    """The time of the API server when it was last compared, plus the time that has passed since. It never goes back.

    Objects have times of the API server, observations do not; both need one time scale. A step of the local clock
    changes nothing.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._offset = time.time() - time.monotonic()
        self._latest = 0.0
        self._lock = threading.Lock()

    def compare(self) -> float:
        """Read the API server's clock. Return the seconds for which :meth:`now` will stand still, as that clock was set
        back; 0 usually.

        :raises ConnectionFailed: the API server did not respond.
        """
        # In this order: the local time is read after the request.
        self._offset = self._session.clock_ahead() + time.time() - time.monotonic()
        return max(0.0, self._latest - time.monotonic() - self._offset)

    def now(self) -> float:
        """Return the time, seconds since 1970: the local one before the first :meth:`compare`."""
        with self._lock:
            self._latest = max(self._latest, time.monotonic() + self._offset)
            return self._latest

    def then(self, monotonic: float) -> float:
        """Return the time of a reading of the monotonic clock."""
        return self.now() - max(0.0, time.monotonic() - monotonic)
