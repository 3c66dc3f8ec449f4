"""A year of usage of 10,000 GPUs: how large the database becomes, and how long questions about it take on a processor.

    python benchmarks/usage_year.py [DAYS OF HOURS]

Alone it prints the rows; `make bench` prints them among the others. Days are made for the whole year, hours for the
last days of it (a week, unless said otherwise): of hours more would take longer to write than to learn anything from,
so that their size is extrapolated to the year. 1,000 workloads hold GPUs at any time, each for three days; there are
250 values of labels, 50 namespaces, 1,250 nodes. All is written by the functions of the store. A time is on a
processor, the 19th of twenty.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gpuctl_usage.answers.hourly_answers import Hours, cluster_hours, label_hours, namespace_hours, workload_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.scopes import Cursor, Paging
from gpuctl_usage.answers.snapshot_answers import latest, snapshot_list
from gpuctl_usage.answers.steps import Step
from gpuctl_usage.facts import DAY, HOUR, AllocationSnapshot, Holding, WorkloadAllocation, WorkloadKey
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.hours import Span
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import Group, Holder, Level, RolledUp, Sums

YEAR, BEGIN = 365, 1_735_689_600
"""2025, from 2025-01-01T00:00:00Z on."""
END = BEGIN + YEAR * DAY
WORKLOADS, NAMESPACES, NODES, LASTS = 1000, 50, 1250, 3
VALUES = {"team": 50, "project": 100, "app": 60, "env": 4, "cost-center": 36}
MOST_BYTES, MOST_MS, MOST_MS_BY_LABEL = 2_000_000_000, 100, 500
ATTEMPTS = 20

Report = Callable[[str, str, str, "bool | None"], None]


class Made:
    """What a year is made of; the same every time."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._sums = {span: [self._one(span) for _ in range(400)] for span in Span}

    def _one(self, span: Span) -> Sums:
        mean, seconds = self._random.uniform(5, 95), float(span.seconds)
        histogram: dict[int, int] = {}
        for _ in range(int(seconds // 60)):
            number = min(100, max(0, round(self._random.gauss(mean, 5))))
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

    def period(self, start: int, span: Span) -> RolledUp:
        """An hour or a day."""
        whole = replace(self._some(span), cap_gpu_s=10_000.0 * span.seconds, free_gpu_s=1e6)
        groups = {Group(Level.CLUSTER): whole}
        names = [Group(Level.NAMESPACE, value=f"namespace-{number}") for number in range(NAMESPACES)]
        names += [Group(Level.MODEL, value=name) for name in ("A100", "H100", "H200")]
        names += [
            Group(Level.LABEL, key, f"{key}-{number}") for key, count in VALUES.items() for number in range(count)
        ]
        names += [Group(Level.NODE, value=f"gpu-node-{number}") for number in range(NODES)]
        holders = set()
        for number in active(start):
            key = workload(number)
            names.append(Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid))
            holders.add(Holder(key, labels(number), ()))
        groups.update((name, self._some(span)) for name in names)
        return RolledUp(start, float(span.seconds), groups, f"{span.value} {start}", 0, frozenset(holders))

    def _some(self, span: Span) -> Sums:
        return self._random.choice(self._sums[span])


def active(time: int) -> range:
    """The workloads that hold GPUs: every day a third of them is new."""
    first = (time - BEGIN) // DAY * WORKLOADS // LASTS
    return range(first, first + WORKLOADS)


def workload(number: int) -> WorkloadKey:
    """One of them."""
    return WorkloadKey(f"namespace-{number % NAMESPACES}", "Job", f"training-{number}", f"{number:08x}-9a1b-4c5d")


def labels(number: int) -> tuple[tuple[str, str], ...]:
    """A workload's, in order."""
    return tuple(sorted((key, f"{key}-{number % count}") for key, count in VALUES.items()))


def fill(database: Database, days_of_hours: int, size: Callable[[], int]) -> dict[str, float]:
    """Write it all; bytes of an hour and of a day, with whom they are about."""
    made, cluster = Made(), database.cluster("uid", "prod")
    for day in range(BEGIN, END, DAY):
        first = active(day - DAY).stop if day > BEGIN else 0
        new = [held(number, day) for number in range(first, active(day).stop)]
        database.put_holdings(cluster, new, day + DAY)
        database.put_rolled_up(cluster, made.period(day, Span.DAY), False, Span.DAY)
    of_days, begin = size(), END - days_of_hours * DAY
    for start in range(begin, END, HOUR):
        rolled = made.period(start, Span.HOUR)
        database.put_rolled_up(cluster, rolled, False)
    # What an hour has written has made its day provisional: it is as it was.
    for day in range(begin, END, DAY):
        hours = database.hours(cluster, day, day + DAY)
        database.put_day(cluster, made.period(day, Span.DAY), {start: state.digest for start, state in hours.items()})
    of_hours = size() - of_days
    for time_ in range(END - DAY, END, 300):
        database.put_snapshot(cluster, snapshot(time_))
    of_snapshots = size() - of_days - of_hours
    return {"day": of_days / YEAR, "hour": of_hours / (days_of_hours * 24), "snapshot": of_snapshots / (DAY / 300)}


def held(number: int, day: int) -> Holding:
    """What a workload's pod holds."""
    key = workload(number)
    begin, end = float(day), float(day + LASTS * DAY)
    where = key.name, key, f"gpu-node-{number % NODES}", 8.0, "H100"
    return Holding(f"pod-{number}", key.namespace, *where, dict(labels(number)), {}, begin, begin, end)


def snapshot(time_: int) -> AllocationSnapshot:
    """One with every workload."""
    items = tuple(WorkloadAllocation(workload(number), 8, number % 100 / 1.0) for number in active(time_))
    return AllocationSnapshot(time_, 10_000, 8000, items)


def questions() -> dict[str, tuple[Callable[[Database], Any], float]]:
    """Those that are documented, and what each may take, in milliseconds."""
    day, week, year = (Hours("", END - days * DAY, END) for days in (1, 7, YEAR))
    month = Hours("", END - 30 * DAY, END)
    page, pages = Paging(1, 50), Paging(1, 1000)
    by_use: dict[str, Any] = {"order": RowOrder.UTILIZATION, "ascending": False}
    some = active(END - DAY)[0]
    name, place = workload(some).name, workload(some).namespace
    of_day = replace(day, paging=page)
    asked: dict[str, Callable[[Database], Any]] = {
        "cluster, a day": partial(cluster_hours, hours=day),
        "cluster, a week": partial(cluster_hours, hours=week),
        "cluster, a year by month": partial(cluster_hours, hours=replace(year, step=Step.MONTH)),
        "cluster, a year by day": partial(cluster_hours, hours=replace(year, step=Step.DAY)),
        "cluster, a year by month of Shanghai": partial(
            cluster_hours, hours=replace(year, step=Step.MONTH, tz="Asia/Shanghai")
        ),
        "namespaces, a day": partial(namespace_hours, hours=day),
        "namespaces, a month, a page": partial(namespace_hours, hours=replace(month, paging=pages)),
        "namespaces, a year by week": partial(namespace_hours, hours=replace(year, step=Step.WEEK)),
        "a namespace, a month": partial(namespace_hours, hours=month, namespace=place),
        "a label, a day": partial(label_hours, hours=day, level=Level.LABEL, key="team"),
        "a value of a label, a day": partial(label_hours, hours=day, level=Level.LABEL, key="team", value="team-3"),
        "a label, a year by month": partial(
            label_hours, hours=replace(year, step=Step.MONTH), level=Level.LABEL, key="project"
        ),
        "workloads, a day, a page": partial(workload_hours, hours=of_day),
        "workloads, a day by use, a page": partial(workload_hours, hours=of_day, **by_use),
        "workloads of a namespace, a week, a page": partial(
            workload_hours, hours=replace(week, paging=page), namespace=place
        ),
        "a workload, a week": partial(workload_hours, hours=replace(week, paging=page), namespace=place, name=name),
        "workloads, a month in total by use, a page": partial(
            workload_hours, hours=replace(month, step=Step.TOTAL, paging=page), **by_use
        ),
        "workloads, a year by month, a page": partial(
            workload_hours, hours=replace(year, step=Step.MONTH, paging=page)
        ),
        "workloads, a week, after a cursor": partial(workload_hours, hours=replace(week, paging=Cursor("", 50))),
        "ledger, the cluster, a year by month": partial(
            ledger, hours=replace(year, step=Step.MONTH), level=Level.CLUSTER
        ),
        "ledger, models, a year by month": partial(ledger, hours=replace(year, step=Step.MONTH), level=Level.MODEL),
        "ledger, nodes, a month in total": partial(ledger, hours=replace(month, step=Step.TOTAL), level=Level.NODE),
        "ledger, a label, a year by month": partial(
            ledger, hours=replace(year, step=Step.MONTH), level=Level.LABEL, key="project"
        ),
        "the last snapshot": partial(latest, cluster=""),
        "snapshots, a day, totals": partial(snapshot_list, hours=day, details=False),
    }
    by_label = {name for name in asked if "label, a year" in name}
    return {name: (ask, MOST_MS_BY_LABEL if name in by_label else MOST_MS) for name, ask in asked.items()}


def measure(report: Report, days_of_hours: int = 7) -> None:
    """The rows of sizes and questions."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "usage.db"

        def size() -> int:
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.close()
            return path.stat().st_size

        database = open_database(str(path), clock=lambda: float(END))
        begun = time.process_time()
        each = fill(database, days_of_hours, size)
        taken = time.process_time() - begun
        whole = each["hour"] * YEAR * 24 + each["day"] * YEAR + each["snapshot"] * 14 * 288
        value = f"{whole / 1e9:.2f} GB ({each['hour'] / 1024:.0f} KiB an hour, {each['day'] / 1024:.0f} a day)"
        title = f"a year of 10,000 GPUs in SQLite, from {days_of_hours} days of hours (made in {taken:.0f} s CPU)"
        report(title, value, f"<= {MOST_BYTES / 1e9:.0f} GB", whole <= MOST_BYTES)
        for name, (ask, most) in questions().items():
            value_ms = _p95(lambda ask=ask: ask(database))  # type: ignore[misc]
            report(f"a year of usage: {name}", f"{value_ms:.0f} ms CPU", f"< {most} ms", value_ms < most)
        database.close()


def _p95(ask: Callable[[], Any]) -> float:
    ask()
    times = []
    for _ in range(ATTEMPTS):
        begun = time.process_time()
        ask()
        times.append(1000 * (time.process_time() - begun))
    return sorted(times)[int(ATTEMPTS * 0.95) - 1]


def _row(what: str, value: str, bar: str, ok: bool | None) -> None:
    print(f"{what:<95} {value:>50}   {bar:<12} {'ok' if ok else 'MISSED'}", flush=True)


if __name__ == "__main__":
    measure(_row, int(sys.argv[1]) if sys.argv[1:] else 7)
