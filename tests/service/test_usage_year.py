"""The service with a year of usage of 10,000 GPUs: it answers every documented question, in pages, with little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from support.large_usage import BEGIN, END, EVER, GPUS, NAMESPACES, TEAMS, WORKLOADS, write_year
from support.served import Served, serving

pytestmark = pytest.mark.slow
DAY = 24 * 3600
YEAR = {"start_time": "2025-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:00Z"}
BY_HOUR = {"start_time": "2025-12-31T00:00:00Z", "end_time": "2026-01-01T00:00:00Z"}
OF_TEAM = {"dimension_type": "label", "dimension_key": "team"}
MOST = {"order_by": "allocated_gpu_count", "order_direction": "desc"}
BUSIEST = {"order_by": "utilization", "order_direction": "desc"}
MOST_MEMORY = 50 * 2**20
"""Resident memory that the questions may add to that of the started service, bytes."""
MOST_AT_ONCE = 120 * 2**20
"""The same for the highest value, during one question."""


@pytest.fixture(scope="module")
def usage(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("year")
    file, platform = directory / "usage.db", directory / "platform.yaml"
    write_year(file, plane.get("namespace", "kube-system")["metadata"]["uid"], "large")
    prices = "{currency: EUR, models: {H100: 2.5}}"
    platform.write_text(f"kind: platform\nversion: v0.1\nusage: {{prices: {prices}}}\n")
    settings = {"usage_database": str(file), "platform": str(platform)}
    with serving(directory, plane.kubeconfig(), {"admin": ("admin", None, None)}, **settings) as served:
        yield served


def memory(served: Served, field: str) -> int:
    """Return a field of the memory of the service, bytes: VmRSS, or VmHWM, its highest value."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) * 1024


def ask(served: Served, path: str, **query: Any) -> Any:
    return served.get(f"/gpu-aggregation/{path}", **query)["data"]


def page(served: Served, path: str, total: int, rows: int, **query: Any) -> Sequence[Any]:
    """Return the rows of a page, after checking their number and that of all pages."""
    found = ask(served, path, **query)
    assert (found["total"], len(found["data"])) == (total, rows), (path, query)
    rows_of_page: Sequence[Any] = found["data"]
    return rows_of_page


def test_every_question_is_answered_in_pages(usage: Served) -> None:
    assert ask(usage, "clusters") == ["large"]
    begun = memory(usage, "VmRSS")
    assert len(ask(usage, "namespaces")) == NAMESPACES
    assert "team" in ask(usage, "dimension-keys")
    assert len(ask(usage, "dimension-values", dimension_key="team")) == TEAMS
    for step, count in (("day", 365), ("week", 53), ("month", 12), ("total", 1)):
        about: dict[str, Any] = {**YEAR, "step": step}
        assert len(ask(usage, "cluster/hourly-stats", **about)) == count
        page(usage, "namespaces/hourly-stats", count * NAMESPACES, 20, **about, page_size=20)
        page(usage, "labels/hourly-stats", count * TEAMS, 20, **about, **OF_TEAM, page_size=20)
        for by, groups in (("cluster", 1), ("namespace", NAMESPACES), ("model", 1)):
            assert len(ask(usage, "ledger", **about, by=by, page_size=1000)["data"]) == min(1000, count * groups)
        few = 365 * WORKLOADS if step == "day" else EVER
        for order in ({}, MOST, BUSIEST):
            found = ask(usage, "ledger", **about, **order, by="workload", page_size=100)
            assert (len(found["data"]), found["total"] >= few) == (100, True)
            found = ask(usage, "workloads/hourly-stats", **about, **order, page=3, page_size=100)
            assert (len(found["data"]), found["total"] >= few) == (100, True)
    page(usage, "workloads/hourly-stats", 24 * WORKLOADS, 1000, **BY_HOUR, **MOST, page=2, page_size=1000)
    page(usage, "workloads/hourly-stats", 24 * WORKLOADS // NAMESPACES, 20, **BY_HOUR, namespace="team-3")
    page(usage, "workloads/models", EVER, 1000, **YEAR, page=9, page_size=1000)
    assert ask(usage, "snapshots/latest")["allocated_gpu_count"] == WORKLOADS * GPUS
    assert len(ask(usage, "snapshots", **BY_HOUR, page_size=10)["data"]) == 10
    assert ask(usage, "waste", **YEAR)["total_idle_gpu_hours"] > 0
    assert memory(usage, "VmRSS") - begun < MOST_MEMORY
    assert memory(usage, "VmHWM") - begun < MOST_AT_ONCE


def test_page_of_the_console(usage: Served) -> None:
    """The usage of workloads in a year: the curve, the largest ones with their costs, and the CSV."""
    about: dict[str, Any] = {**YEAR, "by": "workload", "step": "total", **MOST}
    begun = memory(usage, "VmRSS")
    rows = page(usage, "ledger", EVER, 100, **about, page=1, page_size=100)
    held = [row["allocated_gpu_seconds"] for row in rows]
    assert held == [3 * DAY * GPUS] * 100
    # Equal amounts are ordered by name.
    names = [row["key"] for row in rows]
    assert names == sorted(names)
    costs = page(usage, "ledger", EVER, 200, **about, page_size=200, costs=True)
    assert {row["cost"] for row in costs} == {3 * 24 * GPUS * 2.5}
    last = page(usage, "ledger", EVER, EVER % 1000, **about, page=EVER // 1000 + 1, page_size=1000)
    assert [row["allocated_gpu_seconds"] for row in last] == sorted(
        (row["allocated_gpu_seconds"] for row in last), reverse=True
    )
    assert last[-1]["allocated_gpu_seconds"] < GPUS * DAY
    one = page(usage, "ledger", len(range(3, EVER, NAMESPACES)), 100, **about, namespace="team-3", page_size=100)
    assert {row["namespace"] for row in one} == {"team-3"}
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None and len(seen) < 3000:
        found = ask(usage, "ledger", **about, cursor=cursor, page_size=1000)
        seen += [row["value"] for row in found["data"]]
        cursor = found["next_cursor"]
    assert len(set(seen)) == len(seen) == 3000
    (whole,) = ask(usage, "ledger", **YEAR, step="total")
    by_namespace = ask(usage, "ledger", **YEAR, step="total", by="namespace")
    assert sum(row["allocated_gpu_seconds"] for row in by_namespace) == pytest.approx(whole["allocated_gpu_seconds"])
    assert whole["known_seconds"] == END - BEGIN
    assert memory(usage, "VmRSS") - begun < MOST_MEMORY
