"""The sandbox's year of usage: plausible, with hours that balance."""

from __future__ import annotations

from collections import defaultdict

import pytest

from control_plane.sandbox import MACHINES
from control_plane.usage_year import DAY, GpuNode, year
from control_plane.usage_year import write as write_hours
from gpuctl_usage.answers.hourly_answers import HoursQuery, namespace_hours
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.rollup.ledger import discrepancies, ledger
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.sums import Group, Level

START = 20_000 * DAY
END = START + 3 * DAY
NODES = [GpuNode(machine.name, machine.model, machine.gpus) for machine in MACHINES if machine.gpus]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = open_database(str(tmp_path_factory.mktemp("usage") / "usage.db"))
    write_hours(found, found.put_cluster("uid", "sandbox"), year(NODES, START, END), START, END)
    return found


def test_every_hour_exists_and_balances(database: Database) -> None:
    hours = database.rolled_up(1, START, END)
    assert [hour.start for hour in hours] == list(range(START, END, 3600))
    for hour in hours:
        assert discrepancies(hour) == []
        assert ledger(hour.sums[Group(Level.CLUSTER)]).capacity == 3600 * sum(node.gpus for node in NODES)


def test_capacity_of_a_namespace_is_its_quota(database: Database) -> None:
    """Without a quota it is the cluster's capacity; the allocation rate is never 0 or 100 percent."""
    days = HoursQuery("", START, END, step=StepUnit.DAY)
    rows = namespace_hours(database, days)
    assert isinstance(rows, list)
    capacities: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        capacities[row["namespace"]].append(row["total_gpu_capacity"])
        assert 0 < row["allocation_rate"] < 100
    assert capacities == {"nlp": [20, 22, 24], "vision": [12, 14, 16], "speech": [28] * 3}


def test_gpus_are_busy_idle_unobserved_and_free(database: Database) -> None:
    """High and low utilization, idle GPUs, unobserved GPUs and free GPUs."""
    total: dict[str, list[float]] = defaultdict(lambda: [0.0] * 7)
    for hour in database.rolled_up(1, START, END):
        for group, sums in hour.sums.items():
            if group.level in {Level.CLUSTER, Level.NAMESPACE}:
                parts = ledger(sums, group.level)
                total[group.value] = [before + part for before, part in zip(total[group.value], parts, strict=True)]
    assert total.keys() == {"", "nlp", "vision", "speech"}
    capacity, busy, idle, unobserved, free, *_ = total[""]
    assert min(busy, idle, free) > capacity / 10
    assert 0 < unobserved < capacity / 10
