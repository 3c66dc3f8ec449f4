"""The way to a database: SQLite as it has to be set up, and the tables of this version."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from gpuctl_usage.store import postgres, read_only_files
from gpuctl_usage.store.packing import InvalidPackedData

MIGRATIONS = Path(__file__).with_name("migrations")
APPLICATION = 0x67707563
"""`gpuc`: what stands in the head of our files (SQLite's application_id)."""
# It says at every start what it takes the database for.
logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)
_LOCK_TIMEOUT = 30.0
_RETRY_EVERY = 0.02
"""Seconds from one attempt to the next where SQLite does not wait by itself."""
_PAGES = 2000
"""Of a file that shrinks, how many are given back at a time."""
_WRITES = "gpuctl_writes"


class DatabaseProblem(Exception):
    """A database that cannot be used; ``str()`` says why and what to do, for people."""


@contextmanager
def describe_errors(name: str) -> Iterator[None]:
    """Have what goes wrong with a database said for people; ``name`` is how they know it."""
    try:
        yield
    except InvalidPackedData as error:
        raise DatabaseProblem(_said(name, ValueError(f"malformed: {error}"))) from error
    except DBAPIError as error:
        raise DatabaseProblem(_said(name, error.orig)) from error
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise DatabaseProblem(_said(name, error)) from error


def _said(name: str, error: BaseException | None) -> str:
    text = str(error).strip().partition("\n")[0]
    if not isinstance(error, sqlite3.Error) and (meant := postgres.describe_error(error, _LOCK_TIMEOUT)) is not None:
        return f"the usage database {name} {meant}"
    known = {
        "file is not a database": "is no database of SQLite, or is damaged; restore a copy, or name another file",
        "malformed": "is damaged; move it away and restore a copy, or begin a new one",
        "disk image": "is damaged; move it away and restore a copy, or begin a new one",
        "readonly": "may only be read; whoever writes needs write access to it and to its directory",
        "changed meanwhile": "began to be written while it was read; try again",
        "unable to open": "cannot be opened; its directory has to be there, and to be writable",
        "is locked": f"was locked by another process for {_LOCK_TIMEOUT:g} s; end what holds it, or try again",
        "disk is full": "cannot grow: the disk is full",
    }
    for sign, meaning in known.items():
        if sign in text:
            return f"the usage database {name} {meaning}"
    return f"the usage database {name} cannot be used: {text}"


def url_of(text: str) -> URL:
    """A path, or the URL of a database.

    :raises DatabaseProblem: it is neither.
    """
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        # `postgres:` is what libpq takes as well.
        url = make_url("postgresql" + text.removeprefix("postgres") if text.startswith("postgres:") else text)
    except (ArgumentError, ValueError):
        raise DatabaseProblem("the usage database is no path, and no URL such as sqlite:///usage.db") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise DatabaseProblem(f"a usage database of {url.get_backend_name()} is not known; use sqlite or postgresql")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise DatabaseProblem("the usage database has to be a file: sqlite:///PATH")
    return url if url.get_backend_name() == "sqlite" else postgres.with_driver(url)


def display_name(url: URL) -> str:
    """How people know a database: the path of a file; never a password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else postgres.masked(url)


def engine_of(url: URL) -> Engine:
    """The connections to a database.

    :raises DatabaseProblem: what it takes is not installed.
    """
    try:
        if url.get_backend_name() != "sqlite":
            return create_engine(url, pool_pre_ping=True, connect_args=postgres.CONNECT_ARGS)
        file = Path(str(url.database))
        alone = read_only_files.cannot_create_wal(file)
        engine = create_engine(url, connect_args={"timeout": _LOCK_TIMEOUT}, poolclass=NullPool if alone else None)
    except ImportError:
        raise DatabaseProblem(
            f"the usage database {display_name(url)} needs psycopg; install it: `pip install 'gpuctl-k8s[postgresql]'`"
        ) from None
    except SQLAlchemyError as error:
        raise DatabaseProblem(f"the usage database {display_name(url)} cannot be used: {error}") from None
    if alone:
        read_only_files.open_without_wal(engine, file)
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, entry: ConnectionPoolEntry) -> None:
    """Every connection of SQLite. Transactions are begun by us: Python's own begin where it thinks one is needed."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    # With a write-ahead log that is safe when a process is killed; a power failure may take the last moments.
    cursor.execute("PRAGMA synchronous = NORMAL")
    # What a question sorts is some megabytes: beyond two it would be written to a file and merged from there.
    cursor.execute("PRAGMA temp_store = MEMORY")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A transaction that reads first and then writes would fail where another has written in between.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: it waits for others that do."""
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            postgres.begin_to_write(connection, _LOCK_TIMEOUT)
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that reads: it sees one moment, and waits for nobody."""
    # What reads in SQLite sees one moment by itself.
    one_moment = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    options = one_moment if engine.dialect.name == "postgresql" else {}
    there = engine.connect().execution_options(**options)
    with there as connection, connection.begin(), read_only_files.check_unchanged(connection):
        if connection.dialect.name == "postgresql":
            postgres.begin_to_read(connection)
        yield connection


