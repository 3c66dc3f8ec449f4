"""Rows of days and longer, and the ledger: what every second adds up to, whatever was read for it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.objects.durations import DAY, HOUR
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, label_hours, namespace_hours, workload_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.steps import StepUnit, bounds, zone_of
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Level
from properties.scale import examples
from properties.usage_worlds import ANNOTATION_KEYS, LABEL_KEYS, START, World, rolled, worlds
from support.usage_oracle import Oracle, account, shown

HOURS = 3
SPLITS = [(StepUnit.HOUR, ""), (StepUnit.DAY, "Asia/Dhaka"), (StepUnit.DAY, ""), (StepUnit.TOTAL, "Asia/Kolkata")]
"""Midnight in Dhaka is after the second hour."""
LEVELS = [
    *((level, "") for level in Level if level not in (Level.LABEL, Level.ANNOTATION)),
    *((Level.LABEL, key) for key in LABEL_KEYS),
    *((Level.ANNOTATION, key) for key in ANNOTATION_KEYS),
]
WITH_GPUS = (Level.CLUSTER, Level.NODE, Level.MODEL)


def filled(directory: str, world: World) -> Database:
    database = open_database(str(Path(directory) / "usage.db"))
    cluster = database.put_cluster("uid", "lab")
    database.put_changes(cluster, START + HOURS * HOUR, holdings=world.holdings)
    hours = [rolled(world, START + number * HOUR, HOUR) for number in range(HOURS)]
    for hour in hours:
        database.put_rolled_up(cluster, hour, provisional=False)
    database.put_rolled_up(cluster, add_up(hours, world.holdings), provisional=False, span=PeriodLength.DAY)
    return database


def oracle(world: World, start: int, end: int) -> Oracle:
    facts = world.holdings, world.capacities, world.samples, world.interval
    return Oracle(start, end - start, *facts, LABEL_KEYS, ANNOTATION_KEYS)


def alike(told: Any, expected: Any) -> bool:
    """Return True if two values are equal to hundredths, the precision of answers."""
    return told == expected if expected is None or told is None else told == pytest.approx(expected, abs=0.0051)


def check_ledger(database: Database, hours: HoursQuery, oracles: dict[str, Oracle]) -> None:
    for level, key in LEVELS:
        found = {(row["time"], row["key"], row["value"]): row for row in ledger(database, hours, level, key)}
        expected = {
            (time, *group[1:]): account(sums, level in WITH_GPUS)
            for time, truth in oracles.items()
            for group, sums in truth.groups.items()
            if group[0] == level.value and (not key or group[1] == key)
        }
        assert found.keys() == expected.keys(), (level, key)
        for place, values in expected.items():
            for name, value in values.items():
                assert alike(found[place][name], value), (level, place, name)


def check_rows(database: Database, hours: HoursQuery, oracles: dict[str, Oracle], seconds: dict[str, float]) -> None:
    answers: dict[Level, Any] = {
        Level.CLUSTER: cluster_hours(database, hours),
        Level.NAMESPACE: namespace_hours(database, hours),
        Level.LABEL: label_hours(database, hours, Level.LABEL, "team"),
        Level.ANNOTATION: label_hours(database, hours, Level.ANNOTATION, "cost-center"),
        Level.WORKLOAD: workload_hours(database, hours),
    }
    for level, rows in answers.items():
        key = {Level.LABEL: "team", Level.ANNOTATION: "cost-center"}.get(level)
        groups = {
            (time, group[2]): sums
            for time, truth in oracles.items()
            for group, sums in truth.groups.items()
            if group[0] == level.value and (key is None or group[1] == key)
        }
        names = {Level.NAMESPACE: "namespace", Level.WORKLOAD: "owner_uid", Level.CLUSTER: None}
        found = defaultdict(list)
        for row in rows:
            name = names.get(level, "dimension_value")
            found[row["stat_hour"], "" if name is None else row[name]].append(row)
        # Two workloads may have one uid here; the answer identifies them by their names.
        assert found.keys() == groups.keys(), level
        for place, sums in groups.items():
            if len(found[place]) == 1:
                (row,) = found[place]
                for name, value in shown(sums, seconds[place[0]]).items():
                    assert name not in row or alike(row[name], value), (level, place, name)


@examples(2)
@given(worlds(st.just(HOURS * HOUR)))
def test_rows_of_steps_equal_sums_over_seconds(world: World) -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = filled(directory, world)
        known: dict[tuple[int, int], Oracle] = {}
        for step, tz in SPLITS:
            hours = replace(HoursQuery("", START, START + HOURS * HOUR), step=step, tz=tz)
            oracles, seconds = {}, {}
            for start, end in pairwise(bounds(hours.start, hours.end, step, zone_of(tz))):
                if (start, end) not in known:
                    known[start, end] = oracle(world, start, end)
                oracles[format_timestamp(start)], seconds[format_timestamp(start)] = known[start, end], end - start
            check_ledger(database, hours, oracles)
            check_rows(database, hours, oracles, seconds)
        # Of a whole day the day is read, of which three hours are known.
        midnight = START // DAY * DAY
        of_day = HoursQuery("", midnight, midnight + DAY, step=StepUnit.WEEK)
        time, truth = format_timestamp(midnight), known[START, START + HOURS * HOUR]
        check_ledger(database, of_day, {time: truth})
        check_rows(database, of_day, {time: truth}, {time: HOURS * HOUR})
        database.close()
