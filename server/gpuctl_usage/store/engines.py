"""Connections to a database: setup of SQLite, transactions and error messages."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from gpuctl_usage.store import postgres
from gpuctl_usage.store.packing import InvalidPackedData

LOCK_TIMEOUT = 30.0
_SHRINK_PAGES = 2000
"""Number of free pages returned to the file system at a time."""
_WRITE_OPTION = "gpuctl_writes"


class DatabaseProblem(Exception):
    """A database cannot be used; ``str()`` is the message for the user, with what to do."""


@contextmanager
def describe_errors(name: str) -> Iterator[None]:
    """Raise DatabaseProblem for errors of the database; ``name`` is its name in messages."""
    try:
        yield
    except InvalidPackedData as error:
        raise DatabaseProblem(_describe(name, ValueError(f"malformed: {error}"))) from error
    except DBAPIError as error:
        raise DatabaseProblem(_describe(name, error.orig)) from error
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise DatabaseProblem(_describe(name, error)) from error


def _describe(name: str, error: BaseException | None) -> str:
    text = str(error).strip().partition("\n")[0]
    if not isinstance(error, sqlite3.Error) and (meant := postgres.describe_error(error, LOCK_TIMEOUT)) is not None:
        return f"the usage database {name} {meant}"
    known = {
        "file is not a database": "is not an SQLite database, or is corrupt; restore a backup, or name another file",
        "malformed": "is corrupt; move it away and restore a backup, or start a new one",
        "disk image": "is corrupt; move it away and restore a backup, or start a new one",
        "readonly": "is read-only; writing needs write access to the file and to its directory",
        "unable to open": "cannot be opened; its directory must exist and be writable",
        "is locked": f"was locked by another process for {LOCK_TIMEOUT:g} s; stop that process, or try again",
        "disk is full": "cannot grow: the disk is full; free some space on it",
    }
    for sign, meaning in known.items():
        if sign in text:
            return f"the usage database {name} {meaning}"
    return f"the usage database {name} cannot be used: {text}"


def url_of(text: str) -> URL:
    """Parse a path or a database URL.

    :raises DatabaseProblem: it is neither, or the database system is not supported.
    """
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        # libpq also accepts `postgres:`.
        url = make_url("postgresql" + text.removeprefix("postgres") if text.startswith("postgres:") else text)
    except (ArgumentError, ValueError):
        raise DatabaseProblem("the usage database must be a path, or a URL such as sqlite:///usage.db") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise DatabaseProblem(
            f"usage databases of {url.get_backend_name()} are not supported; use sqlite or postgresql"
        )
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise DatabaseProblem("the usage database must be a file: sqlite:///PATH")
    return url if url.get_backend_name() == "sqlite" else url.set(drivername=postgres.DRIVER)


def display_name(url: URL) -> str:
    """Return the name of a database in messages: the path of a file, or a URL without password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else postgres.masked(url)


def engine_of(url: URL) -> Engine:
    """Create the engine of a database.

    :raises DatabaseProblem: the driver is not installed, or a file has no log and the user cannot create one.
    """
    if url.get_backend_name() == "sqlite":
        _require_log(Path(str(url.database)).resolve())
    try:
        if url.get_backend_name() != "sqlite":
            return create_engine(url, pool_pre_ping=True, connect_args=postgres.CONNECT_ARGS)
        engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT})
    except ImportError:
        raise DatabaseProblem(
            f"the usage database {display_name(url)} needs psycopg; install it: `pip install 'gpuctl-k8s[postgresql]'`"
        ) from None
    except SQLAlchemyError as error:
        raise DatabaseProblem(f"the usage database {display_name(url)} cannot be used: {error}") from None
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _require_log(file: Path) -> None:
    """Check that the log of an SQLite file exists, or that it can be created.

    A file in WAL mode is read together with its log and index files, which the first connection creates and the last
    one deletes. A user who may not write the file must not create them: the collector could not write them.
    """
    can_create = os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)
    if os.path.exists(file) and not can_create and not os.path.exists(f"{file}-wal"):
        raise DatabaseProblem(
            f"the usage database {file} cannot be read: no process has it open, and you may not write the file and its "
            "directory; copy it to a directory of yours, or query a service (`--server`)"
        )


def _set_up(connection: Any, entry: ConnectionPoolEntry) -> None:
    """Set up an SQLite connection. isolation_level None: transactions are begun explicitly, not by Python's driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    # With a write-ahead log this is safe if a process is killed; a power failure may lose the last transactions.
    cursor.execute("PRAGMA synchronous = NORMAL")
    # Queries sort some megabytes; above two, SQLite would write temporary files.
    cursor.execute("PRAGMA temp_store = MEMORY")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A deferred transaction that reads first fails at its first write if another process has written in between.
    writes = connection.get_execution_options().get(_WRITE_OPTION, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a write transaction; wait for other writers."""
    with engine.connect().execution_options(**{_WRITE_OPTION: True}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            postgres.begin_to_write(connection, LOCK_TIMEOUT)
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a read transaction with a consistent snapshot; it waits for no other transaction."""
    # SQLite's read transactions are consistent by default.
    one_moment = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    options = one_moment if engine.dialect.name == "postgresql" else {}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            postgres.begin_to_read(connection)
        yield connection


def shrink(engine: Engine) -> bool:
    """Return some free pages of an SQLite file to the file system; return False if no page
    is free. Servers do this themselves.
    """
    if engine.dialect.name != "sqlite":
        return False
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute("PRAGMA freelist_count")
        free = any(count for (count,) in cursor.fetchall())
        if free:
            # execute() would free one page only: it stops at the first row, and this statement returns none.
            cursor.executescript(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")
        return free
    finally:
        connection.close()


def size_of(connection: Connection) -> int:
    """Return the size of a database in bytes; for SQLite, the file without the write-ahead log."""
    if connection.dialect.name != "sqlite":
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
