"""Due times and results of hourly rollups: real database and Prometheus, simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuctl.objects.durations import HOUR
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, Holding, UsageKeys, WorkloadKey
from gpuctl_usage.gathering.gpu_samples import GpuSamples
from gpuctl_usage.hour_scheduling import FINAL_AFTER, GIVE_UP_AFTER, ROLL_UP_AFTER, HourRoller
from gpuctl_usage.prometheus import Prometheus
from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import HourState
from support.prometheus_server import running_prometheus

BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""
KEYS = UsageKeys(("team",), ())
HELD = Holding("u1", "a", "p", WorkloadKey("a", "Pod", "p", "u1"), "n1", 1, "m", {}, {}, BEGIN + 0.0, BEGIN + 0.0, None)
END = BEGIN + HOUR


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with samples of the whole first hour and half of the second."""
    labels = 'gpu="0",Hostname="n1",exported_namespace="a",exported_pod="p"'
    lines = [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 40 {BEGIN + at}" for at in range(0, HOUR + HOUR // 2, 15)]
    text = "\n".join(["# TYPE DCGM_FI_DEV_GPU_UTIL gauge", *lines])
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), history=text) as url:
        yield url


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = open_database(str(tmp_path / "usage.db"))
    assert found.put_cluster("uid", "lab") == 1
    found.put_changes(1, BEGIN + 9 * HOUR, capacities=[Capacity("n1", "m", 8, CapacityState.READY, BEGIN - 99.0, None)])
    found.put_changes(1, BEGIN + 9.0 * HOUR, holdings=[HELD])
    yield found
    found.close()


def roller(database: Database, address: str | None, now: float) -> HourRoller:
    samples = None if address is None else GpuSamples(Prometheus(address))
    found = HourRoller(database, 1, samples, 15, KEYS)
    found.begin(now)
    return found


def state(database: Database, start: int = BEGIN) -> HourState:
    return database.hours(1, start, start + 1)[start]


def test_measured_hour_is_final_after_15_minutes(database: Database, measured: str) -> None:
    found = roller(database, measured, BEGIN + 1800)
    assert found.due(BEGIN + 1800) is None
    assert found.due(END + ROLL_UP_AFTER - 1) is None
    assert found.due(END + ROLL_UP_AFTER) == BEGIN
    assert found.roll(BEGIN, END + ROLL_UP_AFTER)
    assert state(database).provisional
    assert (state(database).coverage, state(database).seconds) == (1, HOUR)
    assert found.due(END + FINAL_AFTER - 1) is None
    again = END + ROLL_UP_AFTER + FINAL_AFTER
    assert found.due(again) == BEGIN
    assert not found.roll(BEGIN, again), "an unchanged hour is not written again"
    assert not state(database).provisional
    assert found.due(again + 10) is None


def test_hour_rolled_up_while_running_is_rolled_up_again(database: Database, measured: str) -> None:
    found = roller(database, measured, BEGIN + 60)
    found.roll(BEGIN, END - 300.0)
    assert (state(database).seconds, found.due(END - 1)) == (HOUR - 300, None)
    assert found.due(END + ROLL_UP_AFTER) == BEGIN
    found.roll(BEGIN, END + ROLL_UP_AFTER)
    assert (state(database).seconds, state(database).coverage) == (HOUR, 1)


def test_hour_without_all_measurements_stays_provisional(database: Database, measured: str) -> None:
    start = BEGIN + HOUR
    found = roller(database, measured, start + 60)
    found.roll(start, start + HOUR + FINAL_AFTER)
    assert state(database, start).provisional
    assert state(database, start).coverage == pytest.approx(0.5, abs=0.02)
    found.roll(start, start + HOUR + GIVE_UP_AFTER - 1)
    assert state(database, start).provisional
    found.roll(start, start + HOUR + GIVE_UP_AFTER)
    assert not state(database, start).provisional


def test_hour_is_provisional_until_its_holdings_are_known(tmp_path: Path) -> None:
    own = open_database(str(tmp_path / "usage.db"))
    own.put_cluster("uid", "lab")
    own.put_changes(1, END - 1.0)
    found = roller(own, None, BEGIN + 60)
    found.roll(BEGIN, END + GIVE_UP_AFTER)
    assert own.hours(1, BEGIN, END)[BEGIN].provisional
    own.put_changes(1, END + 0.0)
    found.roll(BEGIN, END + GIVE_UP_AFTER)
    assert not own.hours(1, BEGIN, END)[BEGIN].provisional
    own.close()


