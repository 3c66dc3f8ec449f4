"""Costs over a price change: usage before and after it is charged at the price of its time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from shutil import copy
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import delete, select

from gpuctl.cli.main import run
from gpuctl.language.usage_block import UsagePrices
from gpuctl.objects.durations import DAY, HOUR
from gpuctl.reading.usage.price_list import PriceList, price_list
from gpuctl_usage.answers.held_models import held_models
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.idle_gpu_answers import waste
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.ledger_costs import with_costs
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import RetentionDays, WorkloadKey
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.database_tables import periods, sums
from gpuctl_usage.store.engines import engine_of, url_of, write_transaction
from gpuctl_usage.sums import Level
from support.month_tables import cents, tables_of_markdown
from support.small_usage import UsageWorld, Worker, small_world

START = int(datetime(2026, 10, 30, tzinfo=timezone.utc).timestamp())
END = START + 26 * HOUR

CASES: dict[str, tuple[str, dict[str, float], dict[str, dict[str, float]]]] = {
    # A date begins at midnight in its zone. In Kathmandu, UTC+5:45, new prices count from the next full UTC hour.
    "one change": ("UTC", {"A100-80G": 20, "H20": 10}, {"2026-10-31": {"A100-80G": 15.5}}),
    "several": (
        "Asia/Shanghai",
        {"A100-80G": 20, "H20": 10},
        {
            "2026-09-01": {"H20": 11},
            "2026-10-30": {"H20": 12},
            "2026-10-31": {"A100-80G": 7, "H20": 3},
            "2026-11-20": {"H20": 99},
        },
    ),
    "within an hour": ("Asia/Kathmandu", {"A100-80G": 20, "H20": 10}, {"2026-10-31": {"A100-80G": 40, "H20": 1}}),
    "one price for all": ("UTC", {"A100-80G": 20, "H20": 20}, {"2026-10-31": {"A100-80G": 30, "H20": 30}}),
    "only later ones": ("UTC", {}, {"2026-10-01": {"A100-80G": 20, "H20": 10}, "2026-10-31": {"H20": 1}}),
}


def prices_at(case: str, time: float) -> dict[str, float]:
    """Return the prices at a time: those of the date on which its hour begins."""
    zone, prices, changes = CASES[case]
    today = datetime.fromtimestamp(time // HOUR * HOUR, ZoneInfo(zone)).strftime("%Y-%m-%d")
    found = dict(prices)
    for date, more in changes.items():
        if date <= today:
            found.update(more)
    return found


def stated(case: str) -> dict[str, Any]:
    """Return the case as the `prices` of a platform document."""
    zone, prices, changes = CASES[case]
    later = [{"from": date, "models": models} for date, models in changes.items()]
    return {"timeZone": zone, "models": prices, "changes": later, "currency": "CNY"}


def costs_of(workers: Sequence[Worker], case: str, group: Callable[[Worker], str]) -> dict[str, tuple[float, float]]:
    """Return the cost of allocated and of idle GPUs per group, added up minute by minute."""
    found: dict[str, tuple[float, float]] = {}
    for worker in workers:
        held, idle = found.get(group(worker), (0.0, 0.0))
        for time in range(int(worker.start), int(worker.end or END), 60):
            price = worker.gpus / 60 * prices_at(case, time)[MODELS[worker.node]]
            use = worker.use[min(int((time - worker.start) // HOUR), len(worker.use) - 1)]
            held += price
            idle += 0.0 if use is None else price * (1 - use / 100)
        found[group(worker)] = held, idle
    return found


WORLD = small_world(START)
MODELS = {node: model for node, model, _, _ in WORLD.nodes}
REPORT = ("usage", "report", "--month", "2026-10")


@pytest.fixture(scope="module")
def world_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of WORLD, which tests read only."""
    path = tmp_path_factory.mktemp("world") / "usage.db"
    WORLD.collected(path, START, END).close()
    return path


