"""The usage database on SQLite and PostgreSQL: rows read equal the rows written, also if processes are killed."""

from __future__ import annotations

import itertools
import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event, insert, inspect, select

from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, label_hours, namespace_hours, rows_of
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.query_scope import Cursor, Paging
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import (
    AllocationSnapshot,
    Capacity,
    CapacityState,
    EndReason,
    GpuQuota,
    Holding,
    WorkloadAllocation,
    WorkloadKey,
)
from gpuctl_usage.store import intervals
from gpuctl_usage.store.allocation_snapshots import latest_snapshot
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.database_tables import holdings, metadata, periods, sums
from gpuctl_usage.store.engines import DatabaseProblem, engine_of, url_of, write_transaction
from gpuctl_usage.store.hours import PeriodLength, WorkloadStatus
from gpuctl_usage.store.packing import (
    PAIR_BITS,
    InvalidPackedData,
    pack_histogram,
    pack_ids,
    pack_triples,
    unpack_histogram,
    unpack_ids,
    unpack_pairs,
    unpack_runs,
    unpack_triples,
)
from gpuctl_usage.store.surrogate_keys import group_ids
from gpuctl_usage.store.table_migration import head, migrate, prepare
from gpuctl_usage.store.usage_queries import RowOrder, RowQuery, UsageRow
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.postgresql_server import PostgresqlServer, dumped
from support.usage_history import BEGIN, END, all_answers, answers_over_time, put_history
from support.usage_script import UsageScript

HOUR = 3600
BERT = WorkloadKey("ml", "Job", "bert", "uid-bert")
WHOLE = Group(Level.CLUSTER)


