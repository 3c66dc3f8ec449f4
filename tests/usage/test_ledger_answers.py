"""Rows of steps and of the ledger, added up from hours and from final days."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from gpuctl.objects.durations import DAY, HOUR
from gpuctl.reading.usage.gpu_time import ledger_line
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, label_hours, namespace_hours, workload_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import Capacity, CapacityState, Holding, WorkloadKey
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from properties.usage_worlds import ANNOTATION_KEYS, LABEL_KEYS

BEGIN = 1_762_300_800
"""2025-11-05T00:00:00Z."""


def pod(uid: str, name: str, gpus: float, begin: float, end: float | None, **labels: str) -> Holding:
    """Return a pod's holding, `begin` and `end` in seconds after BEGIN; more than one GPU is namespace `red`, else
    `blue`.
    """
    workload = WorkloadKey("red" if gpus > 1 else "blue", "Job", name, f"uid-{name}")
    times = (BEGIN + begin, BEGIN + begin, None if end is None else BEGIN + end)
    return Holding(uid, workload.namespace, uid, workload, "n1", gpus, "A100", labels, {}, *times)


PODS = [
    pod("p1", "train", 4, -HOUR, 30 * HOUR, team="x"),
    pod("p2", "serve", 1, 2.5 * HOUR, 40.25 * HOUR, team="y"),
    # The same workload twice, hours apart, and then with another label value.
    pod("p3", "batch", 2, 3 * HOUR, 4 * HOUR, team="x"),
    pod("p4", "batch", 2, 20 * HOUR, 20.5 * HOUR, team="x"),
    pod("p5", "batch", 2, 20.5 * HOUR, None, team="y"),
]
NODES = [
    Capacity("n1", "A100", 8, CapacityState.READY, BEGIN - DAY, None),
    Capacity("n2", "H100", 8, CapacityState.CORDONED, BEGIN + 10 * HOUR, BEGIN + 45 * HOUR),
]
HOURS = 54


def rolled(number: int) -> Any:
    keys = {"label_keys": LABEL_KEYS, "annotation_keys": ANNOTATION_KEYS}
    return roll_up(BEGIN + number * HOUR, HOUR, PODS, NODES, [], 15, **keys)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database of two days and six hours; only the first day is final."""
    found = open_database(str(tmp_path_factory.mktemp("steps") / "usage.db"))
    cluster = found.put_cluster("uid", "lab")
    found.put_changes(cluster, BEGIN + HOURS * HOUR, holdings=PODS)
    hours = [rolled(number) for number in range(HOURS)]
    for hour in hours:
        found.put_rolled_up(cluster, hour, provisional=False)
    found.put_rolled_up(cluster, add_up(hours[:24], PODS), provisional=False, span=PeriodLength.DAY)
    found.put_rolled_up(cluster, add_up(hours[24:48], PODS), provisional=True, span=PeriodLength.DAY)
    yield found
    found.close()


ALL = HoursQuery("", BEGIN, BEGIN + HOURS * HOUR)


def gpu_seconds(begin: float, end: float, *pods: Holding) -> float:
    """Return the GPU-seconds that these pods held from hour `begin` to hour `end`."""
    low, high = BEGIN + begin * HOUR, BEGIN + end * HOUR
    return sum(max(0.0, min(item.end or high, high) - max(item.start, low)) * item.gpus for item in pods)


@pytest.mark.parametrize(
    ("step", "tz", "bounds"),
    [
        (StepUnit.HOUR, "", list(range(HOURS + 1))),
        (StepUnit.DAY, "", [0, 24, 48, 54]),
        (StepUnit.DAY, "Asia/Shanghai", [0, 16, 40, 54]),
        (StepUnit.WEEK, "Asia/Shanghai", [0, 54]),
        (StepUnit.MONTH, "", [0, 54]),
        (StepUnit.TOTAL, "", [0, 54]),
    ],
)
def test_parts_of_every_level_add_up_to_the_cluster(
    database: Database, step: StepUnit, tz: str, bounds: list[int]
) -> None:
    hours = replace(ALL, step=step, tz=tz)
    rows = ledger(database, hours, Level.CLUSTER)
    assert [row["allocated_gpu_seconds"] for row in rows] == [
        pytest.approx(gpu_seconds(begin, end, *PODS)) for begin, end in pairwise(bounds)
    ]
    for level, key in ((Level.NAMESPACE, ""), (Level.LABEL, "team"), (Level.LABEL, "app"), (Level.NODE, ""),
                       (Level.MODEL, ""), (Level.WORKLOAD, ""), (Level.ANNOTATION, "cost-center")):  # fmt: skip
        parts = ledger(database, hours, level, key)
        for row in rows:
            theirs = [part for part in parts if part["time"] == row["time"]]
            assert {part["end_time"] for part in theirs} == {row["end_time"]}
            assert sum(part["allocated_gpu_seconds"] for part in theirs) == pytest.approx(row["allocated_gpu_seconds"])
            if level in (Level.NODE, Level.MODEL):
                for name in ("capacity_gpu_seconds", "free_gpu_seconds", "unusable_gpu_seconds"):
                    assert sum(part[name] for part in theirs) == pytest.approx(row[name])
    assert all(row["closes"] for row in rows)


