"""Repeated rollup of past hours: which hours, by which clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.durations import HOUR
from gpuctl_usage import rollup_rerun
from gpuctl_usage.collector_context import CannotCollect
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.facts import Capacity, CapacityState
from gpuctl_usage.rollup_rerun import rerun_rollup
from gpuctl_usage.store.database import open_database
from gpuctl_usage.usage_settings import UsageSettings

BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""


def rerun(path: Path, monkeypatch: pytest.MonkeyPatch, server_time: Callable[[], float]) -> tuple[int, int]:
    """Roll up ten hours of a cluster that was collected from the middle of the third."""
    database = open_database(str(path))
    cluster = database.put_cluster("uid", "lab")
    database.put_changes(cluster, began=BEGIN + 2.5 * HOUR)
    capacity = Capacity("n1", "m", 8, CapacityState.READY, BEGIN - 99.0, None)
    database.put_changes(cluster, BEGIN + 5.0 * HOUR, capacities=[capacity])
    site = SimpleNamespace(
        session=SimpleNamespace(server_time=server_time, close=lambda: None),
        database=database,
        cluster=cluster,
        samples=None,
        health=CollectorHealth(),
    )
    monkeypatch.setattr(rollup_rerun, "open_context", lambda *_, **__: site)
    return rerun_rollup(UsageSettings(), BEGIN, BEGIN + 10 * HOUR)


def test_hours_since_collecting_began_by_the_clock_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.db"
    assert rerun(path, monkeypatch, lambda: BEGIN + 5 * HOUR + 60.0) == (3, 3)
    database = open_database(str(path))
    assert sorted(database.hours(1, 0, 2**40)) == [BEGIN + number * HOUR for number in (2, 3, 4)]
    database.close()


def test_unreachable_server_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> float:
        raise ClusterError("the API server does not answer")

    with pytest.raises(CannotCollect, match="does not answer"):
        rerun(tmp_path / "usage.db", monkeypatch, fail)
