"""A file of SQLite in a directory of somebody else: who may only read it sees all that is in it."""

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
from gpuctl_usage.store.engines import DatabaseProblem, engine_of, migrate, url_of, write_transaction
from support.nobody import as_nobody

KNOWN = [GpuQuota(f"team-{number}", number, 0, None) for number in range(2000)]
"""More than fits on a page, and less than is moved from the log to the file before it is closed."""


@pytest.fixture
def path() -> Iterator[Path]:
    """In a directory that everybody may enter: pytest's own are private."""
    directory = Path(tempfile.mkdtemp(prefix="gpuctl-test-"))
    directory.chmod(0o755)
    with closing(open_database(str(directory / "usage.db"))) as database:
        database.cluster("uid", "lab")
    yield directory / "usage.db"
    directory.chmod(0o755)
    shutil.rmtree(directory)


def may_only_be_read(path: Path) -> None:
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)


def quotas(database: Database) -> int:
    return len(database.quotas(1, 0, 1))


def test_a_file_that_nobody_writes(path: Path) -> None:
    with closing(open_database(str(path))) as database:
        database.put_quotas(1, KNOWN)
    may_only_be_read(path)

    def look() -> None:
        with closing(open_database(str(path))) as database:
            assert quotas(database) == len(KNOWN)
            with pytest.raises(DatabaseProblem, match="is read-only; writing needs write access to the file and"):
                database.put_quotas(1, KNOWN)
        assert os.listdir(path.parent) == [path.name]

    assert as_nobody(look) == 0


def test_a_file_that_somebody_writes(path: Path) -> None:
    """What is still in the log counts; and what is written while it is open is seen by the next question."""
    with closing(open_database(str(path))) as writer:
        writer.put_quotas(1, KNOWN[:5])
        may_only_be_read(path)

        def look() -> None:
            with closing(open_database(str(path))) as database:
                assert quotas(database) == 5

        assert as_nobody(look) == 0


@pytest.mark.parametrize("closes", [True, False])
def test_a_file_that_somebody_begins_to_write(path: Path, closes: bool) -> None:
    """A question in whose midst the file was changed is not answered; the next one has the new state."""
    asked, written = os.pipe(), os.pipe()

    def write() -> None:
        os.read(asked[0], 1)
        path.parent.chmod(0o755)
        path.chmod(0o644)
        with closing(open_database(str(path))) as database:
            database.put_quotas(1, KNOWN)
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
                # All of that is in the log.
                meanwhile(database)
            assert quotas(database) == len(KNOWN)
        os.write(asked[1], b"x")

    def meanwhile(database: Database) -> None:
        with database.reading() as connection:
            found = connection.exec_driver_sql("SELECT count(*) FROM quotas").scalar_one()
            os.write(asked[1], b"x")
            os.read(written[0], 1)
            assert connection.exec_driver_sql("SELECT count(*) FROM quotas").scalar_one() == found == 0

    may_only_be_read(path)
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


def test_a_file_of_an_earlier_version(path: Path) -> None:
    engine = engine_of(url_of(str(path)))
    with write_transaction(engine) as connection:
        migrate(connection, "0001")
    engine.dispose()
    may_only_be_read(path)

    def look() -> None:
        with pytest.raises(
            DatabaseProblem, match="has the tables of an older gpuctl version and is read-only; upgrade"
        ):
            open_database(str(path))

    assert as_nobody(look) == 0