def rows_by(answer: Any, *names: str) -> dict[Any, Any]:
    return {tuple(row[name] for name in names): row for row in answer}


def test_fields_of_a_ledger_row(database: Database) -> None:
    (row,) = ledger(database, replace(ALL, step=StepUnit.TOTAL, end=BEGIN + DAY), Level.CLUSTER)
    held = gpu_seconds(0, 24, *PODS)
    assert row == {
        "time": "2025-11-05T00:00:00Z",
        "end_time": "2025-11-06T00:00:00Z",
        "known_seconds": 86400.0,
        "known_from": "2025-11-05T00:00:00Z",
        "known_until": "2025-11-06T00:00:00Z",
        "provisional": False,
        "cluster": "lab",
        "level": "cluster",
        "key": "",
        "value": "",
        "capacity_gpu_seconds": 8.0 * DAY + 8 * 14 * HOUR,
        "allocated_gpu_seconds": held,
        "busy_gpu_seconds": 0.0,
        "held_idle_gpu_seconds": 0.0,
        "held_unobserved_gpu_seconds": held,
        "free_gpu_seconds": 8.0 * DAY - held,
        "unusable_gpu_seconds": 8.0 * 14 * HOUR,
        "unsized_gpu_seconds": 0.0,
        "allowed_gpu_seconds": None,
        "by_process_gpu_seconds": 0.0,
        "beyond_held_gpu_seconds": 0.0,
        "avg_utilization": None,
        "coverage": 0.0,
        "closes": True,
    }
    rows = ledger(database, replace(ALL, step=StepUnit.TOTAL), Level.WORKLOAD, namespace="red")
    (train,) = [row for row in rows if row["name"] == "train"]
    assert (train["key"], train["value"], train["namespace"], train["kind"]) == (
        *("red/Job/train", "uid-train", "red", "Job"),
    )
    assert [train[f"{name}_gpu_seconds"] for name in ("capacity", "free", "unusable")] == [None] * 3
    assert {row["namespace"] for row in rows} == {"red"}


def test_workload_counts_once_in_a_step(database: Database) -> None:
    """A workload counts once in a step, however many hours it spans, and once for each label value it had."""
    week = replace(ALL, step=StepUnit.WEEK)
    assert rows_by(namespace_hours(database, week), "namespace")[("red",)]["active_workload_count"] == 2
    teams = rows_by(label_hours(database, week, Level.LABEL, "team"), "dimension_value")
    assert (teams[("x",)]["active_workload_count"], teams[("y",)]["active_workload_count"]) == (2, 2)
    # A part of a day is added up from its hours.
    hours = replace(week, start=BEGIN + 3 * HOUR, end=BEGIN + 20 * HOUR)
    teams = rows_by(label_hours(database, hours, Level.LABEL, "team"), "dimension_value")
    assert (teams[("x",)]["active_workload_count"], teams[("y",)]["active_workload_count"]) == (2, 1)


def test_rows_of_steps(database: Database) -> None:
    first, second, last = cluster_hours(database, replace(ALL, step=StepUnit.DAY))
    assert [row["stat_hour"] for row in (first, second, last)] == [f"2025-11-0{day}T00:00:00Z" for day in (5, 6, 7)]
    assert [row["end_time"][8:13] for row in (first, second, last)] == ["06T00", "07T00", "07T06"]
    # The mean over the day, and over the six hours that the last day has.
    assert first["allocated_gpu_count"] == round(gpu_seconds(0, 24, *PODS) / DAY, 2)
    assert last["allocated_gpu_count"] == 2.0
    assert last["total_gpu_capacity"] == 8
    page = workload_hours(database, replace(ALL, step=StepUnit.DAY, paging=Paging(1, 20)))
    status = {(row["stat_hour"][:10], row["workload_name"]): row["workload_status"] for row in page["data"]}
    assert status["2025-11-05", "train"] == "Running"
    assert (status["2025-11-06", "train"], status["2025-11-06", "serve"]) == ("Finished", "Finished")
    assert status["2025-11-07", "batch"] == "Running"
    labels = {(row["stat_hour"][:10], row["workload_name"]): row["labels"] for row in page["data"]}
    assert labels["2025-11-05", "batch"] == {"team": "y"}


