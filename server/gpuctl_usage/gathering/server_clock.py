"""The API server's clock, as far as it is known here."""

from __future__ import annotations

import threading
import time

from gpuctl.kube.session import Session


class ServerClock:
    """Our clock, corrected by what the API server dates its answers with. It never goes back.

    The times of objects are the API server's; what is seen to happen has none, so that ours is made to be like it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ahead = 0.0
        self._latest = 0.0
        self._lock = threading.Lock()

    @property
    def ahead(self) -> float:
        """Seconds that the API server's clock is ahead of ours; 0 where they differ by less than a date tells."""
        return self._ahead

    def compare(self) -> None:
        """Ask the API server for its time.

        :raises ConnectionFailed: no answer.
        """
        self._ahead = self._session.clock_ahead()

    def now(self) -> float:
        """Seconds since 1970."""
        with self._lock:
            self._latest = max(self._latest, time.time() + self._ahead)
            return self._latest

    def then(self, monotonic: float) -> float:
        """The time at which the monotonic clock was so."""
        return self.now() - max(0.0, time.monotonic() - monotonic)