class Clock:
    """A clock that returns a fixed time."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(address: str, clock: Clock) -> Iterator[Database]:
    found = open_database(address, clock)
    yield found
    found.close()


@pytest.fixture
def in_file(path: Path, clock: Clock) -> Iterator[Database]:
    found = open_database(str(path), clock)
    yield found
    found.close()


@pytest.fixture
def cluster(database: Database) -> int:
    return database.put_cluster("uid-1", "cluster-1")


def holding(pod: str = "p1", **changes: object) -> Holding:
    found = Holding(pod, "ml", f"{pod}-name", BERT, "n1", 8.0, "A100", {"team": "a"}, {"cc": "1"}, 100.0, 110.0, None)
    return found._replace(**changes)


def group_of(key: WorkloadKey) -> Group:
    return Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid)


def hour(start: int = 0, digest: str = "d", **more: Sums) -> RolledUp:
    """Return an hour with sums of the cluster, a node and the named workloads."""
    sums = {WHOLE: Sums(alloc_gpu_s=7200.5, cap_gpu_s=28800, obs_gpu_s=3600, util_gpu_s=1e5 / 3, buckets=12)}
    sums[WHOLE].by_process_gpu_s, sums[WHOLE].beyond_gpu_s = 1.5, 1 / 3
    sums[Group(Level.NODE, value="n1")] = Sums(cap_gpu_s=28800, free_gpu_s=21599.5, histogram={0: 60})
    for name, value in more.items():
        sums[group_of(WorkloadKey("ml", "Job", name, f"uid-{name}"))] = value
    return RolledUp(start, 3600.0, sums, digest, dropped=3)


def rows(
    database: Database, cluster: int, level: Level, step: StepUnit = StepUnit.HOUR, **asked: Any
) -> list[UsageRow]:
    with database.reading() as connection:
        query = RowQuery(cluster, level, **asked)
        return rows_of(connection, HoursQuery("", 0, 1e10, step=step), query).find(1000)


# Rows read equal the rows written.


def test_intervals_are_read_as_written(database: Database, cluster: int) -> None:
    one, other = (
        holding(),
        holding("p2", workload=BERT._replace(name="b/c", uid=""), labels={}, started=None, start=150.5),
    )
    database.put_changes(cluster, 200.0, holdings=[one, other])
    assert database.open_holdings(cluster) == [one, other]
    ended = one._replace(end=300.0, ending=EndReason.FINISHED)
    database.put_changes(cluster, 300.0, holdings=[ended])
    assert database.open_holdings(cluster) == [other]
    # Half-open: an interval that ends at the start, or begins at the end, is not in the range.
    assert database.holdings(cluster, 0, 100) == []
    assert database.holdings(cluster, 299, 300) == [ended, other]
    assert database.holdings(cluster, 300, 400) == [other]
    # Another interval of the same pod is a new row.
    again = ended._replace(start=300.0, end=None, ending=None, labels={"team": "b"})
    database.put_changes(cluster, 310.0, holdings=[again])
    assert database.open_holdings(cluster) == [other, again]
    capacity = Capacity("n1", "A100", 8.0, CapacityState.READY, 50.0, None)
    database.put_changes(cluster, 320.0, capacities=[capacity])
    assert database.open_capacities(cluster) == [capacity]
    changed = [capacity._replace(end=60.0), capacity._replace(start=60.0, state=CapacityState.NOT_READY, gpus=7.5)]
    database.put_changes(cluster, 330.0, capacities=changed)
    assert database.capacities(cluster, 0, 100) == changed
    assert database.capacities(cluster, 60, 61) == changed[1:]
    database.put_changes(cluster, 341.0)
    quotas = [GpuQuota("a", 8.0, 60.0, 70.0), GpuQuota("a", 0.0, 70.0, None), GpuQuota("b", 0.5, 65.0, None)]
    database.put_changes(cluster, quotas=[quotas[0]._replace(end=None), quotas[2]])
    database.put_changes(cluster, quotas=quotas[:2])
    assert database.open_quotas(cluster) == quotas[1:]
    assert database.quotas(cluster, 0, 70) == [quotas[0], quotas[2]]
    assert database.quotas(cluster, 70, 80) == quotas[1:]
    assert database.quotas(cluster + 1, 0, 100) == []
    # Quotas do not change the last seen time.
    assert database.last_seen(cluster) == 341.0


def test_names_of_clusters_are_unique(database: Database) -> None:
    """The second cluster of a name gets part of its uid as suffix, in every later call as well. A name that becomes
    free is used.
    """
    named = [("uid-1-aaaa", "default"), ("uid-2-bbbb", "default"), ("uid-2-b-long", "default"), ("uid-3", "prod")]
    for _ in range(2):
        numbers = [database.put_cluster(uid, name) for uid, name in named]
        assert [database.cluster_name(number) for number in numbers] == [
            "default",
            "default-uid-2-bb",
            "default-uid-2-b-",
            "prod",
        ]
    database.put_cluster("uid-1-aaaa", "first")
    assert database.cluster_name(database.put_cluster("uid-2-bbbb", "default")) == "default"
    assert database.cluster_name(database.put_cluster("uid-3", "default")) == "default-uid-3"


def test_clusters_are_separate(database: Database, cluster: int) -> None:
    other = database.put_cluster("uid-2", "cluster-2")
    assert other != cluster
    assert database.last_seen(other) is None
    database.put_changes(cluster, 1.0, holdings=[holding()])
    database.put_rolled_up(cluster, hour(), False)
    assert (database.open_holdings(other), database.hours(other, 0, HOUR), database.last_seen(other)) == ([], {}, None)
    # The uid identifies a cluster; its name may change.
    assert database.put_cluster("uid-1", "renamed") == cluster
    assert database.cluster_name(cluster) == "renamed"
    # The last seen time never decreases.
    database.put_changes(cluster, 50.0)
    database.put_changes(cluster, 40.0)
    assert database.last_seen(cluster) == 50.0
    assert database.quotas_seen(cluster) is None
    for moment in (20.0, 30.0, 10.0):
        database.put_changes(cluster, quotas_seen=moment)
    assert (database.quotas_seen(cluster), database.last_seen(cluster)) == (30.0, 50.0)


def test_open_intervals_are_found_by_index(in_file: Database) -> None:
    """SQLite has no statistics of open rows, so the query must name the index column."""
    with in_file.reading() as connection:
        lasting = select(holdings.c.gpus).where(holdings.c.cluster_id == 1, intervals.open_ones(connection, holdings))
        text = lasting.compile(connection, compile_kwargs={"literal_binds": True})
        plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
    assert plan == ["SEARCH holdings USING INDEX ix_holdings_cluster_id_ended (cluster_id=? AND ended=?)"]


def test_hour_is_replaced_as_a_whole(database: Database, cluster: int, clock: Clock) -> None:
    first = hour(a=Sums(alloc_gpu_s=1.25, util_min=0.0, util_max=99.999), b=Sums(alloc_gpu_s=2))
    assert database.put_rolled_up(cluster, first, provisional=True)
    (before,) = rows(database, cluster, Level.WORKLOAD, name="a")
    (read,) = database.rolled_up(cluster, 0, HOUR)
    group = Group(Level.WORKLOAD, "ml/Job/a", "uid-a")
    # Minimum and maximum are stored rounded, as answers show them.
    assert read == replace(first, sums={**first.sums, group: Sums(alloc_gpu_s=1.25, util_min=0.0, util_max=100.0)})
    clock.now += 60
    second = replace(hour(digest="e", a=Sums(alloc_gpu_s=5), c=Sums(alloc_gpu_s=7)), seconds=1800.0)
    assert database.put_rolled_up(cluster, second, provisional=True)
    assert database.rolled_up(cluster, 0, HOUR) == [second]
    after, _ = rows(database, cluster, Level.WORKLOAD)
    assert (after.id, after.created_at) == (before.id, before.created_at)
    assert after.id < 2**53
    assert (after.updated_at, after.seconds, after.sums.alloc_gpu_s) == (before.updated_at + 60, 1800.0, 5)


def test_unchanged_hour_is_not_written(database: Database, cluster: int, clock: Clock, address: str) -> None:
    database.put_rolled_up(cluster, hour(), provisional=True)
    clock.now += 60
    before = dump_database(address)
    assert not database.put_rolled_up(cluster, hour(), provisional=True)
    assert dump_database(address) == before
    assert not database.put_rolled_up(cluster, hour(), provisional=False)
    (state,) = database.hours(cluster, 0, HOUR).values()
    assert (state.provisional, state.digest, state.coverage, state.seconds) == (False, "d", 3600 / 7200.5, 3600.0)
    # Half-open, and a day is not an hour.
    assert database.hours(cluster, -HOUR, 0) == {}
    assert database.put_rolled_up(cluster, replace(hour(), seconds=86400.0), False, PeriodLength.DAY)
    assert list(database.hours(cluster, 0, HOUR, PeriodLength.DAY)) == [0]
    assert [item.seconds for item in database.rolled_up(cluster, 0, HOUR)] == [3600.0]


def test_workloads_have_the_labels_and_status_of_their_pods(database: Database, cluster: int) -> None:
    def of(name: str) -> WorkloadKey:
        return BERT._replace(name=name, uid=f"uid-{name}")

    database.put_changes(
        cluster,
        5000.0,
        holdings=[
            holding("1", workload=of("runs"), labels={"team": "before"}, end=1000.0, ending=EndReason.CHANGED),
            holding("1", workload=of("runs"), labels={"team": "after"}, start=1000.0),
            holding("2", workload=of("waits"), started=None),
            holding("3", workload=of("ended"), end=2000.0, ending=EndReason.FINISHED),
            # One pod is pending and one has finished.
            holding("4", workload=of("both"), end=2000.0, ending=EndReason.FINISHED),
            holding("5", workload=of("both"), started=None, start=2000.0),
            # Until the end of the hour.
            holding("6", workload=of("runs-out"), end=3600.0, ending=EndReason.FINISHED),
            # Starts after the hour.
            holding("7", workload=of("unknown"), start=4000.0),
        ],
    )
    names = ("runs", "waits", "ended", "both", "runs-out", "unknown")
    database.put_rolled_up(cluster, hour(**{name: Sums(alloc_gpu_s=1, running_gpu_s=1) for name in names}), False)
    found = {row.group.key.rpartition("/")[2]: row for row in rows(database, cluster, Level.WORKLOAD)}
    assert {name: row.status for name, row in found.items()} == {
        "runs": WorkloadStatus.RUNNING,
        "waits": WorkloadStatus.PENDING,
        "ended": WorkloadStatus.FINISHED,
        "both": WorkloadStatus.PENDING,
        "runs-out": WorkloadStatus.RUNNING,
        "unknown": WorkloadStatus.RUNNING,
    }
    assert (found["runs"].labels, found["runs"].annotations) == ({"team": "after"}, {"cc": "1"})
    assert (found["unknown"].labels, found["unknown"].annotations) == ({}, {})


def test_workloads_of_a_partly_known_day(database: Database, cluster: int) -> None:
    """A day whose collecting began in the evening still covers its calendar day."""
    evening, later = 20 * 3600.0, 22 * 3600.0
    database.put_changes(
        cluster,
        24 * 3600.0,
        holdings=[
            holding(
                "1", start=evening, started=evening, end=later, labels={"team": "before"}, ending=EndReason.CHANGED
            ),
            holding("1", start=later, started=evening, end=later + 60, labels={"team": "b"}, ending=EndReason.FINISHED),
        ],
    )
    day = replace(hour(bert=Sums(alloc_gpu_s=1, running_gpu_s=1)), seconds=4 * 3600.0)
    database.put_rolled_up(cluster, day, False, PeriodLength.DAY)
    [row] = rows(database, cluster, Level.WORKLOAD, StepUnit.DAY)
    assert (row.labels, row.status) == ({"team": "b"}, WorkloadStatus.FINISHED)


def test_snapshots_are_read_as_written(database: Database, cluster: int, clock: Clock) -> None:
    held = (WorkloadAllocation(BERT, 8.0, 85.333), WorkloadAllocation(BERT._replace(name="b", uid="x"), 0.25, None))
    database.put_changes(cluster, snapshots=[AllocationSnapshot(300.0, 128.0, 8.25, held)])
    with database.reading() as connection:
        first = latest_snapshot(connection, cluster)
    assert first is not None
    assert (first.created_at, first.has_details) == (clock.now, True)
    assert first.snapshot == AllocationSnapshot(300.0, 128.0, 8.25, (held[0]._replace(utilization=85.33), held[1]))
    # A snapshot of the same time replaces the first one; an empty list of workloads is known, not missing.
    database.put_changes(cluster, snapshots=[AllocationSnapshot(300.0, 128.0, 0.0, ())])
    with database.reading() as connection:
        second = latest_snapshot(connection, cluster)
    assert second is not None
    assert (second.id, second.has_details, second.snapshot.workloads) == (first.id, True, ())


def test_row_orders(database: Database, cluster: int) -> None:
    """Unknown values come last in both directions; ties are ordered by hour and then name in both directions."""
    for start in (HOUR, 0):
        half = Sums(alloc_gpu_s=HOUR, obs_gpu_s=10, util_gpu_s=500)
        low = Sums(alloc_gpu_s=2 * HOUR, obs_gpu_s=10, util_gpu_s=10)
        database.put_rolled_up(cluster, hour(start, x=half, c=Sums(alloc_gpu_s=1), b=half, a=low), False)

    def names(order: RowOrder, ascending: bool) -> str:
        found = rows(database, cluster, Level.WORKLOAD, order=order, ascending=ascending)
        return " ".join(f"{row.group.key[-1]}{row.start // HOUR}" for row in found)

    assert names(RowOrder.UTILIZATION, True) == "a0 a1 b0 x0 b1 x1 c0 c1"
    assert names(RowOrder.UTILIZATION, False) == "b0 x0 b1 x1 a0 a1 c0 c1"
    assert names(RowOrder.ALLOCATED, True) == "c0 c1 b0 x0 b1 x1 a0 a1"
    assert names(RowOrder.ALLOCATED, False) == "a0 a1 b0 x0 b1 x1 c0 c1"
    assert names(RowOrder.TIME, True) == "a0 b0 c0 x0 a1 b1 c1 x1"
    assert names(RowOrder.TIME, False) == "a1 b1 c1 x1 a0 b0 c0 x0"


@pytest.mark.parametrize("level", [Level.WORKLOAD, Level.NAMESPACE])
@pytest.mark.parametrize("ascending", [True, False])
def test_every_page_is_part_of_the_full_answer(database: Database, cluster: int, level: Level, ascending: bool) -> None:
    """Some hours are empty, one is missing, and one group is excluded."""
    for start, size in ((0, 3), (HOUR, 0), (2 * HOUR, 1), (4 * HOUR, 4)):
        names = [("", f"n{n}") if level is Level.NAMESPACE else (f"n{n}/Job/j", "u") for n in range(size)]
        held = {Group(level, *name): Sums(alloc_gpu_s=1) for name in names}
        database.put_rolled_up(cluster, RolledUp(start, 3600.0, held, f"d{start}"), False)
    asked = RowQuery(cluster, level, excluded=["n1"], ascending=ascending)
    with database.reading() as connection:
        found = rows_of(connection, HoursQuery("", 0, 5 * HOUR), asked)
        whole = found.find(100)
        assert [row.start for row in whole] == sorted([0, 0, 2 * HOUR, *[4 * HOUR] * 3], reverse=not ascending)
        assert found.count() == 6
        for limit, offset in itertools.product(range(1, 8), range(8)):
            page = rows_of(connection, HoursQuery("", 0, 5 * HOUR), asked).find(limit, offset)
            assert page == whole[offset : offset + limit]


def test_hours_before_a_key_was_collected_are_unset(database: Database, cluster: int) -> None:
    """The values of a label add up to the cluster's sums in these hours too."""
    held = Sums(alloc_gpu_s=2 * HOUR, pods_max=1)
    database.put_rolled_up(cluster, RolledUp(0, 3600.0, {WHOLE: held}, "d"), False)
    later = {WHOLE: held, Group(Level.LABEL, "team", "a"): held, Group(Level.LABEL, "team", "__unset__"): Sums()}
    database.put_rolled_up(cluster, RolledUp(HOUR, 3600.0, later, "e"), False)
    found = label_hours(database, HoursQuery("", 0, 2 * HOUR), Level.LABEL, "team")
    assert [(row["stat_hour"], row["dimension_value"], row["allocated_gpu_count"]) for row in found] == [
        ("1970-01-01T00:00:00Z", "__unset__", 2),
        ("1970-01-01T01:00:00Z", "__unset__", 0),
        ("1970-01-01T01:00:00Z", "a", 2),
    ]


