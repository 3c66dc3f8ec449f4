"""Export and import of a usage database as an SQLite file, which moves it between SQLite and PostgreSQL or serves as a
backup.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpuctl_usage.store.copying import NotEmpty
from gpuctl_usage.store.database import Database, open_database


class TransferError(Exception):
    """The source is missing or the target is in use; ``str()`` is the message for the user."""


def export_store(address: str, file: Path) -> int:
    """Write the whole database to a new file; return the number of rows.

    The export is a consistent snapshot, and the collector may keep running. The file is written completely or not at
    all.

    :raises TransferError: the file exists or cannot be written.
    :raises DatabaseProblem: one of the two databases cannot be used.
    """
    if file.exists():
        raise TransferError(f"{file} already exists; name another file, or remove it")
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
    """Copy an exported file into an empty database; return the number of rows.

    :raises TransferError: the file does not exist, or the database is not empty.
    :raises DatabaseProblem: one of the two databases cannot be used.
    """
    if not file.is_file():
        raise TransferError(f"{file} does not exist")
    source = open_database(str(file))
    try:
        return _into(source, address)
    finally:
        source.close()


def _into(source: Database, address: str) -> int:
    target = open_database(address)
    try:
        return source.copy_to(target)
    except NotEmpty:
        raise TransferError(
            f"{target.name} is not empty; import into a new database, before a collector uses it"
        ) from None
    finally:
        target.close()


def _remove(file: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)
