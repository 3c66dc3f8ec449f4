"""One store moved to another: SQLite and PostgreSQL, by way of a file of SQLite, which is a copy to keep as well."""

from __future__ import annotations

import os
from pathlib import Path

from gpuctl_usage.store.database import Database, open_database


class TransferError(Exception):
    """What was to be moved is not where it should be, or its place is taken; ``str()`` is for people."""


def export_store(address: str, file: Path) -> int:
    """Write all that a database has to a new file; how many rows that are.

    Whoever collects goes on meanwhile: the file has one moment. It is there whole, or not at all.

    :raises CannotMove: the file is there.
    :raises DatabaseProblem: one of the two cannot be used.
    """
    if file.exists():
        raise TransferError(f"{file} is there already; name another file, or remove it")
    partial = file.with_name(f"{file.name}.partial")
    _remove(partial)
    source = open_database(address)
    try:
        target = open_database(str(partial))
        try:
            count = source.copy_to(target)
        finally:
            target.close()
        os.replace(partial, file)
    except OSError as error:
        raise TransferError(f"{file} cannot be written: {error.strerror}") from None
    finally:
        source.close()
        _remove(partial)
    return count


def import_store(file: Path, address: str) -> int:
    """Copy all that an exported file has to a database in which nothing was collected; how many rows that are.

    :raises CannotMove: there is no file, or the database is in use.
    :raises DatabaseProblem: one of the two cannot be used.
    """
    if not file.is_file():
        raise TransferError(f"there is no file {file}")
    source = open_database(str(file))
    try:
        return _into(source, address)
    finally:
        source.close()


def _into(source: Database, address: str) -> int:
    target = open_database(address)
    try:
        if not target.is_empty():
            raise TransferError(
                f"{target.name} has usage already; import into a new database (and let no collector use it before)"
            )
        return source.copy_to(target)
    finally:
        target.close()


def _remove(file: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)
