"""Retention: old rows are deleted in small pieces, and the file shrinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.snapshot_answers import snapshot_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import (
    AllocationSnapshot,
    Capacity,
    CapacityState,
    GpuQuota,
    Holding,
    RetentionDays,
    UsageKeys,
    WorkloadAllocation,
    WorkloadKey,
)
from gpuctl_usage.hour_scheduling import HourRoller
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.usage_script import UsageScript

BEGIN = 1_762_300_800
DAYS = 6
NOW = BEGIN + DAYS * DAY + 100.0
KEPT = RetentionDays(details=1, snapshots=4, hours=2, days=5)
WORKLOADS = [WorkloadKey(f"ns-{number % 5}", "Job", f"job-{number}", f"uid-{number}") for number in range(60)]
ALL = HoursQuery("", BEGIN, BEGIN + DAYS * DAY, step=StepUnit.DAY)


def hour(start: int) -> RolledUp:
    held = Sums(alloc_gpu_s=HOUR, running_gpu_s=HOUR, pod_s=HOUR, pods_min=1, pods_max=1, workloads=1)
    whole = Sums(alloc_gpu_s=60 * HOUR, cap_gpu_s=64 * HOUR, free_gpu_s=4 * HOUR, pods_max=60)
    groups = {Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid): held for key in WORKLOADS}
    return RolledUp(start, HOUR, {Group(Level.CLUSTER): whole, **groups}, f"of {start}")


def fill(path: Path) -> None:
    """Write six days; the fourth is not final."""
    database = open_database(str(path), clock=lambda: NOW)
    cluster = database.put_cluster("uid", "lab")
    held = [
        Holding(
            *(f"pod-{number}-{day}", key.namespace, f"pod-{number}", key, "n1", 1, "A100", {}, {}),
            *(BEGIN + day * DAY + 0.0, BEGIN + day * DAY + 0.0, BEGIN + (day + 1) * DAY + 0.0),
        )
        for day in range(DAYS)
        for number, key in enumerate(WORKLOADS)
    ]
    database.put_changes(cluster, NOW, holdings=[*held, held[0]._replace(pod_uid="long", end=None)])
    gone = Capacity("gone", "A100", 8, CapacityState.READY, BEGIN - DAY, BEGIN + DAY - 1)
    database.put_changes(cluster, NOW, capacities=[gone, gone._replace(node="n1", gpus=64, end=None)])
    changes = [BEGIN - DAY, BEGIN + DAY, BEGIN + DAY + 1, BEGIN + 2 * DAY]
    quotas = [GpuQuota("a", place, start, end) for place, (start, end) in enumerate(pairwise(changes))]
    database.put_changes(cluster, quotas=[*quotas, GpuQuota("open", 1, BEGIN - DAY, None)])
    for day in range(BEGIN, BEGIN + DAYS * DAY, DAY):
        hours = [hour(start) for start in range(day, day + DAY, 3 * HOUR)]
        for one in hours:
            database.put_rolled_up(cluster, one, provisional=False)
        database.put_rolled_up(cluster, add_up(hours, []), provisional=day == BEGIN + 3 * DAY, span=PeriodLength.DAY)
    items = tuple(WorkloadAllocation(key, 1, 50.0) for key in WORKLOADS)
    for time in range(BEGIN, BEGIN + DAYS * DAY, 3 * HOUR):
        database.put_changes(cluster, snapshots=[AllocationSnapshot(time, 64, 60, items)])
    database.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("pruning") / "usage.db"
    fill(path)
    return path.read_bytes()


@pytest.fixture
def path(filled: bytes, tmp_path: Path) -> Path:
    found = tmp_path / "usage.db"
    found.write_bytes(filled)
    return found


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    found = open_database(str(path), clock=lambda: NOW)
    yield found
    found.close()


def days_of(database: Database, span: PeriodLength) -> list[int]:
    starts = database.hours(1, 0, 2**40, span)
    return sorted({(start - BEGIN) // DAY for start in starts})


def kept(database: Database) -> dict[str, Any]:
    """Return all rows that queries can see."""
    snapshots = snapshot_list(database, HoursQuery("", 0, NOW, paging=Paging(1, 1000)), details=True).answer
    assert isinstance(snapshots, dict)
    days = [(item["snapshot_time"][8:10], bool(item["allocation_details"])) for item in snapshots["data"]]
    return {
        "hours": days_of(database, PeriodLength.HOUR),
        "days": days_of(database, PeriodLength.DAY),
        "snapshots": sorted(set(days)),
        "holdings": sorted({item.start for item in database.holdings(1, 0, NOW)}),
        "capacities": [item.node for item in database.capacities(1, 0, NOW)],
        "quotas": [item.gpus for item in database.quotas(1, 0, NOW)],
        "ledger": ledger(database, ALL, Level.WORKLOAD),
    }


EXPECTED = {
    # The fourth day is not final, so its hours are kept.
    "hours": [3, 4, 5],
    "days": [1, 2, 3, 4, 5],
    "snapshots": [("07", False), ("08", False), ("09", False), ("10", False), ("10", True)],
    "holdings": [BEGIN + 0.0, *(BEGIN + day * DAY + 0.0 for day in (3, 4, 5))],
    "capacities": ["n1"],
    # Quotas are kept as long as a day needs them.
    "quotas": [1, 2, 1],
}


def check(found: dict[str, Any], before: list[dict[str, Any]]) -> None:
    told = found.pop("ledger")
    # The first day is deleted; all other days return the same rows as before.
    assert told == [row for row in before if row["time"] > "2025-11-05T23"]
    assert {name: found[name] for name in ("hours", "days", "holdings", "capacities", "quotas")} == {
        name: EXPECTED[name] for name in ("hours", "days", "holdings", "capacities", "quotas")
    }
    # Snapshots are deleted by the hour, not at midnight.
    assert found["snapshots"] == EXPECTED["snapshots"]


def prune(database: Database) -> int:
    pieces = 0
    while database.prune(1, KEPT, NOW):
        pieces += 1
    return pieces


def test_pruning_deletes_old_rows_and_shrinks_the_file(database: Database, path: Path) -> None:
    before = ledger(database, ALL, Level.WORKLOAD)
    size = path.stat().st_size
    pieces = prune(database)
    # Free pages are released in one piece.
    assert 5 < pieces < 25
    check(kept(database), before)
    assert not database.prune(1, KEPT, NOW)
    with database.reading() as connection:
        assert connection.execute(text("PRAGMA freelist_count")).scalar_one() == 0
        orphans = "SELECT count(*) FROM sums WHERE period_id NOT IN (SELECT id FROM periods)"
        assert connection.execute(text(orphans)).scalar_one() == 0
    database.close()
    assert path.stat().st_size < size * 0.8
    assert not path.with_name("usage.db-wal").exists()


def test_known_seconds_before_and_after_pruning(database: Database) -> None:
    """Days of another time zone have less known time if their hours are pruned. Every third hour is stored."""

    def known(zone: str) -> list[tuple[str, float]]:
        asked = replace(ALL, tz=zone)
        rows, lines = cluster_hours(database, asked), ledger(database, asked, Level.CLUSTER)
        assert isinstance(rows, list)
        found = [(row["end_time"], row["known_seconds"]) for row in rows]
        assert found == [(line["end_time"], line["known_seconds"]) for line in lines]
        held = [row["allocated_gpu_count"] * row["known_seconds"] for row in rows]
        assert held == [line["allocated_gpu_seconds"] for line in lines]
        return found

    zone, eight, ends = "Asia/Shanghai", 8.0 * HOUR, [f"2025-11-{day:02}T16:00:00Z" for day in range(5, 11)]
    assert known("") == [(f"2025-11-{day:02}T00:00:00Z", eight) for day in range(6, 12)]
    whole = [(end, eight) for end in ends[1:]]
    assert known(zone) == [(ends[0], 6.0 * HOUR), *whole, ("2025-11-11T00:00:00Z", 2.0 * HOUR)]
    prune(database)
    assert known("") == [(f"2025-11-{day:02}T00:00:00Z", eight) for day in range(7, 12)]
    # The first day is half of a UTC day whose hours are pruned.
    assert known(zone) == [(ends[3], 6.0 * HOUR), *whole[3:], ("2025-11-11T00:00:00Z", 2.0 * HOUR)]


@pytest.mark.slow
def test_pruning_does_not_disturb_readers(database: Database) -> None:
    """A read transaction sees one state from begin to end while rows are pruned."""
    with database.reading() as connection:
        count = "SELECT (SELECT count(*) FROM sums), (SELECT count(*) FROM holdings), (SELECT count(*) FROM snapshots)"
        before = tuple(connection.execute(text(count)).one())
        prune(database)
        assert tuple(connection.execute(text(count)).one()) == before
    with database.reading() as connection:
        assert tuple(connection.execute(text(count)).one()) < before


def test_pruning_deletes_small_pieces(database: Database) -> None:
    """A writer waits for at most one piece."""
    count = "SELECT (SELECT count(*) FROM sums) + (SELECT count(*) FROM holdings) + (SELECT count(*) FROM snapshots)"
    rows = []
    for _ in range(200):
        with database.reading() as connection:
            rows.append(connection.execute(text(count)).scalar_one())
        if not database.prune(1, KEPT, NOW):
            break
    assert max(before - after for before, after in pairwise(rows)) <= 1000


@pytest.mark.parametrize("restarted", [False, True])
def test_late_change_does_not_replace_expired_hours(restarted: bool, database: Database) -> None:
    """The second day is not final, so that its hours are kept: before and after it hours have expired."""
    [second] = database.rolled_up(1, BEGIN + DAY, BEGIN + 2 * DAY, PeriodLength.DAY)
    database.put_rolled_up(1, second, provisional=True, span=PeriodLength.DAY)
    keys = UsageKeys((), ())
    hours, days = HourRoller(database, 1, None, 15, keys), DayRoller(database, 1)
    hours.begin(NOW)
    prune(database)
    assert days_of(database, PeriodLength.HOUR) == [1, 3, 4, 5]
    expired = BEGIN + 2 * DAY
    before = database.rolled_up(1, expired, expired + DAY, PeriodLength.DAY)
    if restarted:
        hours = HourRoller(database, 1, None, 15, keys)
        hours.begin(NOW)
    days.begin(NOW)
    late = BEGIN + 100.0
    [held] = [item for item in database.holdings(1, BEGIN, NOW) if item.pod_uid == "long"]
    database.put_changes(1, NOW, holdings=[held._replace(pod_uid="late", start=late)], late=late)
    hours.late(late, NOW)
    while (hour := hours.due(NOW)) is not None:
        hours.roll(hour, NOW)
        days.touch(hour)
        days.roll_due(NOW)
    assert days_of(database, PeriodLength.HOUR) == [1, 3, 4, 5]
    assert database.rolled_up(1, expired, expired + DAY, PeriodLength.DAY) == before
    provisional = {start: state.provisional for start, state in database.hours(1, 0, 2**40, PeriodLength.DAY).items()}
    assert not provisional[expired]


def test_pruning_deletes_the_hours_of_a_day_together(database: Database) -> None:
    """After a late change, a day of which some hours are deleted would be rolled up again without them."""
    while True:
        hours = set(database.hours(1, 0, 2**40))
        days = {start // DAY * DAY for start in hours}
        assert hours == {start for day in days for start in range(day, day + DAY, 3 * HOUR)}
        if not database.prune(1, KEPT, NOW):
            break


def test_pruning_keeps_other_clusters(database: Database) -> None:
    other = database.put_cluster("uid-2", "other")
    database.put_rolled_up(other, hour(BEGIN), provisional=False)
    database.put_changes(other, snapshots=[AllocationSnapshot(BEGIN, 64, 60, ())])
    prune(database)
    assert set(database.hours(other, 0, 2**40)) == {BEGIN}
    assert len(snapshot_list(database, HoursQuery("other", 0, NOW)).answer) == 1


def test_pruning_keeps_all_rows_within_retention(database: Database) -> None:
    before = kept(database)
    assert not database.prune(1, RetentionDays(details=7, snapshots=7, hours=7, days=7), NOW)
    assert kept(database) == before


SCRIPT = """
import sys
from gpuctl_usage.facts import RetentionDays
from gpuctl_usage.store.database import open_database
database = open_database(sys.argv[1])
while database.prune(1, RetentionDays(*map(int, sys.argv[3:])), float(sys.argv[2])):
    print("piece", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [2, 8])
def test_killed_pruning_is_continued(path: Path, pieces: int) -> None:
    """Rows within the retention remain, and the next run deletes the rest."""
    database = open_database(str(path))
    before = ledger(database, ALL, Level.WORKLOAD)
    pruning = UsageScript(SCRIPT, str(path), str(NOW), *map(str, KEPT))
    for _ in range(pieces):
        assert pruning.lines.readline() == "piece\n"
    pruning.kill()
    found = kept(database)
    for name in ("hours", "days", "holdings", "capacities", "snapshots"):
        assert set(EXPECTED[name]) <= set(found[name]), name
    assert [row for row in found["ledger"] if row["time"] > "2025-11-05T23"] == [
        row for row in before if row["time"] > "2025-11-05T23"
    ]
    prune(database)
    check(kept(database), before)
    database.close()
