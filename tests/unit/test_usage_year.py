"""The sandbox's year of usage: plausible, reproducible from its seed, with hours that balance."""

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


def test_no_node_has_more_pods_than_gpus() -> None:
    gpus = {node.name: node.gpus for node in NODES}
    changes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    past = year(NODES, START, START + 90 * DAY)
    for one in past.holdings:
        assert START <= one.start < (one.end or 0) <= START + 90 * DAY
        changes[one.node] += [(one.start, one.gpus), (one.end or 0, -one.gpus)]
    assert changes.keys() == gpus.keys()
    for node, node_changes in changes.items():
        held = 0.0
        for _, change in sorted(node_changes):
            held += change
            assert held <= gpus[node]


def test_no_namespace_holds_more_than_its_quota() -> None:
    """Two namespaces have a quota, which is raised once; each reaches it before and after."""
    past = year(NODES, START, START + 180 * DAY)
    most: dict[str, list[float]] = defaultdict(list)
    for quota in past.quotas:
        assert quota.end is not None
        theirs = [one for one in past.holdings if one.namespace == quota.namespace]
        begun = [one.start for one in theirs if quota.start <= one.start < quota.end]
        held = max(sum(one.gpus for one in theirs if one.start <= moment < (one.end or 0)) for moment in begun)
        assert quota.gpus - 4 <= held <= quota.gpus
        most[quota.namespace].append(quota.gpus)
    assert most == {"nlp": [20, 24], "vision": [12, 16]}


def test_year_is_reproducible_from_its_seed() -> None:
    assert year(NODES, START, END) == year(NODES, START, END) != year(NODES, START, END, seed=2)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = open_database(str(tmp_path_factory.mktemp("usage") / "usage.db"))
    write_hours(found, found.cluster("uid", "sandbox"), year(NODES, START, END), START, END)
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
