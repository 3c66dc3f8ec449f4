"""Reading of SQLite files without write access to their directory.

A file in WAL mode is read together with its log and index files, which the first connection creates and the last one
deletes. While another process has the database open, they exist and can be read. Otherwise a reader that cannot create
them opens the file as immutable. SQLite then does not check for changes, so this module does.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

_INITIAL_STATE = "gpuctl_as_it_was"


class ChangedWhileReading(sqlite3.OperationalError):
    """Another process began to write a file opened as immutable; the data may be inconsistent."""


def cannot_create_wal(file: Path) -> bool:
    """Return True if the file exists and its log and index files cannot be created."""
    return file.exists() and not (os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK))


def open_without_wal(engine: Engine, file: Path) -> None:
    """Make the engine open the file as immutable if it has no log."""
    event.listen(engine, "do_connect", lambda dialect, entry, arguments, options: _connect(file, entry, options))


def _connect(file: Path, entry: ConnectionPoolEntry, options: dict[str, Any]) -> sqlite3.Connection | None:
    path = file.resolve()
    # State first, then the log: a writer that starts in between has changed the state by the end.
    state = _state(path)
    if path.with_name(f"{path.name}-wal").exists():
        return None
    entry.info[_INITIAL_STATE] = path, state
    found: sqlite3.Connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, **options)
    return found


@contextmanager
def check_unchanged(connection: Connection) -> Iterator[None]:
    """Check that a file opened as immutable does not change within the block.

    :raises ChangedWhileReading: it changed, even if another error occurred.
    """
    path, state = connection.info.get(_INITIAL_STATE, (None, None))
    try:
        yield
    finally:
        if path is not None and _state(path) != state:
            raise ChangedWhileReading("changed while reading")


def _state(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with every write; None if the file no longer exists."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
