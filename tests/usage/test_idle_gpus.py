"""Idle workloads: only measured hours count, without a gap until now."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuctl.language.settings import Settings
from gpuctl.objects.durations import HOUR
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.pausable_jobs import pausable_jobs
from gpuctl.reading.usage.price_list import PriceList, cost
from gpuctl_usage.answers.idle_gpu_answers import IdleRule, IdleWorkload, idle_workloads, waste
from gpuctl_usage.answers.snapshot_answers import latest_utilization
from gpuctl_usage.facts import EndReason, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.gathering.current_allocation import take_snapshot
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.sums import Group, Level, RolledUp, Sums

START = 1_793_318_400
KEY = WorkloadKey("team", "Job", "train", "uid-1")
Hour = tuple[float, float] | None
"""Utilization in percent and the measured part of the hour; None is a missing hour."""


def database_of(path: Path, hours: Sequence[Hour], *, held_from: float = START, running: float = HOUR) -> Database:
    """Return a database with one workload on 4 GPUs each of two models; the last hour is `running` seconds long."""
    database = open_database(str(path))
    cluster = database.put_cluster("uid", "prod")
    end = START + (len(hours) - 1) * HOUR + running
    pods = [
        Holding(f"p-{model}", "team", f"p-{model}", KEY, "n", 4.0, model, {"team": "x"}, {}, held_from, held_from, None)
        for model in ("A", "B")
    ]
    database.put_changes(cluster, end, holdings=pods)
    for number, hour in enumerate(hours):
        if hour is None:
            continue
        seconds = running if number == len(hours) - 1 else HOUR
        use, share = hour
        held = 8 * seconds
        sums = Sums(alloc_gpu_s=held, obs_gpu_s=held * share, util_gpu_s=use * held * share)
        half = Sums(alloc_gpu_s=held / 2, obs_gpu_s=held * share / 2, util_gpu_s=use * held * share / 2)
        groups = {Group(Level.WORKLOAD, "team/Job/train", "uid-1"): sums}
        groups |= {Group(Level.MODEL, "", model): half for model in ("A", "B")}
        start = START + number * HOUR
        database.put_rolled_up(cluster, RolledUp(start, seconds, groups, f"{number}"), provisional=False)
    return database


@pytest.mark.parametrize(
    ("hours", "running", "idle"),
    [
        ([(1, 1)] * 5, HOUR, 5.0),
        # Busy before: idle from then on.
        ([(1, 1), (80, 1), (1, 1), (4.9, 1)], HOUR, 2.0),
        ([(1, 1), (5, 1)], HOUR, None),
        # An hour with too few measurements is not idle, neither the last one nor an earlier one.
        ([(1, 1), (1, 1), (1, 0.49)], HOUR, None),
        ([(1, 1), (1, 0.0), (1, 0.5)], HOUR, 1.0),
        # A missing hour is not idle either.
        ([(1, 1), None, (1, 1), (1, 1)], HOUR, 2.0),
        # The running hour counts only once enough of it is measured.
        ([(1, 1), (1, 1), (0, 0.1)], 600, 2.0),
        ([(1, 1), (1, 1), (0, 0.9)], 900, 2.25),
        ([(1, 1), (1, 1), (90, 0.9)], 900, None),
        # Half an hour is not long enough.
        ([(90, 1), (1, 1)], 1800, None),
    ],
)
def test_start_of_idle_time(hours: list[Hour], running: float, idle: float | None, tmp_path: Path) -> None:
    database = database_of(tmp_path / "usage.db", hours, running=running)
    found = idle_workloads(database, "", START, START + 100 * HOUR)
    assert [(item.until - item.since) / HOUR for item in found] == ([] if idle is None else [idle])
    database.close()


def test_idle_time_longer_than_the_range(tmp_path: Path) -> None:
    """Idle time may begin before the requested range, but not before the oldest pod."""
    database = database_of(tmp_path / "usage.db", [(2.0, 1.0)] * 60, held_from=START + 4.5 * HOUR)
    (found,) = idle_workloads(database, "", START + 50 * HOUR, START + 60 * HOUR)
    assert (found.until - found.since) / HOUR == 55.5
    assert found.in_range.alloc_gpu_s == 80 * HOUR
    assert idle_workloads(database, "", START, START + HOUR, namespaces=["other"]) == []
    assert idle_workloads(database, "", START, START + HOUR, rule=IdleRule(below=2.0)) == []
    assert idle_workloads(database, "", START, START + HOUR, rule=IdleRule(after=56 * HOUR)) == []
    database.close()


@pytest.mark.parametrize(("gap", "idle"), [(0.0, 10.0), (1.0, 3.0)])
def test_changed_labels_do_not_end_idle_time(gap: float, idle: float, tmp_path: Path) -> None:
    """They end a holding and begin another at once; after a gap the pod held its GPUs again."""
    database = database_of(tmp_path / "usage.db", [(2.0, 1.0)] * 10, held_from=START - HOUR)
    first, second = START + 4.0 * HOUR, START + 7.0 * HOUR
    for held in database.open_holdings(1):
        parts = [
            held._replace(end=first, ending=EndReason.CHANGED),
            held._replace(start=first, end=second - gap, ending=EndReason.CHANGED, labels={"team": "y"}),
            held._replace(start=second, labels={"team": "z"}),
        ]
        database.put_changes(1, START + 10.0 * HOUR, holdings=parts)
    (found,) = idle_workloads(database, "", START, START + 10 * HOUR)
    assert ((found.until - found.since) / HOUR, found.labels) == (idle, {"team": "z"})
    database.close()


def test_idle_cost(tmp_path: Path) -> None:
    database = database_of(tmp_path / "usage.db", [(0.0, 1.0)] * 4)
    asked = database, "", float(START), float(START + 2 * HOUR)
    found = waste(*asked, prices=PriceList({"A": 10.0, "B": 30.0}, "CNY"))
    (item,) = found["workloads"]
    assert (item["gpu_count"], item["gpu_models"], item["owner"], item["pod_count"]) == (8, {"A": 4, "B": 4}, "x", 2)
    assert (item["idle_gpu_hours"], item["idle_cost"]) == (16.0, 320.0)
    assert (found["total_idle_gpu_hours"], found["total_idle_cost"], found["currency"]) == (16.0, 320.0, "CNY")
    # A missing price makes the cost unknown, not zero. A user limited to some namespaces gets no total.
    for prices in (PriceList({"A": 10.0}), PriceList({})):
        unpriced = waste(*asked, prices=prices)
        assert unpriced["total_idle_cost"] is unpriced["workloads"][0]["idle_cost"] is None
    assert waste(*asked, namespaces=["team"])["total_idle_gpu_hours"] is None
    assert cost({"A": 7200.0, "B": 0.0}, {"A": 2.5}) == 5.0
    # Idle GPU-hours are unknown in a range without measurements.
    later = waste(database, "", START + 10 * HOUR, START + 11 * HOUR)["workloads"][0]
    assert (later["idle_gpu_hours"], later["coverage"], later["allocated_gpu_hours"]) == (None, None, 0.0)
    database.close()


@pytest.mark.parametrize(
    ("labels", "annotations", "owner"),
    [
        # The label of gpuctl's jobs with their own name names no owner.
        ({"app": "train"}, {}, None),
        ({"app": "train", "creator": "anna"}, {"team": "nlp"}, "anna"),
        ({"app": "train"}, {"project": "p"}, "p"),
        ({"project": "p", "team": "nlp"}, {}, "nlp"),
    ],
)
def test_owner_of_a_workload(labels: dict[str, str], annotations: dict[str, str], owner: str | None) -> None:
    assert IdleWorkload(KEY, labels=labels, annotations=annotations).owner == owner


def test_latest_utilization_of_workloads(tmp_path: Path) -> None:
    """Only measurements that reach the snapshot count; utilization is unknown if the last one is minutes older."""
    database = database_of(tmp_path / "usage.db", [(0.0, 1.0)])
    held = Holding("p", "team", "p", KEY, "n", 1.0, "A", {}, {}, START, START, None)
    for last, used in ((START + 30.0, None), (START + 280.0, 40.0)):
        series = GpuSeries("n", "0", "team", "p", array("d", [START + 15.0, last]), array("d", [40.0, 40.0]))
        database.put_changes(1, snapshots=[take_snapshot(START + 300.0, [held], [], [series], reach=37.5)])
        assert latest_utilization(database, "", START) == {"uid-1": used}
    assert latest_utilization(database, "", START + 301.0) == {}, "the snapshot is too old"
    database.close()


def test_names_of_pausable_jobs() -> None:
    """An ambiguous job name gets its kind. Jobs that ended, are paused or are being deleted are omitted."""
    keys = records(Settings())

    def job(name: str, kind: str, uid: str, **metadata: Any) -> Job:
        workload = {"kind": "Deployment", "metadata": {"name": name, "uid": uid, **metadata}, "spec": {}}
        return Job(Identity("team", name, kind), workload)

    paused = job("paused", "inference", "u5", annotations={keys.paused: "2"})
    done = job("done", "training", "u6")
    assert paused.workload is not None
    assert done.workload is not None
    paused.workload["spec"] = {"replicas": 0}
    done.workload |= {"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    jobs = [
        job("chat", "inference", "u1"),
        job("chat", "compute", "u2"),
        job("lab", "notebook", "u3"),
        job("gone", "inference", "u4", deletionTimestamp="2026-10-30T00:00:00Z"),
        paused,
        done,
        Job(Identity("team", "pods-only", "training"), None),
    ]
    assert pausable_jobs(jobs, keys) == {"u1": "inference/chat", "u2": "compute/chat", "u3": "lab"}
