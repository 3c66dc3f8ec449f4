"""A SQLite file in a directory of another user: with read permission alone, all committed data is visible."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from gpuctl_usage.facts import GpuQuota
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.engines import DatabaseProblem, engine_of, url_of, write_transaction
from gpuctl_usage.store.table_migration import migrate
from support.nobody import as_nobody

KNOWN = [GpuQuota(f"team-{number}", number, 0, None) for number in range(2000)]
"""More than one page holds, and less than a checkpoint moves from the log to the file."""


@pytest.fixture
def path() -> Iterator[Path]:
    """Yield the path of a database in a directory that all users may enter; pytest's own directories are private."""
    directory = Path(tempfile.mkdtemp(prefix="gpuctl-test-"))
    directory.chmod(0o755)
    with closing(open_database(str(directory / "usage.db"))) as database:
        database.cluster("uid", "lab")
    yield directory / "usage.db"
    directory.chmod(0o755)
    shutil.rmtree(directory)


def make_read_only(path: Path) -> None:
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)


def quotas(database: Database) -> int:
    return len(database.quotas(1, 0, 1))


def test_file_without_a_writer(path: Path) -> None:
    with closing(open_database(str(path))) as database:
        database.put_changes(1, quotas=KNOWN)
    make_read_only(path)

    def look() -> None:
        with closing(open_database(str(path))) as database:
            assert quotas(database) == len(KNOWN)
            with pytest.raises(DatabaseProblem, match="is read-only; writing needs write access to the file and"):
                database.put_changes(1, quotas=KNOWN)
        assert os.listdir(path.parent) == [path.name]

    assert as_nobody(look) == 0


def test_file_with_a_writer(path: Path) -> None:
    """Rows that are only in the write-ahead log are visible."""
    with closing(open_database(str(path))) as writer:
        writer.put_changes(1, quotas=KNOWN[:5])
        make_read_only(path)

        def look() -> None:
            with closing(open_database(str(path))) as database:
                assert quotas(database) == 5

        assert as_nobody(look) == 0


@pytest.mark.parametrize("closes", [True, False])
def test_file_that_is_written_during_a_query(path: Path, closes: bool) -> None:
    """A query fails if the file changes while it runs; the next query returns the new state."""
    asked, written = os.pipe(), os.pipe()

    def write() -> None:
        os.read(asked[0], 1)
        path.parent.chmod(0o755)
        path.chmod(0o644)
        with closing(open_database(str(path))) as database:
            database.put_changes(1, quotas=KNOWN)
            if closes:
                database.close()
            os.write(written[1], b"x")
            os.read(asked[0], 1)

    def look() -> None:
        with closing(open_database(str(path))) as database:
            assert quotas(database) == 0
            with database.reading() as connection:
                connection.exec_driver_sql("SELECT count(*) FROM quotas")
            if closes:
                with pytest.raises(DatabaseProblem, match="changed while it was read; try again"):
                    meanwhile(database)
            else:
                # The change is only in the log.
                meanwhile(database)
            assert quotas(database) == len(KNOWN)
        os.write(asked[1], b"x")

    def meanwhile(database: Database) -> None:
        with database.reading() as connection:
            found = connection.exec_driver_sql("SELECT count(*) FROM quotas").scalar_one()
            os.write(asked[1], b"x")
            os.read(written[0], 1)
            assert connection.exec_driver_sql("SELECT count(*) FROM quotas").scalar_one() == found == 0

    make_read_only(path)
    writer = Thread(target=write)
    writer.start()
    try:
        assert as_nobody(look) == 0
    finally:
        for end in (asked[1], written[1]):
            os.write(end, b"xx")
        writer.join()
        for end in (*asked, *written):
            os.close(end)


def test_file_of_an_earlier_version(path: Path) -> None:
    open_database(str(path)).close()
    engine = engine_of(url_of(str(path)))
    with write_transaction(engine) as connection:
        migrate(connection, "base")
    engine.dispose()
    make_read_only(path)

    def look() -> None:
        with pytest.raises(
            DatabaseProblem, match="has the tables of an older gpuctl version and is read-only; upgrade"
        ):
            open_database(str(path))

    assert as_nobody(look) == 0
