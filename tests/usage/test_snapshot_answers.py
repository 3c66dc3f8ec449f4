"""Lists of many snapshots, for callers who may see some namespaces only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuctl_usage.answers import snapshot_answers
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.query_scope import Paging
from gpuctl_usage.answers.snapshot_answers import MOST_DETAILED, snapshot_list
from gpuctl_usage.facts import AllocationSnapshot, WorkloadAllocation, WorkloadKey
from gpuctl_usage.store.allocation_snapshots import read_snapshots
from gpuctl_usage.store.database import open_database

NUMBER = 2 * MOST_DETAILED + 5


@pytest.mark.parametrize(
    ("paging", "interval", "expected"),
    [
        (None, 0, range(NUMBER)),
        (None, 600, range(0, NUMBER, 2)),
        (Paging(2, 400), 0, range(400, NUMBER)),
        (Paging(1, 400), 0, range(400)),
        (Paging(9, 400), 0, ()),
    ],
)
def test_details_of_many_snapshots_are_read_in_parts(
    paging: Paging | None, interval: int, expected: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their totals are computed from the details, which would not fit into memory at once."""
    database = open_database(str(tmp_path / "usage.db"))
    cluster = database.put_cluster("uid", "lab")
    keys = [WorkloadKey(namespace, "Job", "w", namespace) for namespace in ("a", "b")]
    for number in range(NUMBER):
        held = tuple(WorkloadAllocation(key, float(1 + number % 7), None) for key in keys)
        database.put_changes(cluster, snapshots=[AllocationSnapshot(number * 300.0, 64, 60, held)])
    sizes = []

    def read(*asked: Any, **how: Any) -> Any:
        found = read_snapshots(*asked, **how)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(snapshot_answers, "read_snapshots", read)
    query = HoursQuery("", 0, NUMBER * 300.0, namespaces=["a"], paging=paging)
    answer = snapshot_list(database, query, interval=interval).answer
    rows = answer["data"] if isinstance(answer, dict) else answer
    assert [row["allocated_gpu_count"] for row in rows] == [1 + number % 7 for number in expected]
    assert max(sizes, default=0) <= MOST_DETAILED
    database.close()
