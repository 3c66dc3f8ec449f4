"""The database of usage, which somebody else fills: opened when it is first asked, and again after it could not be."""

from __future__ import annotations

import threading

from gpuctl_usage.store.database import Database, open_database


class UsageConnection:
    """``address`` is a path or a URL; None where none is set."""

    def __init__(self, address: str | None) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._database: Database | None = None

    def database(self) -> Database | None:
        """The database; None where none is set.

        :raises DatabaseProblem: it cannot be used.
        """
        if not self.address:
            return None
        with self._lock:
            if self._database is None:
                self._database = open_database(self.address)
            return self._database

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
