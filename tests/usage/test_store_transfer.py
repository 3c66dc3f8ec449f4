"""Stores copied between databases return the same answers; exported Parquet months add up and are queried safely."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from gpuctl.cli.main import run
from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.parquet_export import COLUMNS, Month, export_months
from gpuctl_usage.sql_queries import InvalidSql, run_sql
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.database_tables import metadata
from gpuctl_usage.store_transfer import TransferError, import_store
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.pages import ROOT
from support.postgresql_server import PASSWORD, PostgresqlServer
from support.usage_history import BEGIN, CLUSTERS, END, NOVEMBER, all_answers, answers_over_time, put_history

Invoke = Callable[..., str]
LATER = NOVEMBER + 50 * 86400.0


def kept(database: Database) -> dict[str, list[object]]:
    """Return every row of every table."""
    with database.reading() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in metadata.sorted_tables
            if table.name != "leases"
        }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    """A SQLite store with data at ``usage.db``."""
    found = open_database(str(tmp_path / "usage.db"), lambda: 1_793_500_000.0)
    put_history(found)
    yield found
    found.close()


@pytest.fixture
def gpuctl(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run ``gpuctl usage`` in a directory with ``usage.db``."""
    monkeypatch.chdir(tmp_path)

    def ran(*arguments: str, code: int = 0) -> str:
        found = run(["usage", *arguments])
        printed = capfd.readouterr()
        assert found == code, printed.err
        return printed.err if code else printed.out

    return ran


def test_copy_to_postgresql_and_back(store: Database, postgresql: PostgresqlServer, gpuctl: Invoke) -> None:
    """SQLite to PostgreSQL and back keeps every row with its id, and the answers."""
    url = postgresql.new_database()
    before = all_answers(store), answers_over_time(store)
    assert store.take_lease(1, store.lease(1), "somebody") is not None
    said = gpuctl("export", "copy.db", "--database", "usage.db")
    assert said == f"copy.db: {sum(map(len, kept(store).values()))} rows\n"
    assert gpuctl("import", "copy.db", "--database", url).endswith(" rows\n")
    assert gpuctl("export", "back.db", "--database", url).startswith("back.db: ")
    for address in ("copy.db", url, "back.db"):
        found = open_database(address)
        assert kept(found) == kept(store)
        assert (all_answers(found), answers_over_time(found)) == before
        assert found.lease(1).holder == "", "a copy does not contain the lease"
        # New rows get unused ids.
        other = found.put_cluster("uid-new", "new")
        rolled = RolledUp(BEGIN, 3600.0, {Group(Level.NODE, value="new"): Sums(cap_gpu_s=1.0)}, "d")
        assert found.put_rolled_up(other, rolled, False)
        assert found.rolled_up(other, BEGIN, BEGIN + 1) == [rolled]
        found.close()


def test_existing_targets_are_not_overwritten(store: Database, postgresql: PostgresqlServer, gpuctl: Invoke) -> None:
    gpuctl("export", "copy.db", "--database", "usage.db")
    before = Path("copy.db").read_bytes()
    assert "copy.db already exists" in gpuctl("export", "copy.db", "--database", "usage.db", code=3)
    assert Path("copy.db").read_bytes() == before
    said = gpuctl("import", "copy.db", "--database", "usage.db", code=3)
    assert said.startswith("error: usage.db is not empty; import into a new database")
    assert "missing.db does not exist" in gpuctl("import", "missing.db", "--database", "new.db", code=3)
    assert not Path("missing.db").exists()
    assert not Path("new.db").exists()
    url = postgresql.url("missing")
    said = gpuctl("import", "copy.db", "--database", url, code=3)
    assert "missing does not exist" in said
    assert PASSWORD not in said
    assert "cannot be opened" in gpuctl("export", "not/there.db", "--database", "usage.db", code=3)
    assert "Name either a file" in gpuctl("export", "--database", "usage.db", code=2)
    assert "No database is set" in gpuctl("export", "x.db", code=2)


