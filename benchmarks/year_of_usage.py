"""Measure a year of usage of 10,000 GPUs: the size of the database, and the CPU time of queries.

    python benchmarks/year_of_usage.py [DATABASE | --postgresql]

Run alone, it prints its rows; `make bench` includes them. A given database (path or URL) is kept, and queried without
filling it if it already has the year. `--postgresql` starts a temporary server. USAGE_DAYS in the environment sets the
number of days, 31 or more; sizes are extrapolated to a year.

Days are written for the whole year. Hours are written for its last month and for the days on which months begin in
other time zones; the size of the others is extrapolated, because writing them would take long. 1,000 workloads hold
GPUs at any time, each for three days, a tenth of them idle. There are 250 label values, 50 namespaces and 1,250 nodes.
Nine of ten namespaces have a quota that changes in most months. Everything is written by the functions of the store,
except for the later hours of a day, which are copies of the first one.

The time of a query is CPU time including the JSON or CSV encoding: the 39th of 41 calls, each with other parameters.
The CPU time of a PostgreSQL server on this machine is included.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from sqlalchemy import insert, literal, select, text

from gpuctl.objects.durations import DAY, HOUR
from gpuctl.reading.usage.price_list import PriceList
from gpuctl_usage.answers.held_models import held_models
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, label_hours, namespace_hours, workload_hours
from gpuctl_usage.answers.idle_gpu_answers import waste
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.ledger_costs import with_costs
from gpuctl_usage.answers.name_answers import cluster_names, dimension_keys, dimension_values, namespace_names
from gpuctl_usage.answers.query_scope import Cursor, Paging
from gpuctl_usage.answers.rows_as_csv import as_csv
from gpuctl_usage.answers.snapshot_answers import latest, snapshot_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import AllocationSnapshot, GpuQuota, Holding, WorkloadAllocation, WorkloadKey
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.database_tables import periods, sums
from gpuctl_usage.store.engines import engine_of, url_of, write_transaction
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import Group, LabeledWorkload, Level, RolledUp, Sums

YEAR, END = 365, 1_767_225_600
"""END is 2026-01-01T00:00:00Z."""
DAYS = int(os.environ.get("USAGE_DAYS", YEAR))
BEGIN = END - DAYS * DAY
WORKLOADS, NAMESPACES, NODES, LASTS = 1000, 50, 1250, 3
VALUES = {"team": 50, "project": 100, "app": 60, "env": 4, "cost-center": 36}
HOURS, SNAPSHOTS = 31, 2
"""Number of days at the end that have hours, and snapshots."""
MOST_MS, MOST_MS_BY_LABEL = 250, 500
MOST_BYTES = {"SQLite": 6_000_000_000, "PostgreSQL": 6_000_000_000}
CALLS = 41

Report = Callable[[str, str, str, "bool | None"], None]


class SampleSums:
    """Reproducible random sums for the year."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._sums = {span: [self._one(span, 5, 95) for _ in range(400)] for span in PeriodLength}
        self._idle = {span: [self._one(span, 0, 3) for _ in range(40)] for span in PeriodLength}

    def _one(self, span: PeriodLength, least: float, most: float) -> Sums:
        mean, seconds = self._random.uniform(least, most), float(span.seconds)
        histogram: dict[int, int] = {}
        for _ in range(int(seconds // 60)):
            number = min(100, max(0, round(self._random.gauss(mean, min(5, mean)))))
            histogram[number] = histogram.get(number, 0) + 1
        held = 8 * seconds * self._random.choice((1, 1, 1, self._random.random()))
        seen = held * self._random.choice((1, 1, self._random.uniform(0.9, 1)))
        return Sums(
            *(held, held),
            obs_gpu_s=seen,
            util_gpu_s=mean * seen,
            util_min=max(0.0, mean - 9),
            util_max=min(100.0, mean + 9),
            histogram=histogram,
            memory_obs_gpu_s=seen,
            memory_used_gpu_s=seen * self._random.uniform(5, 75),
            memory_total_gpu_s=seen * 80,
            memory_max=self._random.uniform(5, 80),
            pod_s=seconds,
            pods_min=1,
            pods_max=1,
            workloads=4,
            samples=int(seconds // 15) * 8,
            buckets=int(seconds // 300),
        )

    def period(self, start: int, span: PeriodLength) -> RolledUp:
        """Return an hour or a day."""
        whole = replace(self._some(span), cap_gpu_s=10_000.0 * span.seconds, free_gpu_s=1e6)
        groups = {Group(Level.CLUSTER): whole}
        names = [Group(Level.NAMESPACE, value=f"namespace-{number}") for number in range(NAMESPACES)]
        names += [Group(Level.MODEL, value=name) for name in ("A100", "H100", "H200")]
        names += [
            Group(Level.LABEL, key, f"{key}-{number}") for key, count in VALUES.items() for number in range(count)
        ]
        names += [Group(Level.NODE, value=f"gpu-node-{number}") for number in range(NODES)]
        groups.update((name, self._some(span)) for name in names)
        holders = set()
        for number in active(start):
            key = workload(number)
            used = self._random.choice(self._idle[span]) if number % 10 == 0 else self._some(span)
            groups[Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid)] = used
            holders.add(LabeledWorkload(key, labels(number), ()))
        return RolledUp(start, float(span.seconds), groups, f"{span.value} {start}", 0, frozenset(holders))

    def _some(self, span: PeriodLength) -> Sums:
        return self._random.choice(self._sums[span])


def active(time: int) -> range:
    """Return the numbers of the workloads that hold GPUs; a third of them changes every day."""
    first = (time - BEGIN) // DAY * WORKLOADS // LASTS
    return range(first, first + WORKLOADS)


def workload(number: int) -> WorkloadKey:
    """Return the key of a workload."""
    return WorkloadKey(f"namespace-{number % NAMESPACES}", "Job", f"training-{number}", f"{number:08x}-9a1b-4c5d")


def labels(number: int) -> tuple[tuple[str, str], ...]:
    """Return the labels of a workload, sorted."""
    return tuple(sorted((key, f"{key}-{number % count}") for key, count in VALUES.items()))


def fill(database: Database, address: str) -> dict[str, float]:
    """Fill the database; return the bytes of an hour, a day and a snapshot, including their groups."""
    made, cluster = SampleSums(), database.put_cluster("uid", "prod")
    begun = database.size()
    for day in range(BEGIN, END, DAY):
        first = active(day - DAY).stop if day > BEGIN else 0
        new = [held(number, day) for number in range(first, active(day).stop)]
        database.put_changes(cluster, day + DAY, holdings=new)
        database.put_rolled_up(cluster, made.period(day, PeriodLength.DAY), False, PeriodLength.DAY)
    database.put_changes(
        cluster, quotas=[quota for number in range(NAMESPACES) if number % 10 for quota in quotas(number)]
    )
    of_days, hours = database.size() - begun, days_of_hours()
    for day in hours:
        database.put_rolled_up(cluster, made.period(day, PeriodLength.HOUR), False)
    _copy_hours(address)
    # Writing an hour has made its day provisional: write the day again.
    for day in hours:
        there = database.hours(cluster, day, day + DAY)
        database.put_day(
            cluster, made.period(day, PeriodLength.DAY), {start: state.digest for start, state in there.items()}
        )
    of_hours = database.size() - begun - of_days
    for time_ in range(END - SNAPSHOTS * DAY, END, 300):
        database.put_changes(cluster, snapshots=[snapshot(time_)])
    of_snapshots = database.size() - begun - of_days - of_hours
    each = {"day": of_days / DAYS, "hour": of_hours / (len(hours) * 24)}
    return each | {"snapshot": of_snapshots / (SNAPSHOTS * DAY / 300)}


def days_of_hours() -> list[int]:
    """Return the days with hours: the last ones, and those in which a month begins in time zones east of Greenwich."""
    months = (datetime(2025, month, 1, tzinfo=timezone.utc) for month in range(2, 13))
    before = (int(month.timestamp()) - DAY for month in months)
    return sorted({day for day in before if day >= BEGIN} | set(range(END - HOURS * DAY, END, DAY)))


def _copy_hours(address: str) -> None:
    """Copy the first hour of each day to its other hours."""
    engine = engine_of(url_of(address))
    of_period = [column.name for column in periods.c if column.name not in ("id", "start")]
    of_sums = [column.name for column in sums.c if column.name != "period_id"]
    with write_transaction(engine) as connection:
        firsts = connection.execute(select(periods.c.id, periods.c.start).where(periods.c.span == "hour")).all()
        for first, start in firsts:
            for later in range(1, 24):
                row = select(literal(start + later * HOUR), *(periods.c[name] for name in of_period))
                copied = insert(periods).from_select(["start", *of_period], row.where(periods.c.id == first))
                connection.execute(copied)
                number = connection.execute(
                    select(periods.c.id).where(periods.c.span == "hour", periods.c.start == start + later * HOUR)
                ).scalar_one()
                row = select(literal(number), *(sums.c[name] for name in of_sums)).where(sums.c.period_id == first)
                connection.execute(insert(sums).from_select(["period_id", *of_sums], row))
    engine.dispose()


def held(number: int, day: int) -> Holding:
    """Return the holding of a workload's pod; those of the last days are still open."""
    key = workload(number)
    begin, end = float(day), float(day + LASTS * DAY)
    where = key.name, key, f"gpu-node-{number % NODES}", 8.0, "H100"
    until = None if end > END else end
    return Holding(f"pod-{number}", key.namespace, *where, dict(labels(number)), {}, begin, begin, until)


def quotas(number: int) -> list[GpuQuota]:
    """Return the quotas of a namespace: a new one every 30 days, in the middle of an hour, and none in some months."""
    changes = [BEGIN + number * 12_345 + month * 30 * DAY for month in range(13)]
    spells = enumerate(pairwise(changes))
    return [
        GpuQuota(f"namespace-{number}", 100.0 + 8 * month, float(start), float(end))
        for month, (start, end) in spells
        if (month + number) % 6
    ]


def snapshot(time_: int) -> AllocationSnapshot:
    """Return a snapshot with every active workload."""
    items = tuple(WorkloadAllocation(workload(number), 8, number % 100 / 1.0) for number in active(time_))
    return AllocationSnapshot(time_, 10_000, 8000, items)


RunQuery = Callable[[Database, random.Random], Any]


class Query(NamedTuple):
    """A documented query: its route below ``/gpu-aggregation``, and the function that runs it."""

    route: str
    name: str
    ask: RunQuery
    most_ms: float = MOST_MS
    as_csv: bool = False


def _window(some: random.Random, days: int, **more: Any) -> HoursQuery:
    """Return a range of ``days`` days that ends within the stored hours."""
    if days >= DAYS:
        return HoursQuery("", BEGIN + some.randrange(10) * DAY, END - some.randrange(240) * HOUR, **more)
    last = END - some.randrange((HOURS - days) * 24) * HOUR
    return HoursQuery("", last - days * DAY, last, **more)


def _a_year(some: random.Random, step: StepUnit, **more: Any) -> HoursQuery:
    return _window(some, YEAR, step=step, **more)


def _namespace(some: random.Random) -> str:
    return f"namespace-{some.randrange(NAMESPACES)}"


def _page(some: random.Random) -> Paging:
    return Paging(some.randrange(1, 20), 50)


ZONES = ("Asia/Shanghai", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
_BY_USE: dict[str, Any] = {"order": RowOrder.UTILIZATION, "ascending": False}
_MOST: dict[str, Any] = {"order": RowOrder.ALLOCATED, "ascending": False}


def queries() -> list[Query]:
    """Return all documented queries."""
    of_groups = *_of_namespaces(), *_of_labels(), *_of_workloads()
    return [*_of_names(), *_of_clusters(), *of_groups, *_of_ledgers(), *_of_costs(), *_now()]


def _of_names() -> Iterator[Query]:
    yield Query("/clusters", "their names", lambda database, _: cluster_names(database))
    yield Query("/namespaces", "their names", lambda database, _: namespace_names(database, ""))
    yield Query("/dimension-keys", "of labels", lambda database, _: dimension_keys(database, "", Level.LABEL))
    yield Query(
        *("/dimension-values", "of a label"),
        lambda database, some: dimension_values(database, "", Level.LABEL, some.choice(list(VALUES))),
    )


def _of_clusters() -> Iterator[Query]:
    route = "/cluster/hourly-stats"
    for name, days in (("a day", 1), ("a week", 7), ("a month", 30)):
        yield Query(route, name, lambda database, some, days=days: cluster_hours(database, _window(some, days)))
    for step in (StepUnit.DAY, StepUnit.WEEK, StepUnit.MONTH, StepUnit.TOTAL):
        yield Query(
            *(route, f"a year by {step.value}"),
            lambda database, some, step=step: cluster_hours(database, _a_year(some, step)),
        )
    yield Query(
        *(route, "a year by month of a time zone"),
        lambda database, some: cluster_hours(database, _a_year(some, StepUnit.MONTH, tz=some.choice(ZONES))),
    )
    yield Query(
        *(route, "a month by day of a time zone"),
        lambda database, some: cluster_hours(database, _window(some, 30, step=StepUnit.DAY, tz=some.choice(ZONES))),
    )
    yield Query(route, "a month, CSV", lambda database, some: cluster_hours(database, _window(some, 30)), as_csv=True)


def _of_namespaces() -> Iterator[Query]:
    route = "/namespaces/hourly-stats"

    def one(database: Database, some: random.Random, days: int, **more: Any) -> Any:
        return namespace_hours(database, _window(some, days, **more), _namespace(some))

    yield Query(route, "a day", lambda database, some: namespace_hours(database, _window(some, 1)))
    yield Query(route, "a day, CSV", lambda database, some: namespace_hours(database, _window(some, 1)), as_csv=True)
    yield Query(
        route,
        "a day, with idle ones",
        lambda database, some: namespace_hours(database, _window(some, 1), with_idle=True),
    )
    yield Query(
        *(route, "a week but for some, a page of 1000"),
        lambda database, some: namespace_hours(
            database,
            _window(some, 7, paging=Paging(some.randrange(1, 8), 1000), excluded=[_namespace(some) for _ in range(5)]),
        ),
    )
    yield Query(
        *(route, "a month, a page of 1000"),
        lambda database, some: namespace_hours(database, _window(some, 30, paging=Paging(some.randrange(1, 30), 1000))),
    )
    yield Query(
        *(route, "a month by day of a time zone"),
        lambda database, some: namespace_hours(database, _window(some, 30, step=StepUnit.DAY, tz=some.choice(ZONES))),
    )
    yield Query(route, "one, a month", lambda database, some: one(database, some, 30))
    yield Query(route, "one, a year by day", lambda database, some: one(database, some, YEAR, step=StepUnit.DAY))
    for step in (StepUnit.WEEK, StepUnit.MONTH, StepUnit.TOTAL):
        yield Query(
            *(route, f"a year by {step.value}"),
            lambda database, some, step=step: namespace_hours(database, _a_year(some, step)),
        )


def _of_labels() -> Iterator[Query]:
    route = "/labels/hourly-stats"

    def ask(database: Database, some: random.Random, days: int, value: str = "", **more: Any) -> Any:
        key = some.choice(list(VALUES))
        said = f"{key}-{some.randrange(VALUES[key])}" if value else ""
        return label_hours(database, _window(some, days, **more), Level.LABEL, key, said)

    yield Query(route, "a day", lambda database, some: ask(database, some, 1))
    yield Query(route, "a week, a page of 1000", lambda database, some: ask(database, some, 7, paging=Paging(1, 1000)))
    yield Query(route, "a month by day", lambda database, some: ask(database, some, 30, step=StepUnit.DAY))
    yield Query(route, "one value, a month", lambda database, some: ask(database, some, 30, "one"))
    for step in (StepUnit.WEEK, StepUnit.MONTH, StepUnit.TOTAL):
        yield Query(
            *(route, f"a year by {step.value}"),
            lambda database, some, step=step: ask(database, some, YEAR, step=step),
            MOST_MS_BY_LABEL,
        )


def _of_workloads() -> Iterator[Query]:
    route = "/workloads/hourly-stats"

    def ask(database: Database, some: random.Random, days: int, about: Mapping[str, Any] = {}, **more: Any) -> Any:
        return workload_hours(database, _window(some, days, **{"paging": _page(some), **more}), **about)

    def one(database: Database, some: random.Random) -> Any:
        latest = _window(some, 7, paging=Paging(1, 100))
        key = workload(some.choice(active(END - some.randrange(1, 5) * DAY)))
        return workload_hours(database, latest, namespace=key.namespace, name=key.name)

    def of_one(database: Database, some: random.Random, days: int, **more: Any) -> Any:
        return ask(database, some, days, {"namespace": _namespace(some), "kind": some.choice(("", "Job"))}, **more)

    yield Query(route, "a day", lambda database, some: ask(database, some, 1))
    yield Query(route, "a day by use", lambda database, some: ask(database, some, 1, _BY_USE))
    yield Query(
        route, "a day, a page of 1000, CSV", lambda d, some: ask(d, some, 1, paging=Paging(3, 1000)), as_csv=True
    )
    yield Query(route, "a week", lambda database, some: ask(database, some, 7))
    yield Query(
        *(route, "a week, after a cursor"), lambda database, some: ask(database, some, 7, paging=Cursor("", 50))
    )
    yield Query(route, "of a namespace, a week", lambda database, some: of_one(database, some, 7))
    yield Query(route, "of a namespace, a year by month", lambda d, some: of_one(d, some, YEAR, step=StepUnit.MONTH))
    yield Query(route, "one, a week", one)
    yield Query(route, "a month in total by use", lambda d, some: ask(d, some, 30, _BY_USE, step=StepUnit.TOTAL))
    yield Query(
        *(route, "a year by month and by use"), lambda d, some: ask(d, some, YEAR, _BY_USE, step=StepUnit.MONTH)
    )
    for step in (StepUnit.WEEK, StepUnit.MONTH):
        yield Query(
            route, f"a year by {step.value}", lambda database, some, step=step: ask(database, some, YEAR, step=step)
        )


def _of_ledgers() -> Iterator[Query]:
    def ask(database: Database, hours: HoursQuery, level: Level, key: str = "", **more: Any) -> Any:
        return ledger(database, hours, level, key, **more)

    route = "/ledger"
    for level in (Level.CLUSTER, Level.MODEL, Level.NAMESPACE):
        yield Query(route, f"{level.value}, a day", lambda d, some, level=level: ask(d, _window(some, 1), level))
        for step in (StepUnit.WEEK, StepUnit.MONTH):
            yield Query(
                *(route, f"{level.value}, a year by {step.value}"),
                lambda d, some, level=level, step=step: ask(d, _a_year(some, step), level),
            )
    yield Query(
        *(route, "label, a year by month"),
        lambda d, some: ask(d, _a_year(some, StepUnit.MONTH), Level.LABEL, some.choice(list(VALUES))),
        MOST_MS_BY_LABEL,
    )
    yield Query(
        *(route, "workload, a month in total"),
        lambda d, some: ask(d, _window(some, 30, step=StepUnit.TOTAL, paging=_page(some)), Level.WORKLOAD),
    )
    yield Query(
        *(route, "workload, a year in total by allocated GPUs"),
        lambda d, some: ask(d, _a_year(some, StepUnit.TOTAL, paging=_page(some)), Level.WORKLOAD, **_MOST),
    )
    yield Query(
        *(route, "workload, of a namespace, a year in total by allocated GPUs"),
        lambda d, some: ask(
            d,
            _a_year(some, StepUnit.TOTAL, paging=_page(some)),
            Level.WORKLOAD,
            namespace=_namespace(some),
            **_MOST,
        ),
    )
    yield Query(
        *(route, "node, a month in total"),
        lambda d, some: ask(d, _window(some, 30, step=StepUnit.TOTAL), Level.NODE),
    )
    yield Query(
        *(route, "node, a day by hour, a page"),
        lambda d, some: ask(d, _window(some, 1, paging=_page(some)), Level.NODE),
    )


def _of_costs() -> Iterator[Query]:
    prices = PriceList(
        {"H100": 2.5}, "EUR", [(str(day), float(END - day * DAY), {"H100": day / 50}) for day in (200, 99)]
    )

    def ask(database: Database, some: random.Random, level: Level, key: str = "") -> Any:
        hours = _a_year(some, StepUnit.TOTAL, paging=_page(some) if level is Level.WORKLOAD else Paging(1, 1000))
        found = ledger(database, hours, level, key)
        assert isinstance(found, dict)
        return {**found, "data": with_costs(database, hours, level, key, found["data"], prices)}

    for level in (Level.CLUSTER, Level.NAMESPACE, Level.WORKLOAD, Level.MODEL):
        yield Query("/ledger", f"{level.value}, a year's costs", lambda d, some, level=level: ask(d, some, level))
    yield Query(
        *("/ledger", "label, a year's costs"),
        lambda d, some: ask(d, some, Level.LABEL, some.choice(list(VALUES))),
        MOST_MS_BY_LABEL,
    )
    yield Query(
        *("/workloads/models", "a month, a page of 1000"),
        lambda d, some: held_models(
            d, _window(some, 30, paging=Paging(some.randrange(1, 8), 1000)), Level.LABEL, "team"
        ),
    )
    yield Query(
        *("/workloads/models", "a year, a page of 1000"),
        lambda d, some: held_models(
            d, _window(some, YEAR, paging=Paging(some.randrange(1, 8), 1000)), Level.LABEL, "team"
        ),
    )


def _now() -> Iterator[Query]:
    def idle(database: Database, some: random.Random, days: int) -> Any:
        few = None if days > 1 else [_namespace(some) for _ in range(20)]
        asked = _window(some, days)
        return waste(database, "", asked.start, asked.end, prices=PriceList({"H100": 2.5}, "EUR"), namespaces=few)

    yield Query("/waste", "a day, of some namespaces", lambda database, some: idle(database, some, 1))
    yield Query("/waste", "a week", lambda database, some: idle(database, some, 7))
    yield Query("/snapshots/latest", "the last one", lambda database, _: latest(database, ""))
    yield Query(
        *("/snapshots", "a day, totals"),
        lambda database, some: snapshot_list(database, _window(some, 1), details=False).answer,
    )
    yield Query(
        *("/snapshots", "a day, an hour apart, of one page"),
        lambda database, some: snapshot_list(database, _window(some, 1, paging=Paging(1, 5)), interval=HOUR).answer,
    )


def measure(report: Report, address: str = "") -> None:
    """Report the rows of sizes and queries.

    :param address: a database to keep; without it, a temporary one is used.
    """
    with tempfile.TemporaryDirectory() as directory:
        address = address or str(Path(directory) / "usage.db")
        database = open_database(address, clock=lambda: float(END))
        begun = time.process_time()
        if database.is_empty():
            each = fill(database, address)
            _vacuum(address)
            _report_size(report, each, time.process_time() - begun, address)
        # As in the service and the command line: the garbage collector skips long-lived objects.
        gc.collect()
        gc.freeze()
        clock = _clock(database, address)
        for query in queries():
            times, rows = _timed(database, query, clock)
            late = times[int(len(times) * 0.95)]
            took = f"{late:.0f} ms CPU ({times[0]:.0f} / {times[len(times) // 2]:.0f} / {times[-1]:.0f}; {rows} rows)"
            report(
                f"a year of usage: {query.route}: {query.name}", took, f"< {query.most_ms:g} ms", late < query.most_ms
            )
        gc.unfreeze()
        database.close()


def _vacuum(address: str) -> None:
    """Do what autovacuum does on PostgreSQL servers; test servers have it disabled."""
    if address.startswith("postgres"):
        engine = engine_of(url_of(address))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
        engine.dispose()


def _clock(database: Database, address: str) -> Callable[[], float]:
    """Return a function for CPU seconds of this process and of the PostgreSQL backend that serves it."""
    if not address.startswith("postgres"):
        return time.process_time
    with database.reading() as connection:
        # Later queries use the same connection, and no parallel workers.
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    spent = Path(f"/proc/{own}/schedstat")
    return lambda: time.process_time() + int(spent.read_text().split()[0]) / 1e9


def _report_size(report: Report, each: Mapping[str, float], taken: float, address: str) -> None:
    whole = each["hour"] * YEAR * 24 + each["day"] * YEAR + each["snapshot"] * 14 * 288
    engine = "PostgreSQL" if address.startswith("postgres") else "SQLite"
    most = MOST_BYTES[engine]
    value = f"{whole / 1e9:.2f} GB ({each['hour'] / 1024:.0f} KiB an hour, {each['day'] / 1024:.0f} a day)"
    title = f"a year of 10,000 GPUs in {engine}, from {HOURS} days of hours (made in {taken:.0f} s CPU)"
    report(title, value, f"<= {most / 1e9:g} GB", whole <= most)


def _timed(database: Database, query: Query, clock: Callable[[], float]) -> tuple[list[float], int]:
    """Return the milliseconds of all calls in ascending order, and the highest number of rows."""
    some, times, most = random.Random(query.name), [], 0
    for number in range(CALLS + 1):
        begun = clock()
        answer = query.ask(database, some)
        rows = answer if isinstance(answer, list) else answer.get("data", answer.get("workloads", [answer]))
        if query.as_csv:
            as_csv(list(rows[0]), rows).encode()
        else:
            orjson.dumps(answer)
        # Skip the first call, which prepares caches once per process.
        if number:
            times.append(1000 * (clock() - begun))
        most = max(most, len(rows))
    return sorted(times), most


def _row(what: str, value: str, bar: str, ok: bool | None) -> None:
    print(f"{what:<78} {value:>48}   {bar:<11} {'ok' if ok else 'MISSED'}", flush=True)


def _on_postgresql() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    from support.postgresql_server import running_postgresql

    os.environ["PGOPTIONS"] = "-c max_parallel_workers_per_gather=0"
    with running_postgresql() as server:
        measure(_row, server.new_database())


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("database", nargs="?", default="", metavar="DATABASE", help="a path or URL, which is kept")
    where.add_argument("--postgresql", action="store_true", help="a server of its own, which is removed again")
    given = parser.parse_args()
    if given.postgresql:
        _on_postgresql()
    else:
        measure(_row, given.database)


if __name__ == "__main__":
    _main()
