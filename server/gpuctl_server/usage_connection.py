"""The connection with the usage database, which the collector fills. It is opened on first use; a failure is
retried."""

from __future__ import annotations

import threading

from gpuctl_usage.store.database import Database, open_database


class UsageConnection:
    """``address`` is a path or a URL; None if not set."""

    def __init__(self, address: str | None) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._database: Database | None = None

    def database(self) -> Database | None:
        """Return the database; None if no address is set.

        :raises DatabaseProblem: the database cannot be used.
        """
        if not self.address:
            return None
        with self._lock:
            if self._database is None:
                self._database = open_database(self.address)
            return self._database

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
