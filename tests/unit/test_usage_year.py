"""The year of usage that a sandbox shows: plausible, the same for the same seed, and with books that are in order."""

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
    for node, all_of_them in changes.items():
        held = 0.0
        for _, change in sorted(all_of_them):
            held += change
            assert held <= gpus[node]


def test_no_namespace_holds_more_than_its_quota() -> None:
    """Two have one, which is raised; each comes to it before that and after it."""
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


def test_it_is_the_same_again() -> None:
    assert year(NODES, START, END) == year(NODES, START, END) != year(NODES, START, END, seed=2)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = open_database(str(tmp_path_factory.mktemp("usage") / "usage.db"))
    write_hours(found, found.cluster("uid", "sandbox"), year(NODES, START, END), START, END)
    return found


def test_every_hour_is_there_and_adds_up(database: Database) -> None:
    hours = database.rolled_up(1, START, END)
    assert [hour.start for hour in hours] == list(range(START, END, 3600))
    for hour in hours:
        assert discrepancies(hour) == []
        assert ledger(hour.sums[Group(Level.CLUSTER)]).capacity == 3600 * sum(node.gpus for node in NODES)


def test_capacity_is_that_of_the_quota(database: Database) -> None:
    """And the cluster's where there is none; the share that is held of it is nowhere all, or nothing."""
    days = HoursQuery("", START, END, step=StepUnit.DAY)
    rows = namespace_hours(database, days)
    assert isinstance(rows, list)
    told: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        told[row["namespace"]].append(row["total_gpu_capacity"])
        assert 0 < row["allocation_rate"] < 100
    assert told == {"nlp": [20, 22, 24], "vision": [12, 14, 16], "speech": [28] * 3}


def test_there_is_something_to_see(database: Database) -> None:
    """Teams that use their GPUs well and less well, GPUs that are held and idle, and some that are free."""
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
