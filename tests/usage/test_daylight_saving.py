"""Days of 23 and 25 hours: sums of these days, and of the months with them, compared with sums by calendar date."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, namespace_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import Capacity, CapacityState, GpuQuota, Holding, WorkloadKey
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Level

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = 4
CHANGES = {
    "spring": (datetime(2026, 3, 28, tzinfo=timezone.utc), 23),
    "autumn": (datetime(2025, 10, 25, tzinfo=timezone.utc), 25),
}
PODS = {"early": (4.0, 0.0, 30.5), "late": (2.0, 25.25, 71.0), "long": (1.0, -5.0, 200.0)}
"""GPUs, first hour and last hour."""


def overlap(start: float, end: float, hour: int) -> float:
    return max(0.0, min(end, hour + 1) - max(start, hour))


def filled_database(path: Path, begin: int) -> Database:
    pods = [
        Holding(
            *(name, "nlp", name, WorkloadKey("nlp", "Job", name, name), "n1", gpus, "A100", {}, {}),
            *(begin + start * HOUR, begin + start * HOUR, begin + end * HOUR),
        )
        for name, (gpus, start, end) in PODS.items()
    ]
    nodes = [
        Capacity("n1", "A100", 8.0, CapacityState.READY, begin - DAY, begin + 40.0 * HOUR),
        Capacity("n1", "A100", 16.0, CapacityState.READY, begin + 40.0 * HOUR, None),
    ]
    database = open_database(str(path / "usage.db"))
    cluster = database.put_cluster("uid", "lab")
    database.put_changes(
        cluster,
        begin + DAYS * DAY,
        holdings=pods,
        capacities=nodes,
        quotas=[GpuQuota("nlp", 6.0, begin - DAY, begin + 26.5 * HOUR)],
    )
    for day in range(begin, begin + DAYS * DAY, DAY):
        hours = [roll_up(start, HOUR, pods, nodes, [], 15) for start in range(day, day + DAY, HOUR)]
        for hour in hours:
            database.put_rolled_up(cluster, hour, provisional=False)
        database.put_rolled_up(cluster, add_up(hours, pods), provisional=False, span=PeriodLength.DAY)
    return database


@pytest.mark.parametrize("season", CHANGES)
def test_sums_of_days_of_23_and_25_hours(season: str, tmp_path: Path) -> None:
    day, length = CHANGES[season]
    begin = int(day.timestamp())
    database = filled_database(tmp_path, begin)
    # By the calendar: an hour belongs to the date that the clocks of Berlin show at its start.
    hours: dict[str, int] = defaultdict(int)
    held: dict[str, float] = defaultdict(float)
    there: dict[str, float] = defaultdict(float)
    allowed: dict[str, float] = defaultdict(float)
    for hour in range(DAYS * 24):
        date = (day + timedelta(hours=hour)).astimezone(BERLIN).date().isoformat()
        capacity = 8.0 * overlap(0, 40, hour) + 16.0 * overlap(40, 1000, hour)
        limited = overlap(0, 26.5, hour)
        hours[date] += 1
        held[date] += sum(gpus * overlap(start, end, hour) for gpus, start, end in PODS.values())
        there[date] += capacity
        allowed[date] += 6 * limited + (1 - limited) * capacity
    changed = (day + timedelta(days=1)).date().isoformat()
    assert hours[changed] == length
    asked = HoursQuery("", begin, begin + DAYS * DAY, step=StepUnit.DAY, tz="Europe/Berlin")
    rows, spaces, lines = (
        cluster_hours(database, asked),
        namespace_hours(database, asked),
        ledger(database, asked, Level.CLUSTER),
    )
    assert isinstance(rows, list)
    assert isinstance(spaces, list)
    assert isinstance(lines, list)
    for found in (rows, spaces, lines):
        assert [row["known_seconds"] for row in found] == [count * HOUR for count in hours.values()]
    for row, space, line, date in zip(rows, spaces, lines, hours, strict=True):
        began = datetime.fromisoformat(row["stat_hour"].replace("Z", "+00:00"))
        assert began.astimezone(BERLIN).date().isoformat() == date
        assert line["capacity_gpu_seconds"] == pytest.approx(there[date] * HOUR)
        assert line["allocated_gpu_seconds"] == pytest.approx(held[date] * HOUR)
        assert row["total_gpu_capacity"] == pytest.approx(there[date] / hours[date], abs=0.0051)
        assert row["allocated_gpu_count"] == pytest.approx(held[date] / hours[date], abs=0.0051)
        assert row["allocation_rate"] == pytest.approx(100 * held[date] / there[date], abs=0.0051)
        assert space["total_gpu_capacity"] == pytest.approx(allowed[date] / hours[date], abs=0.0051)
        assert space["allocation_rate"] == pytest.approx(100 * held[date] / allowed[date], abs=0.0051)
    # Every step divides the same total.
    for step in (StepUnit.WEEK, StepUnit.MONTH, StepUnit.TOTAL):
        parts = ledger(
            database, HoursQuery("", begin, begin + DAYS * DAY, step=step, tz="Europe/Berlin"), Level.CLUSTER
        )
        assert isinstance(parts, list)
        assert sum(part["allocated_gpu_seconds"] for part in parts) == pytest.approx(sum(held.values()) * HOUR)
        assert sum(part["known_seconds"] for part in parts) == DAYS * DAY
    database.close()
