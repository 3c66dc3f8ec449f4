"""The local clock, corrected to the API server's."""

from __future__ import annotations

import threading
import time

from gpuctl.kube.session import Session


class ServerClock:
    """The local clock plus the difference to the Date header of the API server. It never goes back.

    Objects have times of the API server, observations do not; both need one time scale.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ahead = 0.0
        self._latest = 0.0
        self._lock = threading.Lock()

    @property
    def ahead(self) -> float:
        """Seconds by which the API server's clock is ahead; 0 if the difference is below the resolution of a Date
        header.
        """
        return self._ahead

    def compare(self) -> None:
        """Measure the difference to the API server's clock.

        :raises ConnectionFailed: the API server did not respond.
        """
        self._ahead = self._session.clock_ahead()

    def now(self) -> float:
        """Return the corrected time, seconds since 1970."""
        with self._lock:
            self._latest = max(self._latest, time.time() + self._ahead)
            return self._latest

    def then(self, monotonic: float) -> float:
        """Return the corrected time of a reading of the monotonic clock."""
        return self.now() - max(0.0, time.monotonic() - monotonic)
