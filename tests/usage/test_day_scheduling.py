"""Rollup of hours into days: when it is due, and that late data is never lost, whichever process is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, Holding, UsageKeys, WorkloadKey
from gpuctl_usage.hour_scheduling import FINAL_AFTER, GIVE_UP_AFTER, HourRoller
from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Level

DAY_1 = 1_762_300_800
"""2025-11-05T00:00:00Z; the first hour that is known is its fourth."""
BEGIN = DAY_1 + 3 * HOUR
NOW = DAY_1 + DAY + FINAL_AFTER
HELD = Holding("u1", "a", "p", WorkloadKey("a", "Pod", "p", "u1"), "n1", 2, "m", {}, {}, BEGIN + 0.0, BEGIN + 0.0, None)
ALL = HoursQuery("", DAY_1, DAY_1 + DAY, step=StepUnit.TOTAL)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = open_database(str(tmp_path / "usage.db"))
    assert found.put_cluster("uid", "lab") == 1
    found.put_changes(1, NOW, capacities=[Capacity("n1", "m", 8, CapacityState.READY, BEGIN + 0.0, None)])
    found.put_changes(1, NOW + 9.0 * HOUR, holdings=[HELD])
    yield found
    found.close()


def rollers(database: Database, now: float) -> tuple[HourRoller, DayRoller]:
    """Return rollers as a collector has them at its start: with nothing but the database."""
    hours = HourRoller(database, 1, None, 15, UsageKeys(("team",), ()))
    days = DayRoller(database, 1)
    hours.begin(now)
    days.begin(now)
    return hours, days


def roll_all(database: Database, now: float) -> list[str]:
    """Roll up everything that is due at `now`, as a collector does at its start; return what was rolled up."""
    hours, days = rollers(database, now)
    done = []
    while (hour := hours.due(now)) is not None:
        hours.roll(hour, now)
        days.touch(hour)
        done.append(f"hour {(hour - DAY_1) // HOUR}")
        while (day := days.due(now)) is not None:
            done.append(f"day {(day - DAY_1) // DAY} {days.roll(day)}")
    while (day := days.due(now)) is not None:
        done.append(f"day {(day - DAY_1) // DAY} {days.roll(day)}")
    return done


def provisional(database: Database) -> dict[str, bool]:
    return {
        f"{span.value} {(start - DAY_1) // span.seconds}": state.provisional
        for span in PeriodLength
        for start, state in database.hours(1, 0, 2**40, span).items()
    }


@pytest.fixture
def rolled(database: Database) -> Database:
    """The database with a day of 21 hours rolled up."""
    hours, _ = rollers(database, BEGIN + 60)
    hours.roll(BEGIN, BEGIN + HOUR + FINAL_AFTER)
    assert roll_all(database, NOW) == [*(f"hour {number}" for number in range(4, 24)), "day 0 True"]
    return database


def test_day_is_added_up_when_its_last_hour_is_final(database: Database) -> None:
    hours, days = rollers(database, BEGIN + 60)
    for start in range(BEGIN, DAY_1 + DAY, HOUR):
        assert days.due(NOW) is None
        # The last hour is not final before a quarter of an hour after its end.
        hours.roll(start, min(start + HOUR + FINAL_AFTER, NOW - 1))
        days.touch(start)
    assert days.due(NOW) is None
    hours.roll(DAY_1 + DAY - HOUR, NOW)
    days.touch(DAY_1 + DAY - HOUR)
    assert days.due(NOW) == DAY_1
    assert days.roll(DAY_1)
    assert days.due(NOW) is None
    [day] = database.rolled_up(1, DAY_1, DAY_1 + 1, PeriodLength.DAY)
    assert (day.seconds, day.sums[CLUSTER].alloc_gpu_s) == (21 * HOUR, 2 * 21 * HOUR)
    assert not days.roll(DAY_1), "the same is not written again"


def test_nothing_is_due_after_a_complete_rollup(rolled: Database) -> None:
    assert roll_all(rolled, NOW + 60) == []


def test_late_change_is_rolled_up_by_the_next_process(rolled: Database) -> None:
    """The process is killed before it has rolled up again: the next one finds what is provisional."""
    moment = DAY_1 + 10 * HOUR + 1800.0
    before = ledger(rolled, ALL, Level.CLUSTER)
    rolled.put_changes(1, NOW, holdings=[HELD._replace(end=moment, ending=EndReason.LAST_SEEN)], late=moment)
    assert {name for name, is_so in provisional(rolled).items() if is_so} == {
        *(f"hour {number}" for number in range(10, 24)),
        "day 0",
    }
    # Until then the answers have the old hours, with none missing.
    assert [row | {"provisional": False} for row in ledger(rolled, ALL, Level.CLUSTER)] == before
    assert roll_all(rolled, NOW) == [*(f"hour {number}" for number in range(10, 24)), "day 0 True"]
    assert not any(provisional(rolled).values())
    (row,) = ledger(rolled, ALL, Level.CLUSTER)
    assert row["allocated_gpu_seconds"] == 2 * 7.5 * HOUR
    assert row["closes"]


def test_late_capacity_is_rolled_up_again(rolled: Database) -> None:
    rolled.put_changes(
        1,
        NOW,
        capacities=[Capacity("n2", "m", 4, CapacityState.READY, DAY_1 + 20.0 * HOUR, None)],
        late=DAY_1 + 20.0 * HOUR,
    )
    assert roll_all(rolled, NOW) == [*(f"hour {number}" for number in range(20, 24)), "day 0 True"]
    assert ledger(rolled, ALL, Level.CLUSTER)[0]["capacity_gpu_seconds"] == 8 * 21 * HOUR + 4 * 4 * HOUR


def test_late_data_without_a_difference_leaves_the_day(rolled: Database) -> None:
    """Hours that were reopened without a change are the same as before, and so is their day."""
    rolled.put_changes(1, NOW, holdings=[HELD], late=DAY_1 + 22.0 * HOUR)
    assert roll_all(rolled, NOW) == ["hour 22", "hour 23", "day 0 False"]
    assert not any(provisional(rolled).values())


def test_hour_written_to_during_its_rollup_stays_provisional(rolled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hour was computed from outdated holdings: it stays provisional and is rolled up again."""
    hours, _ = rollers(rolled, NOW)
    moment = DAY_1 + 23 * HOUR + 1800.0
    read = rolled.holdings

    def holdings_with_a_late_write(cluster: int, start: float, end: float) -> list[Holding]:
        found = read(cluster, start, end)
        rolled.put_changes(1, NOW, holdings=[HELD._replace(end=moment, ending=EndReason.DELETED)], late=moment)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(rolled, "holdings", holdings_with_a_late_write)
        hours.roll(DAY_1 + 23 * HOUR, NOW)
    assert provisional(rolled)["hour 23"]
    assert roll_all(rolled, NOW) == ["hour 23", "day 0 True"]
    assert ledger(rolled, ALL, Level.CLUSTER)[0]["allocated_gpu_seconds"] == 2 * 20.5 * HOUR


