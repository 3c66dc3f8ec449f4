"""A SQLite file of another user: with read permission alone, it can be read while a process has it open."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpuctl_usage.facts import GpuQuota
from gpuctl_usage.store.database import open_database
from gpuctl_usage.store.engines import DatabaseProblem, engine_of, url_of, write_transaction
from gpuctl_usage.store.table_migration import migrate
from support.nobody import as_nobody

KNOWN = [GpuQuota(f"team-{number}", number, 0, None) for number in range(5)]


@pytest.fixture
def path() -> Iterator[Path]:
    """Yield the path of a database in a directory that all users may enter; pytest's own directories are private."""
    directory = Path(tempfile.mkdtemp(prefix="gpuctl-test-"))
    directory.chmod(0o755)
    with closing(open_database(str(directory / "usage.db"))) as database:
        database.put_cluster("uid", "lab")
    yield directory / "usage.db"
    directory.chmod(0o755)
    shutil.rmtree(directory)


def make_read_only(path: Path) -> None:
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)


def test_file_without_a_writer(path: Path) -> None:
    make_read_only(path)

    def look() -> None:
        with pytest.raises(DatabaseProblem, match="no process has it open, and you may not write the file and its dir"):
            open_database(str(path))

    assert as_nobody(look) == 0
    # Files of another user beside it would stop the collector.
    path.parent.chmod(0o777)
    assert as_nobody(look) == 0
    assert os.listdir(path.parent) == [path.name]


def test_file_with_a_writer(path: Path) -> None:
    """Rows that are only in the write-ahead log are visible."""
    with closing(open_database(str(path))) as writer:
        writer.put_changes(1, quotas=KNOWN)
        make_read_only(path)

        def look() -> None:
            with closing(open_database(str(path))) as database:
                assert len(database.quotas(1, 0, 1)) == 5
                with pytest.raises(DatabaseProblem, match="is read-only; writing needs write access to the file and"):
                    database.put_changes(1, quotas=KNOWN)

        assert as_nobody(look) == 0


def test_file_of_an_earlier_version(path: Path) -> None:
    """An older collector has it open."""
    engine = engine_of(url_of(str(path)))
    with write_transaction(engine) as connection:
        migrate(connection, "base")
    make_read_only(path)

    def look() -> None:
        with pytest.raises(
            DatabaseProblem, match="has the tables of an older gpuctl version and is read-only; upgrade"
        ):
            open_database(str(path))

    try:
        assert as_nobody(look) == 0
    finally:
        engine.dispose()
