"""Files of SQLite whose directory belongs to somebody else: who may only read them can look at them all the same.

A file with a write-ahead log is read together with the log and its index, which whoever comes first makes, and whoever
goes last takes away. While somebody writes, both are there, and may be read. While nobody does, who may not make them
reads the file alone, as one that does not change; SQLite then looks for no change, so that is done here.
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

_AS_IT_WAS = "gpuctl_as_it_was"


class ChangedWhileReading(sqlite3.OperationalError):
    """Somebody began to write a file that was read alone: what was read may be of two states."""


def cannot_create_wal(file: Path) -> bool:
    """Whether a file is there, but neither a log nor its index can be made beside it."""
    return file.exists() and not (os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK))


def open_without_wal(engine: Engine, file: Path) -> None:
    """Have the connections to a file be such that they need no log beside it where there is none."""
    event.listen(engine, "do_connect", lambda dialect, entry, arguments, options: _connect(file, entry, options))


def _connect(file: Path, entry: ConnectionPoolEntry, options: dict[str, Any]) -> sqlite3.Connection | None:
    path = file.resolve()
    # First the state, then the log: whoever begins to write in between has changed the file in the end.
    state = _state(path)
    if path.with_name(f"{path.name}-wal").exists():
        return None
    entry.info[_AS_IT_WAS] = path, state
    found: sqlite3.Connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, **options)
    return found


@contextmanager
def check_unchanged(connection: Connection) -> Iterator[None]:
    """See that a file which is read alone stays as it is.

    :raises ChangedMeanwhile: it has not, whatever else went wrong.
    """
    path, state = connection.info.get(_AS_IT_WAS, (None, None))
    try:
        yield
    finally:
        if path is not None and _state(path) != state:
            raise ChangedWhileReading("changed meanwhile")


def _state(path: Path) -> tuple[int, int, int] | None:
    """By which a change is noticed; None of a file that is there no more."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
