"""The tables of a usage database: created and migrated to this version."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect

from gpuctl_usage.store.engines import (
    LOCK_TIMEOUT,
    DatabaseProblem,
    describe_errors,
    read_transaction,
    write_transaction,
)

MIGRATIONS = Path(__file__).with_name("migrations")
APPLICATION_ID = 0x67707563
"""`gpuc`, the application_id of usage databases in SQLite."""
# At level INFO it logs the database dialect at every start.
logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)
_RETRY_EVERY = 0.02
"""Seconds between attempts where SQLite does not wait itself."""


def prepare(engine: Engine, name: str) -> None:
    """Migrate a database to the tables of this version.

    :raises DatabaseProblem: it belongs to another program, has a newer version, or is corrupt.
    """
    with describe_errors(name):
        if engine.dialect.name == "sqlite":
            _initialize_file(engine)
        with read_transaction(engine) as connection:
            current = _check(connection, name)
        if current != head():
            if engine.dialect.name == "sqlite" and not os.access(str(engine.url.database), os.W_OK):
                raise DatabaseProblem(
                    f"the usage database {name} has the tables of an older gpuctl version and is read-only; upgrade "
                    "the collector that writes it, or query a service (`--server`)"
                )
            with write_transaction(engine) as connection:
                # Check again: another process may have migrated it.
                _check(connection, name)
                migrate(connection, "head")


def _initialize_file(engine: Engine) -> None:
    """Initialize an SQLite file without tables: auto_vacuum must be set before the first table."""
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        if _has_tables(cursor):
            return
        cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _enable_wal(cursor)
        cursor.execute("BEGIN IMMEDIATE")
        # Check again: another process may have initialized it.
        if not _has_tables(cursor):
            cursor.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        cursor.execute("COMMIT")
    finally:
        connection.close()


def _enable_wal(cursor: Any) -> None:
    """Enable the write-ahead log of a file.

    SQLite's busy timeout does not apply here: it returns at once, because two waiting processes would deadlock.
    """
    end = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "is locked" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(_RETRY_EVERY)


def _has_tables(cursor: Any) -> bool:
    cursor.execute("SELECT count(*) FROM sqlite_master")
    return bool(cursor.fetchone()[0])


def _check(connection: Connection, name: str) -> str | None:
    """Return the revision of a database; None if it is empty. Raise DatabaseProblem if it is not a usage database."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if found != APPLICATION_ID:
            raise DatabaseProblem(f"{name} belongs to another program; name another file")
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None:
        # Alembic's own table remains after a downgrade to base.
        if set(inspect(connection).get_table_names()) - {"alembic_version"}:
            raise DatabaseProblem(f"{name} has tables of another program; name another database")
        return None
    try:
        _scripts().get_revision(revision)
    except CommandError:
        raise DatabaseProblem(
            f"the usage database {name} was written by a newer gpuctl version (tables {revision[:40]}, "
            f"this version knows {head()}); use that version"
        ) from None
    return revision


def head() -> str:
    """Return the newest revision of this version."""
    found = _scripts().get_current_head()
    assert found is not None
    return found


def migrate(connection: Connection, revision: str) -> None:
    """Upgrade or downgrade the tables in the transaction of a connection."""
    config = _config()
    config.attributes["connection"] = connection
    # Newest first; None, an empty database, is last.
    known: list[str | None] = [script.revision for script in _scripts().walk_revisions()]
    known.append(None)
    current = MigrationContext.configure(connection).get_current_revision()
    target = {"head": known[0], "base": None}.get(revision, revision)
    (command.upgrade if known.index(target) <= known.index(current) else command.downgrade)(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def _scripts() -> ScriptDirectory:
    """Return the migrations of this version, read once."""
    return ScriptDirectory.from_config(_config())