def test_day_of_outdated_hours_is_not_written(rolled: Database) -> None:
    """A day added up from outdated hours is not written."""
    [day] = rolled.rolled_up(1, DAY_1, DAY_1 + 1, PeriodLength.DAY)
    hours = rolled.rolled_up(1, DAY_1, DAY_1 + DAY)
    made_of = {hour.start: hour.digest for hour in hours}
    hours[0].digest = "other"
    rolled.put_rolled_up(1, hours[0], provisional=False)
    assert provisional(rolled)["day 0"], "a changed hour reopens its day"
    day.digest = "stale"
    assert rolled.put_day(1, day, made_of) is None
    assert provisional(rolled)["day 0"]
    rolled.set_hour_provisional(1, BEGIN, True)
    assert rolled.put_day(1, day, made_of | {BEGIN: "other"}) is None, "an hour was reopened"
    rolled.set_hour_provisional(1, BEGIN, False)
    assert rolled.put_day(1, day, made_of | {BEGIN: "other"})


def test_hour_with_pruned_measurements_is_final_for_its_day(rolled: Database) -> None:
    """Measured hours are not replaced by less, and the day does not wait for them forever."""
    [hour] = rolled.rolled_up(1, BEGIN, BEGIN + HOUR)
    for sums in hour.sums.values():
        sums.obs_gpu_s = sums.alloc_gpu_s
    hour.digest = "measured"
    rolled.put_rolled_up(1, hour, provisional=True)
    # The measurements of the hour are pruned.
    with rolled._engine.begin() as connection:
        connection.execute(text("DELETE FROM measurements"))
    later = NOW + GIVE_UP_AFTER
    done = roll_all(rolled, later)
    assert done[0] == "hour 3"
    assert "day 0 True" in done
    assert not provisional(rolled)["hour 3"]
    assert [hour.digest for hour in rolled.rolled_up(1, BEGIN, BEGIN + 1)] == ["measured"]
