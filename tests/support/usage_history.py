"""A few days of a cluster, made up and rolled up for real, for databases that are compared, moved and exported."""

from __future__ import annotations

from array import array
from dataclasses import replace
from random import Random
from typing import Any

from gpuctl.objects.durations import HOUR
from gpuctl_usage.answers import name_answers
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, label_hours, namespace_hours, workload_hours
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.snapshot_answers import latest, snapshot_list
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, GpuQuota, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.gathering.current_allocation import take_snapshot
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.usage_queries import RowOrder
from gpuctl_usage.sums import Level

NOVEMBER = 1_793_491_200
"""2026-11-01, 00:00 UTC."""
BEGIN, END = NOVEMBER - 7 * HOUR, NOVEMBER + 4 * HOUR
CLUSTERS = ("lab", "prod")
_TEAMS = ("vision", "Nlp", "搜索", '=cmd|"x"', "")
_NODES = (("node-a", "A100"), ("node-b", "H100"))
_INTERVAL = 60


def put_history(database: Database, seed: int = 5) -> None:
    """Two clusters with the last hours of October, sealed, and the first of November, of which the last is not."""
    for number, name in enumerate(CLUSTERS):
        random = Random(seed + number)
        cluster = database.put_cluster(f"uid-{name}", name)
        capacities = [Capacity(node, model, 8.0, CapacityState.READY, BEGIN - 60.0, None) for node, model in _NODES]
        capacities[1:] = [
            capacities[1]._replace(end=BEGIN + 5000.5),
            capacities[1]._replace(start=BEGIN + 5000.5, state=CapacityState.CORDONED),
        ]
        holdings = [holding for pod in range(9) for holding in _pod(random, pod)]
        database.put_changes(cluster, float(END), capacities=capacities, holdings=holdings, quotas=_quotas())
        samples = [
            series
            for holding in holdings
            if holding.ending is not EndReason.CHANGED
            for series in _series(random, holding)
        ]
        for start in range(BEGIN, END, HOUR):
            seconds = HOUR if start + HOUR < END else 1800.0
            rolled = roll_up(
                start, seconds, holdings, capacities, _between(samples, start), _INTERVAL,
                label_keys=("app", "team"), annotation_keys=("cost-center",),
            )  # fmt: skip
            database.put_rolled_up(cluster, rolled, provisional=start + HOUR >= END)
            held = [item for item in holdings if item.start <= start and (item.end is None or item.end > start)]
            there = [item for item in capacities if item.start <= start and (item.end is None or item.end > start)]
            database.put_changes(
                cluster, snapshots=[take_snapshot(float(start), held, there, _between(samples, start))]
            )


def _quotas() -> list[GpuQuota]:
    """One that is lowered in the middle of an hour, and goes in that of another month; and one that stays."""
    lowered, gone = BEGIN + 2.25 * HOUR, NOVEMBER + 1000.25
    return [
        GpuQuota("Serving", 0.5, BEGIN + 4000.5, None),
        GpuQuota("ml", 16, BEGIN - 100.0, lowered),
        GpuQuota("ml", 2, lowered, gone),
    ]


def _pod(random: Random, number: int) -> list[Holding]:
    namespace, kind = random.choice([("ml", "Job"), ("Serving", "Deployment")])
    workload = WorkloadKey(namespace, kind, f"{kind.lower()}-{number % 4}", f"uid-{namespace}-{kind}-{number % 4}")
    node, model = random.choice(_NODES)
    start = BEGIN + random.randint(-100, 8 * HOUR) + random.choice([0.0, 0.25])
    end = random.choice([None, start + random.randint(900, 5 * HOUR)])
    labels = {"team": team} if (team := random.choice(_TEAMS)) else {}
    one = Holding(
        f"pod-{number}", namespace, f"pod-{number}", workload, node, random.choice([0.25, 1.0, 2.0]), model, labels,
        {"cost-center": f"cc\t{number % 2}"}, start, start + 12.5, end, None if end is None else EndReason.FINISHED,
    )  # fmt: skip
    if number % 3:
        return [one]
    middle = start + 600.0
    return [one._replace(end=middle, ending=EndReason.CHANGED), one._replace(start=middle, labels={"team": "moved"})]


def _series(random: Random, holding: Holding) -> list[GpuSeries]:
    if random.random() < 0.2:
        return []
    end = END if holding.end is None else min(holding.end, END)
    times = [time for time in range(BEGIN, END, _INTERVAL) if holding.start < time <= end and random.random() < 0.95]
    mean = random.randint(5, 90)
    used = [float(min(100, max(0, random.gauss(mean, 8)))) for _ in times]
    columns = [array("d", times), array("d", used), array("d", [random.uniform(5, 70) for _ in times])]
    if not times:
        return []
    return [GpuSeries(holding.node, "0", holding.namespace, holding.pod, *columns, array("d", [80.0] * len(times)))]


def _between(samples: list[GpuSeries], start: int) -> list[GpuSeries]:
    found = []
    for one in samples:
        wanted = [number for number, time in enumerate(one.times) if start < time <= start + HOUR + 3 * _INTERVAL]
        if wanted:
            columns = (one.times, one.utilization, one.memory_used, one.memory_total)
            made: list[Any] = [array("d", [column[number] for number in wanted]) for column in columns if column]
            found.append(one._replace(times=made[0], utilization=made[1], memory_used=made[2], memory_total=made[3]))
    return found


def answers_over_time(database: Database) -> dict[str, Any]:
    """Days and longer, and the ledger, by everything."""
    found: dict[str, Any] = {}
    for cluster in CLUSTERS:
        hours = HoursQuery(cluster, float(BEGIN), float(END), paging=Paging(1, 1000), tz="Asia/Shanghai")
        for step in StepUnit:
            stepped = replace(hours, step=step)
            found[f"{cluster}/workloads/{step.value}"] = workload_hours(database, stepped, order=RowOrder.UTILIZATION)
            for level in Level:
                keys = ("team",) if level in (Level.LABEL, Level.ANNOTATION) else ("",)
                for key in keys:
                    found[f"{cluster}/ledger/{level.value}/{step.value}"] = ledger(database, stepped, level, key)
    return found


def all_answers(database: Database) -> dict[str, Any]:
    """Return the answer of each endpoint about it."""
    found: dict[str, Any] = {"clusters": name_answers.cluster_names(database)}
    for cluster in CLUSTERS:
        hours = HoursQuery(cluster, float(BEGIN), float(END))
        paged = replace(hours, paging=Paging(1, 1000))
        found |= {
            f"{cluster}/namespaces": name_answers.namespace_names(database, cluster),
            f"{cluster}/cluster/hourly-stats": cluster_hours(database, hours),
            f"{cluster}/namespaces/hourly-stats": namespace_hours(database, hours),
            f"{cluster}/snapshots/latest": latest(database, cluster),
            f"{cluster}/snapshots": snapshot_list(database, hours).answer,
        }
        for level in (Level.LABEL, Level.ANNOTATION):
            keys = name_answers.dimension_keys(database, cluster, level)
            found[f"{cluster}/{level.value}/dimension-keys"] = keys
            for key in keys:
                named = f"{cluster}/{level.value}/{key}"
                found[f"{named}/dimension-values"] = name_answers.dimension_values(database, cluster, level, key)
                found[f"{named}/hourly-stats"] = label_hours(database, hours, level, key)
        for order in RowOrder:
            listed = workload_hours(database, paged, order=order, ascending=order is RowOrder.TIME)
            found[f"{cluster}/workloads/hourly-stats/{order.value}"] = listed
    return found