def shrink(engine: Engine) -> bool:
    """Give some free pages of a file back; False where there are none. A database server does that by itself."""
    if engine.dialect.name != "sqlite":
        return False
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute("PRAGMA freelist_count")
        free = any(count for (count,) in cursor.fetchall())
        if free:
            # As a statement it would do one page: it has no columns, and is asked for no more.
            cursor.executescript(f"PRAGMA incremental_vacuum({_PAGES})")
        return free
    finally:
        connection.close()


def size_of(connection: Connection) -> int:
    """Bytes that a database takes: of SQLite its file, without the log that is still to be written to it."""
    if connection.dialect.name != "sqlite":
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())


def prepare(engine: Engine, name: str) -> None:
    """Bring a database to the tables of this version.

    :raises DatabaseProblem: it is somebody else's, of a later version, or damaged.
    """
    with describe_errors(name):
        if engine.dialect.name == "sqlite":
            _begin_file(engine)
        with read_transaction(engine) as connection:
            current = _check(connection, name)
        if current != head():
            if engine.dialect.name == "sqlite" and read_only_files.cannot_create_wal(Path(str(engine.url.database))):
                raise DatabaseProblem(
                    f"the usage database {name} is of an earlier version of gpuctl, and may only be read; have whoever "
                    "writes it use this version, or ask a service (`--server`)"
                )
            with write_transaction(engine) as connection:
                # Another process may have done it meanwhile.
                _check(connection, name)
                migrate(connection, "head")


def _begin_file(engine: Engine) -> None:
    """Set up a file without tables: how it grows and shrinks is settled before its first."""
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        if _has_tables(cursor):
            return
        cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _write_ahead(cursor)
        cursor.execute("BEGIN IMMEDIATE")
        # Another process may have come first.
        if not _has_tables(cursor):
            cursor.execute(f"PRAGMA application_id = {APPLICATION}")
        cursor.execute("COMMIT")
    finally:
        connection.close()


def _write_ahead(cursor: Any) -> None:
    """Have a file keep a write-ahead log.

    Wherever else another process holds a lock SQLite waits for it as long as it may; here it gives up at once, as two
    that wait for each other would wait for ever.
    """
    end = time.monotonic() + _LOCK_TIMEOUT
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
    """The revision of a database that is ours, None of one that is empty."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if found != APPLICATION:
            raise DatabaseProblem(f"{name} is a database of another program; name another file")
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None:
        # Alembic's own is left where everything was taken back.
        if set(inspect(connection).get_table_names()) - {"alembic_version"}:
            raise DatabaseProblem(f"{name} has tables, but none of gpuctl's; name another database")
        return None
    try:
        _scripts().get_revision(revision)
    except CommandError:
        raise DatabaseProblem(
            f"the usage database {name} was written by a later version of gpuctl (its tables are of {revision[:40]}, "
            f"the last known here is {head()}); use that version"
        ) from None
    return revision


def head() -> str:
    """The revision of this version's tables."""
    found = _scripts().get_current_head()
    assert found is not None
    return found


def migrate(connection: Connection, revision: str) -> None:
    """Change the tables, up or down, in the transaction of a connection."""
    config = _config()
    config.attributes["connection"] = connection
    # From the last to the first; what is not there yet is before all.
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
    """This version's migrations, read once."""
    return ScriptDirectory.from_config(_config())