def test_import_beside_a_starting_collector(store: Database, tmp_path: Path) -> None:
    """The collector's cluster may be written after the import has begun to wait for the database."""
    address = str(tmp_path / "new.db")
    open_database(address).close()
    other = sqlite3.connect(address, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO clusters (uid, name) VALUES ('uid-other', 'other')")
    with ThreadPoolExecutor() as pool:
        imported = pool.submit(import_store, tmp_path / "usage.db", address)
        time.sleep(0.5)
        other.execute("COMMIT")
        other.close()
        with pytest.raises(TransferError, match="is not empty; import into a new database"):
            imported.result()


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_failed_copy_leaves_the_target_empty(
    store: Database, postgresql: PostgresqlServer, gpuctl: Invoke, target: str
) -> None:
    """If rows cannot be copied, the target stays empty, and the next attempt starts from the beginning."""
    url = postgresql.new_database() if target == "postgresql" else "new.db"
    gpuctl("export", "copy.db", "--database", "usage.db")
    # A violated foreign key in the table that is copied last.
    with sqlite3.connect("copy.db") as connection:
        connection.execute("UPDATE snapshots SET cluster_id = 99 WHERE id = 3")
    connection.close()
    assert "cannot be used" in gpuctl("import", "copy.db", "--database", url, code=3)
    found = open_database(url)
    assert all(rows == [] for rows in kept(found).values())
    found.close()
    Path("other.db.partial").write_text("what a process left that was killed")
    gpuctl("export", "other.db", "--database", "usage.db")
    assert [name for name in os.listdir() if "partial" in name] == []


# Months as Parquet.


def test_only_sealed_months_are_exported(store: Database, tmp_path: Path) -> None:
    def export(**how: object) -> tuple[list[str], list[str], dict[str, str]]:
        found = export_months(store, tmp_path / "months", **how)  # type: ignore[arg-type]
        named = {str(month): reason for month, reason in found.open.items()}
        return [str(month) for month in found.written], [str(month) for month in found.kept], named

    provisional = {"2026-11": "hours of lab are provisional"}
    assert export(now=NOVEMBER - 1.0)[2] == {"2026-10": "it is not over", "2026-11": "it is not over"}
    assert not (tmp_path / "months").exists()
    assert export(now=LATER) == (["2026-10"], [], provisional)
    files = {path: path.read_bytes() for path in (tmp_path / "months").rglob("*.parquet")}
    assert {str(path.relative_to(tmp_path / "months")) for path in files} == {
        f"{table}/2026-10.parquet" for table in COLUMNS
    }
    assert export(now=LATER) == ([], ["2026-10"], provisional)
    # An export killed before the last file starts again and writes the same files.
    (tmp_path / "months" / "snapshot_workloads" / "2026-10.parquet").unlink()
    assert export(now=LATER) == (["2026-10"], [], provisional)
    assert {path: path.read_bytes() for path in (tmp_path / "months").rglob("*.parquet")} == files
    assert [path for path in (tmp_path / "months").rglob("*") if ".partial" in path.name] == []
    assert export(now=LATER, again=True) == (["2026-10"], [], provisional)
    # All hours of November are sealed, but the last ones are missing.
    for cluster in (1, 2):
        for rolled in store.rolled_up(cluster, NOVEMBER, NOVEMBER + 10 * HOUR):
            store.put_rolled_up(cluster, rolled, False)
    assert export(now=LATER)[2] == {"2026-11": "the last hours of lab are not rolled up"}
    assert (Month(2026, 12).next, Month(2026, 12).next.start) == (Month(2027, 1), 1_798_761_600)


def test_month_of_an_unreachable_cluster_is_not_sealed(tmp_path: Path) -> None:
    """It is added when its collector runs again, unless that has not run for two months."""
    store = open_database(str(tmp_path / "usage.db"))
    october = Month(2026, 10)
    for name, hour in (
        ("lab", october.next.start - HOUR),
        ("away", october.start - HOUR),
        ("new", LATER // HOUR * HOUR),
    ):
        cluster = store.put_cluster(name, name)
        store.put_rolled_up(cluster, RolledUp(int(hour), HOUR, {Group(Level.CLUSTER): Sums()}, name), False)
        store.put_changes(cluster, float(hour + HOUR))
    for days, reason in ((1, "the last hours of away are not rolled up"), (40, None)):
        found = export_months(store, tmp_path / "months", now=october.next.start + days * DAY)
        assert found.open.get(october) == reason
    store.close()


def test_last_month_of_a_retired_cluster_is_sealed(store: Database, tmp_path: Path) -> None:
    """Its last hour was running when its collector ended, and stays provisional."""
    november, ended = Month(2026, 11), max(store.last_seen(cluster) or 0.0 for cluster in (1, 2))
    assert november.start < ended < november.next.start - DAY
    for days, reason in ((59, "hours of lab are provisional"), (61, None)):
        found = export_months(store, tmp_path / "months", now=ended + days * DAY)
        assert found.open.get(november) == reason
    assert november in found.written


def test_months_add_up_to_the_store(store: Database, tmp_path: Path) -> None:
    """Every sum and every interval equals the store's, also with odd names."""
    export_months(store, tmp_path, unsealed=True)
    for number, cluster in enumerate(CLUSTERS, 1):
        rolled = store.rolled_up(number, BEGIN, NOVEMBER + 10 * HOUR)
        expected = sorted(
            (hour.start, group.level.value, group.key, group.value, sums.alloc_gpu_s, sums.util_max, sums.histogram)
            for hour in rolled
            for group, sums in hour.sums.items()
        )
        question = "SELECT epoch(time)::BIGINT, level, key, value, alloc_gpu_s, util_max, histogram FROM hours WHERE cluster = "
        assert sorted(run_sql(tmp_path, f"{question} '{cluster}'", 10_000).rows) == expected
        held = "SELECT sum(gpus * epoch(end_time - start_time)), count(DISTINCT pod_uid) FROM holdings WHERE cluster = "
        [(seconds, pods)] = run_sql(tmp_path, f"{held} '{cluster}'", 1).rows
        whole = [
            # An open holding counts until the collector last saw it.
            item._replace(end=END if item.end is None else item.end)
            for item in store.holdings(number, 0, 2**40)
        ]
        assert seconds == pytest.approx(sum(item.gpus * ((item.end or 0) - item.start) for item in whole))
        assert pods == len({item.pod_uid for item in whole})
    [(cells, totals)] = run_sql(
        tmp_path,
        "SELECT (SELECT sum(gpus) FROM snapshot_workloads), (SELECT sum(allocated) FROM snapshots)",
        1,
    ).rows
    assert cells == pytest.approx(totals)
    names = run_sql(tmp_path, "SELECT DISTINCT value FROM hours WHERE level = 'label' AND key = 'team' ORDER BY 1", 10)
    assert [value for (value,) in names.rows] == ['=cmd|"x"', "Nlp", "__unset__", "moved", "vision", "搜索"]


@pytest.mark.parametrize(
    ("page", "section"), [("service.md", "Months as Parquet"), ("service.zh-CN.md", "按月导出 Parquet")]
)
def test_every_column_is_documented(page: str, section: str) -> None:
    text = (ROOT / "docs" / page).read_text().partition(f"### {section}")[2].partition("\n## ")[0]
    for table, columns in COLUMNS.items():
        missing = [name for name in columns if f"`{name}`" not in text]
        assert (table, missing) == (table, [])


@pytest.mark.parametrize(
    "question",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('{directory}/../other/*.parquet')",
        "SELECT * FROM read_text('https://example.com/')",
        "COPY (SELECT 1) TO '{directory}/evil.csv'",
        "COPY hours TO '/tmp/evil.csv'",
        "CREATE TABLE evil AS SELECT 1",
        "DROP VIEW hours",
        "ATTACH '{directory}/evil.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT 1; COPY (SELECT 1) TO '{directory}/evil.csv'",
        "EXPORT DATABASE '{directory}/evil'",
        "",
    ],
)
def test_sql_is_limited_to_reading_months(months: Path, question: str) -> None:
    before = sorted(months.rglob("*"))
    with pytest.raises(InvalidSql):
        run_sql(months, question.format(directory=months), 10)
    assert sorted(months.rglob("*")) == before


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("here's")
    store = open_database(str(directory / "usage.db"))
    put_history(store)
    export_months(store, directory / "months", now=LATER)
    store.close()
    return directory / "months"


def test_sql_command(
    store: Database, months: Path, gpuctl: Invoke, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    by_team = (
        "SELECT value, count(*) AS n, sum(alloc_gpu_s) / 3600 AS hours, min(time) AS first, any_value(histogram) AS h "
        "FROM hours WHERE level = 'label' AND key = 'team' AND cluster = 'lab' GROUP BY value ORDER BY value"
    )
    where = ["--parquet", str(months)]
    listed = json.loads(gpuctl("sql", by_team, "-o", "json", *where))
    assert {row["value"] for row in listed} >= {"__unset__", "moved"}
    assert all(row["first"].startswith("2026-10-31T") and row["first"].endswith("Z") for row in listed)
    table = gpuctl("sql", by_team, *where).splitlines()
    assert table[0].split() == ["VALUE", "N", "HOURS", "FIRST", "H"]
    assert len(table) == len(listed) + 1
    # Names are untrusted: control characters and spreadsheet formulas are neutralized.
    odd = "SELECT '=1+1' AS a, chr(27) || '[2J' AS b, 'x,\"y\"' AS c, -1.5 AS d, NULL AS e, 1 AS a"
    assert gpuctl("sql", odd, "-o", "csv", *where) == 'a,b,c,d,e,a_2\n\'=1+1,,"x,""y""",-1.5,,1\n'
    assert "\x1b" not in gpuctl("sql", odd, *where)
    assert len(gpuctl("sql", "SELECT * FROM range(10)", "--limit", "3", *where).splitlines()) == 4
    assert gpuctl("sql", "SELECT 1 AS a, 2 AS b", "--limit", "0", "-o", "csv", *where) == "a,b\n"
    assert json.loads(gpuctl("sql", "SELECT 1 AS a", "--limit", "0", "-o", "json", *where)) == []
    # Who asks for no rows is not told that there are more.
    for limit, note in (("0", ""), ("1", "There are more rows than 1: --limit shows more.\n")):
        assert run(["usage", "sql", "SELECT * FROM range(10)", "--limit", limit, *where]) == 0
        assert capfd.readouterr().err == note
    # Without Parquet files: the whole database, sealed or not.
    count = "SELECT count(DISTINCT time) AS n FROM hours WHERE cluster = 'lab'"
    assert json.loads(gpuctl("sql", count, "-o", "json", "--database", "usage.db")) == [{"n": 11}]
    assert json.loads(gpuctl("sql", count, "-o", "json", *where)) == [{"n": 7}]
    assert gpuctl("export", "--parquet", "own", "--database", "usage.db").startswith(
        "2026-10: written\n2026-11: not yet: "
    )
    assert gpuctl("export", "--parquet", "own", "--database", "usage.db").startswith("2026-10: exists already")
    assert "must be a single SELECT" in gpuctl("sql", "COPY (SELECT 1) TO 'x'", *where, code=2)
    # The query is checked before anything is read.
    missing = ["--database", "missing/usage.db"]
    assert "must be a single SELECT" in gpuctl("sql", "SELECT 1; SELECT 2", *missing, code=2)
    assert "syntax error" in gpuctl("sql", "SELCT 1", *missing, code=2)
    assert "a b   c d" in gpuctl("sql", "SELECT 'a b' AS x, 'c d' AS y, 1 AS z", *where)
    zoned = "SELECT TIMESTAMPTZ '2026-10-25 08:00:00+08:00' AS t, TIMESTAMP '2026-10-25 00:00:00' AS u"
    assert json.loads(gpuctl("sql", zoned, "-o", "json", *where)) == [
        {"t": "2026-10-25T00:00:00Z", "u": "2026-10-25T00:00:00Z"}
    ]
    (now,) = json.loads(gpuctl("sql", "SELECT now() AS t", "-o", "json", *where))
    assert abs(datetime.fromisoformat(now["t"].replace("Z", "+00:00")).timestamp() - time.time()) < 600
    assert "12345-01-01" in gpuctl("sql", "SELECT TIMESTAMP '12345-01-01' AS t", *where)
    assert "has no exported months" in gpuctl("sql", "SELECT 1", "--parquet", "nothing", code=2)
    assert "Catalog Error" in gpuctl("sql", "SELECT * FROM nothing", *where, code=2)


ENDLESS = "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b"


def test_sql_timeout(months: Path, gpuctl: Invoke) -> None:
    where = ["--parquet", str(months)]
    begun = time.monotonic()
    said = gpuctl("sql", ENDLESS, "--timeout", "1s", *where, code=2)
    assert "the query took longer than 1s; raise --timeout" in said
    assert "Traceback" not in said
    assert time.monotonic() - begun >= 1
    assert "not a duration such as 90s" in gpuctl("sql", "SELECT 1", "--timeout", "soon", *where, code=2)
    # A fast query accepts any timeout.
    assert gpuctl("sql", "SELECT 1 AS a", "--timeout", "999999999h", "-o", "csv", *where) == "a\n1\n"


def test_sql_is_interrupted_by_ctrl_c(months: Path, gpuctl: Invoke) -> None:
    interrupting = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupting.start()
    assert gpuctl("sql", ENDLESS, "--parquet", str(months), code=130).strip() == "Interrupted."
    interrupting.join()