@pytest.mark.parametrize("order", RowOrder)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("step", [StepUnit.HOUR, StepUnit.DAY, StepUnit.TOTAL])
def test_pages_of_steps(database: Database, order: RowOrder, ascending: bool, step: StepUnit) -> None:
    """The pages together are all rows, each once, in one order; row ids are unique."""
    asked: dict[str, Any] = {"order": order, "ascending": ascending}
    for level in (Level.WORKLOAD, Level.NODE):
        whole = ledger(database, replace(ALL, step=step), level, **asked)
        found: list[Any] = []
        for number in range(1, 200):
            page = ledger(database, replace(ALL, step=step, paging=Paging(number, 3)), level, **asked)
            assert page["total"] == len(whole)
            found += page["data"]
            if number >= page["total_pages"]:
                break
        assert found == whole
        if order is RowOrder.ALLOCATED and step is StepUnit.TOTAL:
            values = [row["allocated_gpu_seconds"] for row in whole]
            assert values == sorted(values, reverse=not ascending)
    rows = workload_hours(database, replace(ALL, step=step))
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(0 < row["id"] < 2**53 for row in rows)


def test_ranges_far_outside_the_data(database: Database) -> None:
    for step in StepUnit:
        before = replace(ALL, step=step, start=BEGIN - 900 * DAY, end=BEGIN - 800 * DAY)
        assert ledger(database, before, Level.CLUSTER) == []
        assert ledger(database, before, Level.NODE) == []
        forever = replace(ALL, step=step, start=-60_000_000_000, end=250_000_000_000)
        assert ledger(database, forever, Level.MODEL) != []


@contextmanager
def statements_of(database: Database) -> Iterator[list[str]]:
    """Record the SQL statements that the database receives in this block."""
    with database.reading() as connection:
        engine = connection.engine
    found: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_number_of_statements_is_independent_of_steps(database: Database) -> None:
    counts = {}
    for length in (24, 54):
        hours = replace(ALL, end=BEGIN + length * HOUR, step=StepUnit.DAY, tz="Asia/Kolkata")
        with statements_of(database) as statements:
            rows: Any = namespace_hours(database, hours)
            namespace_hours(database, replace(hours, paging=Paging(1, 2)))
            label_hours(database, hours, Level.LABEL, "team")
        counts[len({row["stat_hour"] for row in rows})] = len(statements)
    assert counts.keys() == {2, 3}
    assert counts[2] == counts[3]


def test_ledger_does_not_read_histograms_or_holders(database: Database) -> None:
    """Histograms and holders are the largest columns, and the ledger does not need them."""
    hours = replace(ALL, step=StepUnit.TOTAL)
    with statements_of(database) as statements:
        for level in (Level.CLUSTER, Level.NAMESPACE, Level.WORKLOAD):
            assert ledger(database, hours, level)
    assert not [text for text in statements if "sums.histogram" in text or "periods.holders" in text]
    with statements_of(database) as statements:
        cluster_hours(database, hours)
        namespace_hours(database, hours)
    assert [text for text in statements if "sums.histogram" in text or "periods.holders" in text]


def test_workload_with_two_values_counts_once_for_each(tmp_path: Path) -> None:
    pods = [
        pod("p1", "train", 2, 0, 2 * HOUR, team="x", app="one"),
        pod("p2", "train", 2, 2 * HOUR, 4 * HOUR, team="x", app="two"),
        pod("p3", "serve", 1, 0, 4 * HOUR, team="x", app="one"),
    ]
    found = open_database(str(tmp_path / "usage.db"))
    cluster = found.put_cluster("uid", "lab")
    found.put_changes(cluster, BEGIN + 4 * HOUR, holdings=pods)
    for number in range(4):
        begin = BEGIN + number * HOUR
        hour = roll_up(begin, HOUR, pods, NODES, [], 15, label_keys=("app", "team"), annotation_keys=())
        found.put_rolled_up(cluster, hour, provisional=False)
    hours = replace(ALL, step=StepUnit.TOTAL)
    counts = {
        key: [row["active_workload_count"] for row in label_hours(found, hours, Level.LABEL, key)]
        for key in ("app", "team")
    }
    found.close()
    assert counts == {"app": [2, 1], "team": [2]}


def test_ratios_of_a_very_short_holding(tmp_path: Path) -> None:
    """A third of a GPU for half a second: coverage and utilization are not distorted by rounding, in the service and in
    the client.
    """
    moment = 1 / 6
    sums = Sums(alloc_gpu_s=moment, cap_gpu_s=HOUR, free_gpu_s=HOUR - moment, obs_gpu_s=moment, util_gpu_s=95 * moment)
    found = open_database(str(tmp_path / "usage.db"))
    found.put_rolled_up(
        found.put_cluster("uid", "lab"), RolledUp(BEGIN, HOUR, {Group(Level.CLUSTER): sums}, "d"), False
    )
    [row] = ledger(found, ALL, Level.CLUSTER)
    found.close()
    told = ledger_line(row).use
    assert (told.coverage, round(told.mean_use or 0, 2)) == (1, 95)
    assert (row["coverage"], row["avg_utilization"], row["closes"]) == (1, 95, True)