def test_missed_hours_are_rolled_up(database: Database, measured: str) -> None:
    """All hours since the first stored one are rolled up, whatever the reason for the gap."""
    now = BEGIN + 5 * HOUR + 200.0
    roller(database, measured, BEGIN + 60).roll(BEGIN, END + FINAL_AFTER)
    found = roller(database, measured, now)
    made: list[Any] = []
    while (hour := found.due(now)) is not None:
        made.append((hour - BEGIN) // HOUR)
        found.roll(hour, now)
    assert made == [1, 2, 3, 4]
    assert set(database.hours(1, 0, 2**40)) == {BEGIN + number * HOUR for number in range(5)}


def test_late_changes_make_hours_due_again(database: Database, measured: str) -> None:
    now = BEGIN + 2 * HOUR + FINAL_AFTER
    found = roller(database, measured, BEGIN + 60)
    for hour in (BEGIN, END):
        found.roll(hour, now)
    assert not state(database).provisional
    before = state(database)
    moment = BEGIN + 1800.0
    one = HELD._replace(end=moment, ending=EndReason.CHANGED)
    two = HELD._replace(start=moment, labels={"team": "b"})
    database.put_changes(1, now, holdings=[one, two])
    found.late(moment, now)
    assert found.due(now) == BEGIN
    assert found.roll(BEGIN, now)
    assert state(database).digest != before.digest
    assert not state(database).provisional
    assert found.due(now) == END


def test_hour_keeps_measurements_without_prometheus(database: Database, measured: str) -> None:
    """Stored measurements stay if Prometheus does not answer or has lost its data."""
    roller(database, measured, BEGIN + 60).roll(BEGIN, END + ROLL_UP_AFTER)
    before = state(database)
    away = roller(database, "http://127.0.0.1:9", END + FINAL_AFTER)
    assert not away.roll(BEGIN, END + FINAL_AFTER)
    assert state(database) == before._replace(provisional=False), "the hour is fully measured"
    assert away.due(END + 2 * FINAL_AFTER) is None
    # An hour that was never measured still gets its allocated GPU-hours.
    assert away.roll(END, END + HOUR + ROLL_UP_AFTER)
    assert (state(database, END).coverage, state(database, END).provisional) == (0, True)
    forgetful = roller(database, None, END + GIVE_UP_AFTER)
    assert not forgetful.roll(BEGIN, END + GIVE_UP_AFTER)
    assert state(database).coverage == 1


def test_open_ledger_is_logged(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Nine GPUs are allocated on a node that has eight: this is logged, and the sums are not corrected."""
    more = HELD._replace(pod_uid="u2", pod="q", workload=WorkloadKey("a", "Pod", "q", "u2"), gpus=8)
    database.put_changes(1, BEGIN + 9.0 * HOUR, holdings=[more])
    found = roller(database, None, END + ROLL_UP_AFTER)
    assert found.roll(BEGIN, END + ROLL_UP_AFTER)
    told = [record.__dict__ for record in caplog.records if record.message == "the ledger of an hour does not close"]
    assert {(item["where"], item["what"], item["missing"]) for item in told} == {
        (where, "ledger", -1.0 * HOUR) for where in ("cluster", "node n1", "model m")
    }
    [whole] = database.rolled_up(1, BEGIN, END)
    assert whole.sums[CLUSTER].alloc_gpu_s == 9 * HOUR


def test_closed_ledger_is_not_logged(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    found = roller(database, None, END + ROLL_UP_AFTER)
    assert found.roll(BEGIN, END + ROLL_UP_AFTER)
    assert not [record for record in caplog.records if "ledger" in record.message]


def test_hours_before_collecting_began_are_not_due(tmp_path: Path) -> None:
    """The collector waited two hours for a permission: until all kinds are listed, nothing is known."""
    own = open_database(str(tmp_path / "usage.db"))
    own.put_cluster("uid", "lab")
    health = CollectorHealth()
    found = HourRoller(own, 1, None, 15, KEYS, health)
    found.begin(BEGIN + 60.0)
    own.put_changes(1, BEGIN + 9.0 * HOUR, began=BEGIN + 2 * HOUR + 600.0)
    now = BEGIN + 4 * HOUR + FINAL_AFTER
    while (hour := found.due(now)) is not None:
        found.roll(hour, now)
    assert sorted(own.hours(1, 0, 2**40)) == [BEGIN + 2 * HOUR, BEGIN + 3 * HOUR]
    assert health.rolled_until == BEGIN + 4 * HOUR
    own.close()


def test_hours_since_collecting_began_are_due_after_a_restart(tmp_path: Path) -> None:
    """The collector was killed before it had stored an hour."""
    own = open_database(str(tmp_path / "usage.db"))
    own.put_cluster("uid", "lab")
    own.put_changes(1, began=BEGIN + 600.0)
    assert roller(own, None, BEGIN + 3 * HOUR).due(BEGIN + 3.0 * HOUR) == BEGIN
    own.close()