def free_gpus(world: UsageWorld) -> list[Worker]:
    """Return the free GPUs of n1, each half hour as a worker; n2 is not schedulable."""
    found = []
    for start in range(START, END, HOUR // 2):
        there = [one for one in world.workers if one.start <= start < (one.end or END) and one.node == "n1"]
        free = 8 - sum(worker.gpus for worker in there)
        found.append(Worker(WorkloadKey("", "", "", ""), "n1", free, (None,), float(start), start + HOUR / 2))
    return found


@pytest.mark.parametrize("tz", ["UTC", "Asia/Shanghai"])
@pytest.mark.parametrize("case", CASES)
def test_costs_when_prices_change(
    case: str, tz: str, world_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = tmp_path / "platform.yaml"
    platform.write_text(json.dumps({"kind": "platform", "usage": {"prices": stated(case)}}))
    assert run([*REPORT, "--tz", tz, "--database", str(world_file), "--platform", str(platform)]) == 0
    tables = tables_of_markdown(capsys.readouterr().out)
    titles: dict[str, Callable[[Worker], str]] = {
        "By namespace": lambda worker: worker.workload.namespace,
        "By team": lambda worker: worker.labels.get("team", "__unset__"),
        "Workloads that held the most": lambda worker: worker.workload.name,
        "Workloads that left the most idle": lambda worker: worker.workload.name,
    }
    for title, group in titles.items():
        costs = costs_of(WORLD.workers, case, group)
        shown = {row[0]: (cents(row[-2]) / 100, cents(row[-1]) / 100) for row in tables[title]}
        whole = [sum(column) for column in zip(*costs.values(), strict=True)]
        assert shown.pop("all") == pytest.approx(whole, abs=0.006), title
        assert shown.keys() == costs.keys()
        for name, amounts in shown.items():
            assert amounts == pytest.approx(costs[name], abs=0.011), (title, name)
    rows = {row[0]: row[-3:] for row in tables["By model"]}
    for model, amounts in costs_of(WORLD.workers, case, lambda worker: MODELS[worker.node]).items():
        assert [cents(cell) / 100 for cell in rows[model][:2]] == pytest.approx(amounts, abs=0.011)
    free = costs_of(free_gpus(WORLD), case, lambda worker: "n1")["n1"][0]
    assert [cents(rows[name][2]) / 100 for name in MODELS.values()] == pytest.approx([free, 0.0], abs=0.006)


def test_idle_cost_of_waste(tmp_path: Path) -> None:
    """The cluster's and a workload's idle cost over ranges that begin and end within hours."""
    key = WorkloadKey("nlp", "StatefulSet", "lab", "w-lab")
    lab = Worker(key, "n2", 2, (60.0, 50.0, 1.0), START + 2.0 * HOUR, None, {"team": "research"})
    world = replace(WORLD, workers=(lab,))
    ranges = (START, END), (START + 1800, START + 24 * HOUR - 1), (START + 17 * HOUR, START + 18 * HOUR)
    with closing(world.collected(tmp_path / "usage.db", START, END)) as database:
        for case, (first, last) in product(CASES, ranges):
            prices = price_list(UsagePrices.model_validate(stated(case)))
            found = waste(database, "", float(first), float(last), prices=prices)
            # The hours that begin in the range.
            hours = range(max(-(-first // HOUR) * HOUR, int(lab.start)), last, HOUR)
            parts = [
                replace(lab, use=(lab.use[min(int(hour - lab.start) // HOUR, 2)],), start=hour, end=hour + HOUR)
                for hour in hours
            ]
            cost = costs_of(parts, case, lambda worker: "")[""][1]
            costs = [found["total_idle_cost"], found["workloads"][0]["idle_cost"]]
            assert costs == pytest.approx([cost] * 2, abs=0.006), (case, first, last)


def test_idle_cost_is_unknown_if_a_workload_left_gpus_of_several_prices_idle(address: str) -> None:
    """It moved: the busy hours on the A100 must not be charged by the H20 that it leaves idle now."""
    key = WorkloadKey("nlp", "Deployment", "lab", "w-lab")
    busy = Worker(key, "n1", 4, (90.0,), START, START + 10.0 * HOUR)
    idle = Worker(key, "n2", 4, (1.0,), START + 10.0 * HOUR, None)
    prices = PriceList({"A100-80G": 20.0, "H20": 10.0}, "CNY")
    with closing(replace(WORLD, workers=(busy, idle)).collected(address, START, END)) as database:

        def costs(start: int, prices: PriceList) -> tuple[float | None, float | None]:
            found = waste(database, "", float(start), float(END), prices=prices)
            return found["total_idle_cost"], found["workloads"][0]["idle_cost"]

        expected = 40 * 0.1 * 20 + 64 * 0.99 * 10
        assert costs(START, prices) == (pytest.approx(expected), None)
        assert costs(START + 10 * HOUR, prices) == pytest.approx((64 * 0.99 * 10,) * 2)
        assert costs(START, PriceList({"A100-80G": 10.0, "H20": 10.0})) == pytest.approx((40 + 64 * 9.9,) * 2)


def test_idle_hours_of_pruned_days_count(tmp_path: Path) -> None:
    """The hours of the first day are deleted, and its sums remain."""
    with closing(WORLD.collected(tmp_path / "usage.db", START, END)) as database:
        days = DayRoller(database, 1)
        days.begin(END)
        assert days.roll_due(END) == 1
        before = waste(database, "", float(START), float(END))
        while database.prune(1, RetentionDays(9, 9, 1, 9), END + DAY):
            pass
        assert set(database.hours(1, 0, 2**40)) == {START + 24 * HOUR, START + 25 * HOUR}
        after = waste(database, "", float(START), float(END))
        assert after["total_idle_gpu_hours"] == before["total_idle_gpu_hours"]
        figures = [(row["idle_gpu_hours"], row["allocated_gpu_hours"]) for row in before["workloads"]]
        assert [(row["idle_gpu_hours"], row["allocated_gpu_hours"]) for row in after["workloads"]] == figures


GROUPS: dict[Level, Callable[[Worker], str]] = {
    Level.CLUSTER: lambda worker: "",
    Level.NAMESPACE: lambda worker: worker.workload.namespace,
    Level.LABEL: lambda worker: worker.labels.get("team", "__unset__"),
    Level.ANNOTATION: lambda worker: worker.annotations.get("cost-center", "__unset__"),
    Level.WORKLOAD: lambda worker: worker.workload.uid,
    Level.MODEL: lambda worker: MODELS[worker.node],
}
KEYS = {Level.LABEL: "team", Level.ANNOTATION: "cost-center"}
GAP = range(START + 6 * HOUR, START + 8 * HOUR, HOUR)
"""Hours that were never collected."""


DARK = next(worker for worker in WORLD.workers if worker.workload.name == "detect")
WORKERS = (
    *WORLD.workers,
    # A second pod of the workload, of another team.
    replace(DARK, start=START + 5.0 * HOUR, end=START + 9.5 * HOUR, labels={"team": "product"}),
)


@pytest.fixture(scope="module")
def collected(shared_address: str) -> Iterator[Database]:
    """A world of WORKERS in which the hours of GAP are unknown. Tests read it only."""
    with closing(replace(WORLD, workers=WORKERS).collected(shared_address, START, END)) as database:
        engine = engine_of(url_of(shared_address))
        with write_transaction(engine) as connection:
            gone = select(periods.c.id).where(periods.c.start.in_(list(GAP)))
            connection.execute(delete(sums).where(sums.c.period_id.in_(gone)))
            connection.execute(delete(periods).where(periods.c.id.in_(gone)))
        engine.dispose()
        yield database


def known_workers(first: float = START, last: float = END) -> list[Worker]:
    """Return WORKERS cut to a range, without GAP."""
    found = []
    for worker in WORKERS:
        for begin, end in ((first, GAP.start), (GAP.stop, last)):
            start, stop = max(worker.start, begin), min(worker.end or END, end)
            found += [replace(worker, start=start, end=stop)] if start < stop else []
    return found


@pytest.mark.parametrize("case", CASES)
def test_cost_of_ledger_rows(case: str, collected: Database) -> None:
    hours = HoursQuery("", START, END, step=StepUnit.TOTAL)
    prices = price_list(UsagePrices.model_validate(stated(case)))
    for level, group in GROUPS.items():
        key = KEYS.get(level, "")
        rows = with_costs(collected, hours, level, key, ledger(collected, hours, level, key), prices)
        costs = {name: held for name, (held, _) in costs_of(known_workers(), case, group).items()}
        assert {row["value"]: row["cost"] for row in rows} == pytest.approx(costs, abs=0.006), level
        assert {row["currency"] for row in rows} == {"CNY"}
        paged = replace(hours, paging=Paging(2, 2))
        page = ledger(collected, paged, level, key)["data"]
        assert with_costs(collected, paged, level, key, page, prices) == rows[2:4]


def test_cost_of_some_namespaces(collected: Database) -> None:
    prices = PriceList({"A100-80G": 20, "H20": 10})
    hours = HoursQuery("", START, END, namespaces=["nlp", "vision"], excluded=["nlp"], step=StepUnit.TOTAL)
    for level in (Level.NAMESPACE, Level.WORKLOAD):
        rows = with_costs(collected, hours, level, "", ledger(collected, hours, level), prices)
        assert [(row["value"], row["cost"]) for row in rows] == [
            ({Level.NAMESPACE: "vision", Level.WORKLOAD: "w-dark"}[level], 10.0 * (23 + 4.5 - 2 * 2))
        ]


@pytest.mark.parametrize("level", [Level.LABEL, Level.ANNOTATION])
def test_held_models_add_up_to_what_pods_held(level: Level, collected: Database) -> None:
    first, last = START + 5.0 * HOUR, START + 20.0 * HOUR
    hours = HoursQuery("", first, last)
    for key, value_of in (("", lambda worker: ""), (KEYS[level], GROUPS[level])):
        expected: dict[tuple[str, ...], float] = {}
        for worker in known_workers(first, last):
            group = (*worker.workload, MODELS[worker.node], value_of(worker))
            expected[group] = expected.get(group, 0.0) + worker.gpus * ((worker.end or END) - worker.start)
        rows = held_models(collected, hours, level, key)
        names = ("namespace", "workload_type", "workload_name", "owner_uid", "model", "value")
        found = [(tuple(row[name] for name in names), row["allocated_gpu_seconds"]) for row in rows]
        assert found == sorted(expected.items())
        page = held_models(collected, replace(hours, paging=Paging(2, 2)), level, key)
        assert (page["total"], page["data"]) == (len(rows), rows[2:4])


def test_cost_of_ledger_rows_is_unknown_without_prices_or_holdings(tmp_path: Path) -> None:
    hours = HoursQuery("", START, END, step=StepUnit.TOTAL)

    def costs(prices: PriceList) -> dict[str, float | None]:
        found = ledger(database, hours, Level.NAMESPACE)
        return {row["value"]: row["cost"] for row in with_costs(database, hours, Level.NAMESPACE, "", found, prices)}

    with closing(WORLD.collected(tmp_path / "usage.db", START, END)) as database:
        assert set(costs(PriceList()).values()) == {None}
        # Only chat holds A100s and nothing else.
        partly = costs(PriceList({"A100-80G": 2.0}))
        assert [name for name, cost in partly.items() if cost is not None] == ["serving"]
        with closing(sqlite3.connect(tmp_path / "usage.db")) as direct, direct:
            direct.execute("DELETE FROM holdings WHERE namespace = 'serving'")
        assert costs(PriceList({"A100-80G": 2.0, "H20": 1.0}))["serving"] is None


def test_report_shows_prices_with_dates(world_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    platform = tmp_path / "platform.yaml"
    platform.write_text(json.dumps({"kind": "platform", "usage": {"prices": stated("several")}}))
    assert run([*REPORT, "--database", str(world_file), "--platform", str(platform)]) == 0
    rows = {row[0]: row for row in tables_of_markdown(capsys.readouterr().out)["By model"]}
    assert rows["A100-80G"][-4] == "20; 7 from 2026-10-31"
    assert rows["H20"][-4] == "11; 12 from 2026-10-30; 3 from 2026-10-31"


def test_missing_price_affects_only_its_period(
    world_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cost is unknown only for usage from the time when the model had no price."""
    platform = tmp_path / "platform.yaml"
    prices = {"models": {"A100-80G": 20}, "changes": [{"from": "2026-10-31", "models": {"H20": 1}}]}
    platform.write_text(json.dumps({"kind": "platform", "usage": {"prices": prices}}))
    where = ["--database", str(world_file), "--platform", str(platform)]
    assert run([*REPORT, *where]) == 0
    text = capsys.readouterr().out
    tables = tables_of_markdown(text)
    costs = {row[0]: row[-2:] for row in tables["By namespace"]}
    assert costs["nlp"] == costs["vision"] == costs["all"] == ["-", "-"]
    assert "-" not in costs["serving"]
    assert "1 of the models have no price" in text
    assert [row[-4] for row in tables["By model"][:2]] == ["20", "1 from 2026-10-31"]


def test_price_change_within_a_day_with_pruned_hours(
    world_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If only UTC days are kept, the cost over a change within such a day is unknown, and the report says so."""
    path, platform = Path(copy(world_file, tmp_path)), tmp_path / "platform.yaml"
    with closing(open_database(str(path), clock=lambda: float(END))) as database:
        cluster = database.put_cluster("uid-1", "prod")
        DayRoller(database, cluster).roll(START)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM sums WHERE period_id IN (SELECT id FROM periods WHERE span = 'hour')")
        connection.execute("DELETE FROM periods WHERE span = 'hour'")
        connection.commit()
    for zone, cost in (("UTC", False), ("Asia/Shanghai", True)):
        prices = {
            "timeZone": zone,
            "models": {"A100-80G": 20, "H20": 20},
            "changes": [{"from": "2026-10-31", "models": {"A100-80G": 10, "H20": 10}}],
        }
        platform.write_text(json.dumps({"kind": "platform", "usage": {"prices": prices}}))
        assert run([*REPORT, "--database", str(path), "--platform", str(platform)]) == 0
        text = capsys.readouterr().out
        *_, last = tables_of_markdown(text)["By model"]
        assert (last[-3] == "-") == cost
        assert ("price changes within a day whose hours are no longer kept" in text) == cost
        assert ("have no price" in text) is False


def test_periods_of_a_price_list() -> None:
    """Periods cover the range without overlap, and each minute has the prices of its hour."""
    for case in CASES:
        found = price_list(UsagePrices.model_validate(stated(case)))
        periods = list(found.periods(START, END))
        assert [period.start for period in periods] == [START, *(period.end for period in periods[:-1])]
        assert periods[-1].end == END
        for time in range(START, END, 300):
            (models,) = [period.models for period in periods if period.start <= time < period.end]
            assert models == prices_at(case, time)
        assert len(periods) <= 1 + len(CASES[case][2])
        assert found.currency == "CNY"