@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_more_hours_than_statement_parameters(database: Database, cluster: int) -> None:
    """No day is final. SQLite allows 32,766 parameters by default, PostgreSQL 65,535."""
    count = 1 << 16
    held = Group(Level.CLUSTER), Group(Level.NAMESPACE, value="ml"), Group(Level.LABEL, "team", "__unset__")
    rolled = RolledUp(0, 3600.0, {group: Sums(alloc_gpu_s=8, pods_max=1) for group in held}, "d")
    database.put_rolled_up(cluster, rolled, False)
    with database._writing() as connection:
        for turn in range(16):
            # Copy all rows to later hours.
            later = {"id": 1 << turn, "period_id": 1 << turn, "start": HOUR << turn}
            for table in (periods, sums):
                moved = [column + later[column.name] if column.name in later else column for column in table.c]
                connection.execute(insert(table).from_select(list(table.c.keys()), select(*moved)))
    hours = HoursQuery("", 0, count * HOUR, step=StepUnit.TOTAL)
    for answer in (
        cluster_hours(database, hours),
        namespace_hours(database, hours),
        label_hours(database, hours, Level.LABEL, "team"),
    ):
        assert [row["allocated_gpu_count"] for row in answer] == [round(8 / HOUR, 2)]


@pytest.mark.parametrize("level", [Level.WORKLOAD, Level.LABEL])
@pytest.mark.parametrize("order", [RowOrder.TIME, RowOrder.UTILIZATION, RowOrder.ALLOCATED])
def test_pages_of_many_groups_are_complete_and_ordered(
    database: Database, cluster: int, level: Level, order: RowOrder
) -> None:
    """With page numbers and with cursors, each group of a step is returned once and in order; the same with filters."""
    # Half of the groups have equal utilization, a few are unmeasured; the second hour has every second group.
    used = {f"g{number:04}": None if number % 50 == 7 else number // 2 % 2 * number for number in range(1300)}
    for turn in range(2):
        part = list(used)[turn::2] if turn else list(used)
        sums = {
            Group(level, *(("team", name) if level is Level.LABEL else (f"n{name[-1]}/Job/{name}", "u"))): Sums(
                alloc_gpu_s=100, obs_gpu_s=0 if used[name] is None else 10, util_gpu_s=used[name] or 0
            )
            for name in part
        }
        database.put_rolled_up(cluster, RolledUp(turn * HOUR, 3600.0, sums, f"d{turn}"), False)
    hours = HoursQuery("", 0, 2 * HOUR, step=StepUnit.TOTAL)

    def asked(**more: Any) -> Any:
        return ledger(database, replace(hours, **more), level, "team", order=order)

    def name(row: dict[str, Any]) -> str:
        return str(row["name"] if level is Level.WORKLOAD else row["value"])

    def place(name: str) -> tuple[Any, ...]:
        alike = (f"n{name[-1]}", name) if level is Level.WORKLOAD else (name,)
        twice = int(name[1:]) % 2 and order is RowOrder.ALLOCATED
        by_use = (used[name] is None, used[name] or 0) if order is RowOrder.UTILIZATION else ()
        return (*by_use, twice, *alike)

    expected = sorted(used, key=place)
    pages = [asked(paging=Paging(page, 500)) for page in (1, 2, 3)]
    assert {page["total"] for page in pages} == {1300}
    assert [name(row) for page in pages for row in page["data"]] == expected
    after, found = "", []
    while after is not None:
        some = asked(paging=Cursor(after, 450))
        found, after = found + [name(row) for row in some["data"]], some["next_cursor"]
    assert found == expected
    if level is Level.WORKLOAD:
        page = asked(paging=Paging(1, 5), excluded=["n3"])
        assert (page["total"], [name(row) for row in page["data"]]) == (
            1170,
            [one for one in expected if one[-1] != "3"][:5],
        )
        page = asked(paging=Paging(1, 5), namespaces=["n3"])
        assert (page["total"], [name(row) for row in page["data"]]) == (
            130,
            [one for one in expected if one[-1] == "3"][:5],
        )


# Packed columns.

HISTOGRAMS = st.dictionaries(st.integers(0, 100), st.integers(1, 10**6), max_size=101)


@given(HISTOGRAMS)
@settings(max_examples=100)
def test_packed_histograms_round_trip(histogram: dict[int, int]) -> None:
    packed = pack_histogram(histogram)
    assert packed is not None
    assert unpack_histogram(packed) == histogram


def test_packed_histogram_of_an_hour_is_small() -> None:
    generator = random.Random(1)
    steady: dict[int, int] = {}
    for _ in range(60):
        number = min(100, max(0, round(generator.gauss(70, 5))))
        steady[number] = steady.get(number, 0) + 1
    packed = pack_histogram(steady)
    assert packed is not None
    assert len(packed) <= 16
    assert pack_histogram({0: 30, 100: 30}) is not None
    assert len(pack_histogram({0: 30, 100: 30}) or b"") <= 6
    assert (pack_histogram(None), unpack_histogram(None)) == (None, None)
    assert unpack_histogram(pack_histogram({50: 0})) == {}


def test_packed_triples_are_grouped_by_namespace() -> None:
    triples = {(5, 1, 9), (4, 2, 8), (2**31 - 1, 3, 9), (7, 2, 8), (3, 1, 9)}
    workloads, said, namespaces = unpack_triples(pack_triples(triples))
    assert list(workloads) == [4, 7, 3, 5, 2**31 - 1]
    assert list(namespaces) == [8, 8, 9, 9, 9]
    assert set(zip(workloads, said, namespaces, strict=True)) == triples
    assert [len(column) for column in unpack_triples(pack_triples([]))] == [0, 0, 0]
    runs = [(namespace, list(theirs)) for namespace, theirs in unpack_runs(pack_triples(triples))]
    assert runs == [(8, [4, 7]), (9, [3, 5, 2**31 - 1])]
    assert list(unpack_runs(pack_triples([]))) == []


@pytest.mark.parametrize("largest", [7, 2**31 - 1])
def test_pairs_of_ids_are_packed_into_one_number(largest: int) -> None:
    packed = pack_triples([(largest, 1, 9), (4, 3, 8)])
    assert set(unpack_pairs(packed)) == {1 << PAIR_BITS | largest, 3 << PAIR_BITS | 4}
    assert list(unpack_pairs(b"")) == []
    with pytest.raises(InvalidPackedData):
        unpack_pairs(pack_ids([3]))


@pytest.mark.parametrize("largest", [7, 2**31 - 1])
def test_packed_ids_round_trip(largest: int) -> None:
    ids = [3, largest, 5]
    assert list(unpack_ids(pack_ids(ids))) == sorted(ids)
    workloads, said, namespaces = unpack_triples(pack_triples([(largest, 1, 9), (4, largest, 8)]))
    assert list(zip(workloads, said, namespaces, strict=True)) == [(4, largest, 8), (largest, 1, 9)]
    with pytest.raises(InvalidPackedData):
        unpack_ids(b"\x04nonsense")


def test_groups_are_distinguished_by_their_whole_name(address: str) -> None:
    odd = [
        "",
        'a"b',
        "a\\b",
        "[1]",
        "1",
        "1.0",
        "null",
        "true",
        "\u7814\u7a76\U0001f600",
        "a\nb\x01\x7f\u2028",
        "A",
        "a",
    ]
    names = [(Level.LABEL, key, value) for key in odd for value in odd]
    names += [(Level.ANNOTATION, *names[5][1:]), (Level.WORKLOAD, "ml/Job/a", "u"), (Level.WORKLOAD, "ml/Job/a", "v")]
    wanted = [Group(*name) for name in names]
    database = open_database(address)
    one, other = database.put_cluster("uid-1", "lab"), database.put_cluster("uid-2", "den")
    with database._writing() as connection:
        first = group_ids(connection, one, wanted[::2])
        found = group_ids(connection, one, wanted)
        elsewhere = group_ids(connection, other, wanted)
    assert set(found) == set(elsewhere) == set(wanted)
    assert len({*found.values(), *elsewhere.values()}) == 2 * len(wanted)
    assert {group: found[group] for group in first} == first
    database.close()


# Tables and migrations.


def dump_database(address: str) -> list[str]:
    """Return the whole database as SQL statements."""
    if "://" in address:
        return dumped(address)
    connection = sqlite3.connect(address)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_migrated_tables_equal_the_metadata(database: Database) -> None:
    with database.reading() as reading:
        assert compare_metadata(MigrationContext.configure(reading), metadata) == []


def test_sqlite_settings_of_a_new_file(in_file: Database, path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with in_file.reading() as reading:
        assert reading.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
    connection.close()


def migrated(address: str, revision: str) -> None:
    engine = engine_of(url_of(address))
    try:
        with write_transaction(engine) as connection:
            migrate(connection, revision)
            found = MigrationContext.configure(connection).get_current_revision()
            assert found == {"base": None, "head": head()}.get(revision, revision)
            if revision == "base":
                assert inspect(connection).get_table_names() == ["alembic_version"]
    finally:
        engine.dispose()


def test_migrations_up_and_down(address: str) -> None:
    open_database(address).close()
    before = dump_database(address)
    migrated(address, "base")
    migrated(address, "head")
    assert dump_database(address) == before
    # Opening a database upgrades it to the latest revision.
    migrated(address, "base")
    open_database(address).close()
    assert dump_database(address) == before


def test_both_engines_return_the_same_answers(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    """All digits are equal, and so is the order: by bytes, whatever the locale of the server."""
    answers, kept = [], []
    for address in (str(tmp_path / "usage.db"), postgresql.new_database()):
        database = open_database(address, Clock())
        put_history(database)
        answers.append(json.dumps({**all_answers(database), **answers_over_time(database)}))
        kept.append(
            [(database.rolled_up(number, BEGIN, END), database.holdings(number, BEGIN, END)) for number in (1, 2)]
        )
        database.close()
    assert answers[0] == answers[1]
    assert kept[0] == kept[1]
    assert json.loads(answers[0])["lab/namespaces"] == ["Serving", "ml"]


def test_newer_version_is_rejected(address: str) -> None:
    open_database(address).close()
    engine = engine_of(url_of(address))
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(DatabaseProblem, match=r"written by a newer gpuctl version \(tables 9999"):
        open_database(address)


def test_file_of_another_program_is_rejected_and_unchanged(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseProblem, match="belongs to another program; name another file"):
        open_database(str(path))
    assert path.read_bytes() == before
    text = path.with_name("notes.txt")
    text.write_text("no database " * 100)
    with pytest.raises(DatabaseProblem, match="is not an SQLite database, or is corrupt"):
        open_database(str(text))
    assert text.read_text() == "no database " * 100


def test_corrupt_file_is_reported(in_file: Database, path: Path) -> None:
    cluster = in_file.put_cluster("uid-1", "cluster-1")
    for number in range(20):
        many = {f"w{item}": Sums(alloc_gpu_s=item + 0.1) for item in range(50)}
        in_file.put_rolled_up(cluster, hour(number * HOUR, **many), False)
    in_file.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        # The first page has the names of the tables; their rows come later.
        file.seek(size // 4)
        file.write(os.urandom(size // 2))
    with pytest.raises(DatabaseProblem, match="is corrupt; move it away and restore a backup"):
        open_database(str(path)).rolled_up(cluster, 0, 20 * HOUR)
    with path.open("r+b") as file:
        file.truncate(size // 3)
    with pytest.raises(DatabaseProblem, match="corrupt"):
        open_database(str(path)).rolled_up(cluster, 0, 20 * HOUR)


def test_file_opened_read_only(in_file: Database, path: Path) -> None:
    cluster = in_file.put_cluster("uid-1", "cluster-1")
    in_file.put_rolled_up(cluster, hour(), False)
    only = open_database(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert list(only.hours(cluster, 0, HOUR)) == [0]
    with pytest.raises(DatabaseProblem, match="is read-only; writing needs write access"):
        only.put_rolled_up(cluster, hour(HOUR), False)
    only.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://root:secret@db/usage", "usage databases of mysql are not supported; use sqlite or postgresql"),
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("/not/there/usage.db", "cannot be opened; its directory must exist"),
        ("no://such://thing", "or a URL|not supported"),
    ],
)
def test_invalid_addresses_are_rejected(address: str, message: str) -> None:
    with pytest.raises(DatabaseProblem, match=message) as raised:
        open_database(address)
    assert "secret" not in str(raised.value)


# Concurrent and killed processes.

WRITER = """
import sys, time
from gpuctl_usage.store.database import open_database
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
address, name = sys.argv[1:]
database = open_database(address)
cluster = database.put_cluster("uid-1", "cluster-1")
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    # Every row of an hour tells of the turn that wrote it.
    start = turn % 3 * 3600
    sums = {Group(Level.WORKLOAD, f"ml/Job/w{n}", "u"): Sums(alloc_gpu_s=turn) for n in range(40 + turn % 40)}
    sums[Group(Level.CLUSTER)] = Sums(alloc_gpu_s=turn, workloads=40 + turn % 40)
    database.put_rolled_up(cluster, RolledUp(start, 3600.0, sums, f"{name}-{turn}"), False)
    print(start, turn, flush=True)
"""


def turns_of_complete_hours(database: Database, cluster: int) -> dict[int, float]:
    """Return start -> the writer's turn, and check that each hour is complete."""
    found = {}
    for item in database.rolled_up(cluster, 0, 3 * HOUR):
        turn = item.sums[WHOLE].alloc_gpu_s
        assert {sums.alloc_gpu_s for sums in item.sums.values()} == {turn}
        assert len(item.sums) == item.sums[WHOLE].workloads + 1
        assert item.digest.endswith(f"-{turn:g}")
        found[item.start] = turn
    return found


@pytest.mark.slow
def test_killed_writer_leaves_complete_hours(address: str) -> None:
    """Also if it is killed while it creates the tables. Every hour that it reported as written exists."""
    generator = random.Random(7)
    # With SQLite every process locks and opens the file itself, so it is killed more often than with a server.
    for kill in range(3 if "://" in address else 6):
        writer = UsageScript(WRITER, address, str(kill))
        if kill:
            assert writer.lines.readline() == "ready\n"
        # The first writer is killed during its start.
        time.sleep(generator.uniform(0.0, 0.4))
        said = [line.split() for line in writer.kill() if line != "ready"]
        database = open_database(address)
        cluster = database.put_cluster("uid-1", "cluster-1")
        turns = turns_of_complete_hours(database, cluster)
        for start, turn in {int(start): int(turn) for start, turn in (line for line in said if len(line) == 2)}.items():
            # The writer may be killed between the write and its output.
            assert turns[start] in (turn, turn + 3)
        if "://" not in address:
            with database.reading() as connection:
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
                assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        database.close()


@pytest.mark.slow
def test_concurrent_writers_and_a_reader(address: str) -> None:
    """Both writers also start with an empty database."""
    writers = [UsageScript(WRITER, address, name) for name in ("one", "other")]
    try:
        for writer in writers:
            assert writer.lines.readline() == "ready\n"
            for _ in range(5):
                assert writer.lines.readline()
        database = open_database(address)
        cluster = database.put_cluster("uid-1", "cluster-1")
        for _ in range(20):
            turns_of_complete_hours(database, cluster)
        database.close()
        assert [writer.process.poll() for writer in writers] == [None, None]
    finally:
        for writer in writers:
            writer.kill()


def test_file_created_by_two_processes(path: Path) -> None:
    """SQLite's busy timeout does not cover the switch to a write-ahead log: the second process has to retry."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ends = threading.Timer(0.3, other.execute, ("COMMIT",))

    def come_between(statement: str) -> None:
        if statement.startswith("PRAGMA journal_mode") and ends.ident is None:
            other.execute("BEGIN IMMEDIATE")
            ends.start()

    engine = engine_of(url_of(str(path)))
    event.listen(engine, "connect", lambda connection, _: connection.set_trace_callback(come_between))
    prepare(engine, "usage.db")
    ends.join()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    engine.dispose()
    other.close()


def test_threads_share_a_database(database: Database, cluster: int) -> None:
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                database.put_rolled_up(cluster, hour(number * HOUR, digest=str(turn), a=Sums(alloc_gpu_s=turn)), False)
                database.put_changes(cluster, float(turn), holdings=[holding(f"p{number}", start=float(turn))])
                database.rolled_up(cluster, 0, 10 * HOUR)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {row.sums.alloc_gpu_s for row in rows(database, cluster, Level.WORKLOAD)} == {9}
    assert len(database.open_holdings(cluster)) == 40


# Size of the database.

YEAR = 6_000_000_000 / (365 * 24)
"""Bytes an hour may take if a year takes 6 GB."""


def large_hour(start: int, generator: random.Random) -> RolledUp:
    """Return an hour of 10,000 GPUs on 1,250 nodes: 1,000 workloads, 250 label values, 50 namespaces."""

    def sums(gpus: int) -> Sums:
        mean, held = generator.uniform(5, 95), gpus * 3600.0 * (1 if generator.random() < 0.8 else generator.random())
        histogram: dict[int, int] = {}
        for _ in range(60):
            number = min(100, max(0, round(generator.gauss(mean, 5))))
            histogram[number] = histogram.get(number, 0) + 1
        seen = held * (1 if generator.random() < 0.7 else generator.uniform(0.9, 1))
        used = {"memory_obs_gpu_s": seen, "memory_used_gpu_s": seen * generator.uniform(5, 75), "memory_max": mean}
        least, most = mean - generator.random(), mean + generator.random()
        return Sums(
            held, held, obs_gpu_s=seen, util_gpu_s=mean * seen, util_min=least, util_max=most, histogram=histogram,
            memory_total_gpu_s=seen * 80, pod_s=3600.0, pods_min=1, pods_max=1, workloads=1, samples=1920, **used,
        )  # fmt: skip

    groups = [WHOLE]
    groups += [Group(Level.NAMESPACE, value=f"namespace-{number}") for number in range(50)]
    groups += [Group(Level.LABEL, "team", f"team-{number}") for number in range(250)]
    groups += [Group(Level.NODE, value=f"gpu-node-{number}") for number in range(1250)]
    groups += [Group(Level.WORKLOAD, f"ml/Job/training-{number}", f"{number:036}") for number in range(1000)]
    return RolledUp(start, 3600.0, {group: sums(8) for group in groups}, f"digest-{start}")


@pytest.mark.slow
def test_size_of_a_year_of_a_large_cluster(in_file: Database, path: Path) -> None:
    """A further hour takes at most its part of 6 GB, and sums of nodes are read unchanged."""
    database, cluster = in_file, in_file.put_cluster("uid-1", "cluster-1")
    generator = random.Random(1)
    connection = sqlite3.connect(path)

    def size() -> int:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return path.stat().st_size

    for number in range(6):
        made = large_hour(number * HOUR, generator)
        database.put_rolled_up(cluster, made, False)
        if number == 1:
            before = size()
    assert (size() - before) / 4 < YEAR
    connection.close()
    (read,) = database.rolled_up(cluster, 5 * HOUR, 6 * HOUR)
    assert read.sums.keys() == made.sums.keys()
    node = Group(Level.NODE, value="gpu-node-7")
    for name in ("util_min", "util_max", "memory_max"):
        setattr(made.sums[node], name, round(getattr(made.sums[node], name), 2))
    assert read.sums[node] == made.sums[node]


def test_ends_of_closed_intervals(address: str) -> None:
    database = open_database(address)
    cluster = database.put_cluster("uid", "lab")
    key = WorkloadKey("a", "Pod", "p", "u")
    held = [
        Holding(uid, "a", "p", key, "n1", 1, "m", {}, {}, start, None, end)
        for uid, start, end in [("over", 1.0, 2.0), ("over", 2.0, 5.0), ("open", 1.0, 2.0), ("open", 2.0, None)]
    ]
    database.put_changes(cluster, 9.0, holdings=held)
    there = [Capacity("n1", "m", 8, CapacityState.READY, start, end) for start, end in [(1.0, 3.0), (4.0, None)]]
    database.put_changes(cluster, 9.0, capacities=[*there, there[0]._replace(node="n2", end=7.0)])
    asked = ["over", "open", *(f"u{number}" for number in range(1200))]
    assert database.holding_ends(cluster, asked) == {"over": 5.0}
    assert database.capacity_ends(cluster) == {"n1": 3.0, "n2": 7.0}
    database.close()
