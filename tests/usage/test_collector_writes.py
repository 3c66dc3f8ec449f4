"""The passes of a collector without a cluster: what it writes and logs."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import event, select

from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.durations import HOUR
from gpuctl_usage.collector import Collector
from gpuctl_usage.collector_context import CollectorContext
from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.collector_metrics import metrics_of
from gpuctl_usage.facts import AllocationSnapshot, CapacityState
from gpuctl_usage.gathering.cluster_events import ClusterEvent, ClusterEvents
from gpuctl_usage.gathering.gpu_weights import UNSIZED_DEVICES
from gpuctl_usage.gathering.object_facts import NodeFacts, PodFacts, QuotaFacts
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.database_tables import metadata
from gpuctl_usage.usage_settings import UsageSettings

T0 = 1_717_236_000.0
GPU = "nvidia.com/gpu"
NODE = NodeFacts("n", "n1", "H100", 8.0, 8.0, {}, {GPU: 1}, CapacityState.READY, T0 - 100, None, T0 - 100)
POD = PodFacts(
    *("u1", "a", "p", "n1", ((GPU, 2.0),), None, (), (), T0, T0 + 2, T0 + 5, None),
    over=False,
    written=T0 + 5,
)
QUOTA = QuotaFacts("q", "a", "q", ((GPU, 4.0),), T0)


class Killed(BaseException):
    """The process is killed."""


def listed(database: Database, *pods: PodFacts) -> Collector:
    """Return a collector that has listed a node, a quota and pods."""
    session = cast(Session, object())
    site = CollectorContext(session, Settings(), database, database.put_cluster("uid", "lab"), None, CollectorHealth())
    collector = Collector(site, UsageSettings(), threading.Event())
    objects = [("Node", NODE), ("ResourceQuota", QUOTA), *(("Pod", facts) for facts in pods)]
    events = [ClusterEvent("PUT", kind, T0 + 9, facts) for kind, facts in objects]
    for item in (*events, *(ClusterEvent("LISTED", kind, T0 + 9) for kind in collector._events.kinds)):
        collector._handle(item)
    return collector


def test_age_of_the_data_follows_the_api_servers_clock(tmp_path: Path) -> None:
    """Also if the local clock is five hours ahead: the data would look old."""
    database = open_database(str(tmp_path / "usage.db"))
    session = cast(Session, SimpleNamespace(clock_ahead=lambda: -5.0 * HOUR))
    site = CollectorContext(session, Settings(), database, database.put_cluster("uid", "lab"), None, CollectorHealth())
    collector = Collector(site, UsageSettings(), threading.Event())
    collector._clock.compare()
    site.health.write_succeeded(collector._clock.now() - 60)
    site.health.rolled_until = collector._clock.now() - 90
    assert site.health.state()["knownSecondsAgo"] == pytest.approx(60, abs=5)
    lag = next(line for line in metrics_of(site.health).decode().splitlines() if "rollup_lag_seconds{" in line)
    assert float(lag.rpartition(" ")[2]) == pytest.approx(90, abs=5)
    database.close()


def write(database: Database) -> None:
    """Write the first changes of a collector: a node, a pod, a quota and a snapshot."""
    collector = listed(database, POD)
    collector._snapshots.append(AllocationSnapshot(T0 + 10, 8.0, 2.0, ()))
    collector._write()


def contents(database: Database) -> dict[str, list[Any]]:
    with database.reading() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table))] for table in metadata.sorted_tables
        }


def test_killed_collector_has_written_all_changes_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("known_until", "quotas_known_until"):
        monkeypatch.setattr(ClusterEvents, name, lambda _: T0 + 20)
    states = []
    for number in count():
        database = open_database(str(tmp_path / f"{number}.db"), lambda: T0 + 20)
        database.put_cluster("uid", "lab")
        before, commits = contents(database), count()

        def commit(_: Any, number: int = number, commits: count[int] = commits) -> None:
            if next(commits) == number:
                raise Killed

        event.listen(database._engine, "commit", commit)
        with suppress(Killed):
            write(database)
        event.remove(database._engine, "commit", commit)
        states.append(contents(database))
        database.close()
        if next(commits) <= number:
            break
    assert [len(states[-1][name]) for name in ("holdings", "capacities", "quotas", "snapshots")] == [1, 1, 1, 1]
    assert [state for state in states if state not in (before, states[-1])] == []


def test_pods_of_unknown_size_are_logged_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A label of the node gives no size to a device that several claims share."""
    database = open_database(str(tmp_path / "usage.db"))
    claimed = POD._replace(gpu_requests=((UNSIZED_DEVICES, 1.0),), by_claim=True)
    collector = listed(database, claimed)
    for _ in range(2):
        collector._log_unsized_pods()
    (message,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert (
        message == "the size of a pod's share of a card is unknown: its claim, or a device of it, is shared or divided"
    )
    database.close()
