"""The example of docs/usage-numbers.md, in both languages: its result tables are computed from its input tables."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Any

import pytest

from gpuctl.objects.durations import HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery, cluster_hours, namespace_hours
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, GpuQuota, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import Ledger, discrepancies, ledger
from gpuctl_usage.store.database import open_database
from gpuctl_usage.sums import Group, Level, RolledUp
from support.pages import read

DAY = 20_400 * 86_400
START = DAY + 14 * HOUR
INTERVAL = 15
PAGES = ("docs/usage-numbers.md", "docs/usage-numbers.zh-CN.md")
WHOLE = {"cluster", "集群"}


def tables(page: str) -> list[list[dict[str, str]]]:
    """Return the tables of the example, each a list of rows by column name."""
    text = read(page).rpartition("\n## ")[2]
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        names, _, *rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        found.append([dict(zip(names, row, strict=True)) for row in rows])
    return found


def clock(text: str) -> float:
    """Return the Unix time of a time on the example's day."""
    hours, minutes = text.split(":")
    return DAY + int(hours) * HOUR + int(minutes) * 60


def rolled(pods: list[dict[str, str]]) -> RolledUp:
    """Return the rolled-up hour of the example."""
    holdings, samples = [], []
    for namespace, pod, gpus, first, last, percent in (row.values() for row in pods):
        name, start, end = pod.rpartition("-")[0], clock(first), clock(last)
        workload = WorkloadKey(namespace, "Job", name, name)
        holding = Holding(pod, namespace, pod, workload, "gpu-1", int(gpus), "H100", {}, {}, start, start, end)
        holdings.append(holding._replace(ending=EndReason.FINISHED))
        times = array("d", [start + INTERVAL * turn for turn in range(1, int((end - start) / INTERVAL) + 1)])
        for gpu in range(int(gpus)) if percent else ():
            values = array("d", [float(percent.removesuffix(" %"))]) * len(times)
            samples.append(GpuSeries("gpu-1", f"{pod}-{gpu}", namespace, pod, times, values))
    capacities = [
        Capacity("gpu-1", "H100", 8, CapacityState.READY, DAY, clock("14:45")),
        Capacity("gpu-1", "H100", 8, CapacityState.CORDONED, clock("14:45"), None),
    ]
    return roll_up(START, HOUR, holdings, capacities, samples, INTERVAL)


@pytest.fixture(params=PAGES)
def example(request: pytest.FixtureRequest) -> list[list[dict[str, str]]]:
    """The tables of a page: pods, quotas, the ledger, and two tables of numbers."""
    found = tables(request.param)
    assert len(found) == 5
    return found


def test_ledger_of_the_example(example: list[list[dict[str, str]]]) -> None:
    pods, _, accounts, *_ = example
    hour = rolled(pods)
    assert discrepancies(hour) == []
    for whose, *told in (list(row.values()) for row in accounts):
        group = Group(Level.CLUSTER) if whose in WHOLE else Group(Level.NAMESPACE, value=whose)
        sums = hour.sums[group]
        found: Ledger = ledger(sums, group.level)
        parts = [found.capacity, sums.alloc_gpu_s, *found[1:]]
        expected = [float(cell) if cell else None for cell in told]
        assert [None if want is None else pytest.approx(part) for want, part in zip(expected, parts, strict=True)] == (
            expected
        )


def test_numbers_of_the_example(example: list[list[dict[str, str]]], tmp_path: Path) -> None:
    pods, quotas, _, *numbers = example
    database = open_database(str(tmp_path / "usage.db"))
    number = database.put_cluster("uid", "prod")
    database.put_rolled_up(number, rolled(pods), provisional=False)
    spells = [
        (name, float(gpus), clock(first), clock(last) if last else None)
        for name, gpus, first, last in map(dict.values, quotas)
    ]
    database.put_changes(number, quotas=[GpuQuota(*spell) for spell in spells])
    hours = HoursQuery("", START, START + HOUR)
    [cluster] = rows(cluster_hours(database, hours))
    for table in numbers:
        answers = {row["namespace"]: row for row in rows(namespace_hours(database, hours))}
        for whose, *told in (list(row.values()) for row in table):
            answer = cluster if whose in WHOLE else answers.pop(whose)
            assert [answer[name] for name in list(table[0])[1:]] == [float(cell) for cell in told]
        assert not answers
    database.close()


def rows(answer: Any) -> list[dict[str, Any]]:
    """Return an answer that must be a list."""
    assert isinstance(answer, list)
    return answer
