"""The hour in which collecting began: values from before that are unknown, not zero."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, namespace_hours, workload_hours
from gpuctl_usage.answers.idle_gpu_answers import idle_workloads
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import (
    Capacity,
    CapacityState,
    GpuQuota,
    GpuSeries,
    Holding,
    SharedGpuMetrics,
    UsageKeys,
    WorkloadKey,
)
from gpuctl_usage.hour_scheduling import FINAL_AFTER, HourRoller
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.store_transfer import export_store
from gpuctl_usage.sums import Level
from support.compared_sums import compare
from support.usage_oracle import Oracle

BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""
BEGAN = BEGIN + 36 * 60
LATER = BEGIN + HOUR + FINAL_AFTER + HOUR
KEYS = UsageKeys(("team",), ())
CAPACITIES = [
    Capacity("n1", "m", 8, CapacityState.READY, BEGAN - 2.0, None),
    Capacity("n2", "m", 4, CapacityState.READY, BEGAN + 300.0, None),
]


def pod(uid: str, gpus: int, start: float, end: float | None) -> Holding:
    key = WorkloadKey("a", "Job", uid, f"w-{uid}")
    return Holding(uid, "a", uid, key, "n1", gpus, "m", {"team": uid}, {}, start, start, end)


HOLDINGS = [
    pod("long", 2, BEGIN - 900.0, None),
    pod("gone", 4, BEGIN + 60.0, BEGAN - 60.0),
    pod("new", 1, BEGAN + 600.0, None),
]
SAMPLES = [
    GpuSeries("n1", gpu, "a", uid, array("d", times), array("d", [1.0] * len(times)))
    for gpu, uid, first in (("0", "long", BEGIN), ("1", "long", BEGIN), ("2", "new", BEGAN + 600))
    for times in [range(first + 30, BEGIN + 2 * HOUR, 30)]
]


class Samples(SimpleNamespace):
    """A fake Prometheus with SAMPLES."""

    shared = SharedGpuMetrics.COPIES

    def series(self, start: float, end: float, nodes: Any, holders: Any) -> list[GpuSeries]:
        """Return the samples after `start`, up to `end`."""
        found = []
        for one in SAMPLES:
            times = [time for time in one.times if start < time <= end]
            found.append(one._replace(times=array("d", times), utilization=array("d", [1.0] * len(times))))
        return [one for one in found if one.times]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = open_database(str(tmp_path / "usage.db"))
    cluster = found.put_cluster("uid", "lab")
    found.put_changes(
        cluster,
        BEGIN + 2.0 * HOUR,
        began=float(BEGAN),
        capacities=CAPACITIES,
        holdings=HOLDINGS,
        quotas=[GpuQuota("a", 6.0, BEGIN - 5.0, None)],
    )
    yield found
    found.close()


def rolled(database: Database, *moments: tuple[int, float]) -> CollectorHealth:
    health = CollectorHealth()
    roller = HourRoller(database, 1, Samples(), 30, KEYS, health)  # type: ignore[arg-type]
    roller.begin(BEGAN)
    for hour, now in moments:
        roller.roll(hour, now)
    return health


@pytest.mark.parametrize("until", [BEGIN + 50 * 60, LATER])
def test_sums_cover_only_the_known_time(until: int, database: Database) -> None:
    """While the hour runs and after it, compared with sums over single seconds."""
    rolled(database, (BEGIN, until))
    (hour,) = database.rolled_up(1, BEGIN, BEGIN + HOUR)
    seconds = min(BEGIN + HOUR, until) - BEGAN
    assert (hour.start, hour.missed, hour.seconds) == (BEGIN, 36 * 60, seconds)
    samples = [
        one._replace(times=array("d", times), utilization=array("d", [1.0] * len(times)))
        for one in SAMPLES
        if (times := [time for time in one.times if BEGAN < time <= until])
    ]
    truth = Oracle(BEGAN, seconds, HOLDINGS, CAPACITIES, samples, 30, ("team",), ())
    compare(hour, truth)


def test_answers_cover_only_the_known_time(database: Database) -> None:
    rolled(database, (BEGIN, LATER), (BEGIN + HOUR, LATER))
    asked = HoursQuery("", BEGIN, BEGIN + 2.0 * HOUR)
    first, second = cluster_hours(database, asked)
    assert (first["known_seconds"], second["known_seconds"]) == (1440.0, 3600.0)
    # n2 joined after 5 of 24 minutes, `new` began after 10.
    assert first["total_gpu_capacity"] == pytest.approx(8 + 4 * 19 / 24, abs=0.01)
    assert first["allocated_gpu_count"] == pytest.approx(2 + 14 / 24, abs=0.01)
    assert (second["total_gpu_capacity"], second["allocated_gpu_count"]) == (12, 3)
    assert [row["total_gpu_capacity"] for row in namespace_hours(database, asked)] == [6, 6]
    whole = HoursQuery("", BEGIN, BEGIN + 2.0 * HOUR, step=StepUnit.TOTAL)
    (row,) = ledger(database, whole, Level.CLUSTER)
    assert row["known_seconds"] == 1440 + 3600
    assert (row["known_from"], row["known_until"]) == ("2024-06-01T10:36:00Z", "2024-06-01T12:00:00Z")
    of_workloads = workload_hours(database, asked)
    assert isinstance(of_workloads, list)
    names = {row["workload_name"] for row in of_workloads}
    assert names == {"long", "new"}, "`gone` held GPUs only before collecting began"


def test_day_of_the_first_hour(database: Database, tmp_path: Path) -> None:
    hours = range(BEGIN, (BEGIN // DAY + 1) * DAY, HOUR)
    database.put_changes(1, float(hours.stop))
    health = rolled(database, *((hour, hours[-1] + 9.0 * HOUR) for hour in hours))
    assert health.rolled_until == hours.stop
    DayRoller(database, 1).roll(BEGIN // DAY * DAY)
    (day,) = database.rolled_up(1, BEGIN // DAY * DAY, BEGIN // DAY * DAY + DAY, PeriodLength.DAY)
    assert day.seconds == hours.stop - BEGAN
    assert day.sums[next(iter(day.sums))].workloads == 2
    (row,) = ledger(database, HoursQuery("", BEGIN - DAY, float(hours.stop), step=StepUnit.DAY), Level.CLUSTER)
    assert (row["known_from"], row["known_seconds"]) == ("2024-06-01T10:36:00Z", hours.stop - BEGAN)
    export_store(str(tmp_path / "usage.db"), tmp_path / "copy.db")
    copy = open_database(str(tmp_path / "copy.db"))
    assert copy.began(1) == BEGAN
    copy.close()


def test_workload_is_idle_since_collecting_began_at_most(database: Database) -> None:
    rolled(database, (BEGIN, LATER), (BEGIN + HOUR, LATER))
    found = {item.workload.name: item for item in idle_workloads(database, "", BEGIN, LATER)}
    assert found["long"].since == BEGAN, "unknown before collecting began"
    assert found["new"].since == BEGAN + 600


def test_begin_of_collecting_is_set_once(database: Database) -> None:
    database.put_changes(1, began=BEGAN + 5000.0)
    assert database.began(1) == BEGAN
    other = database.put_cluster("other", "other")
    database.put_changes(other, float(BEGAN))
    database.put_changes(other, began=BEGAN + 5000.0)
    assert database.began(other) is None, "collected before the time was recorded"
