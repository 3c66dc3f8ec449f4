"""`/gpu-aggregation`: the answers printed in the product's document, from a database with known sums."""

from __future__ import annotations

import base64
import csv
import io
import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from control_plane import ControlPlane
from gpuctl_sdk import Client, NotFound
from gpuctl_sdk.models import ClusterHourPage
from gpuctl_server.http.http_problems import Problem, answer
from gpuctl_usage.facts import AllocationSnapshot, GpuQuota, Holding, WorkloadAllocation, WorkloadKey
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.cluster_tools import POOL
from support.served import Served, serving

USERS = {
    "admin": ("admin", None, None),
    "anna": ("user", ("ml-training",), None),
    "twice": ("user", ("ml-training", "ml-inference", "not-there"), None),
    "nora": ("user", ("not-there",), None),
    "vera": ("viewer", None, None),
    "pooled": ("admin", None, (POOL,)),
    "both": ("user", ("ml-training",), (POOL,)),
}
HOUR, DAY = 3600, 24 * 3600
BASE = "/gpu-aggregation"
MANY = 1000
"""Values of a label, each in eleven hours: more rows than a list may have."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


FIRST = at("2025-11-05T14:00:00")
ALL = {"start_time": "2025-11-05T00:00:00Z", "end_time": "2025-11-06T00:00:00Z"}
CREATED = {"created_at": "2025-11-05T15:00:01Z", "updated_at": "2025-11-05T15:00:01Z"}
KNOWN = {"known_seconds": 3600.0, "provisional": False}


def sums(gpus: float, mean: float, low: float, high: float, *, share: float = 1.0, **more: Any) -> Sums:
    """Return the sums of `gpus` GPUs held for an hour, of which `share` was measured."""
    held = gpus * HOUR
    values = {"alloc_gpu_s": held, "running_gpu_s": held, "obs_gpu_s": held * share, "util_gpu_s": mean * held * share}
    return Sums(**values | {"util_min": low, "util_max": high} | more)


def memory(gpus: float, used: float, most: float, total: float) -> dict[str, float]:
    seconds = gpus * HOUR
    return {
        "memory_obs_gpu_s": seconds,
        "memory_used_gpu_s": used * seconds,
        "memory_total_gpu_s": total * seconds,
        "memory_max": most,
    }


def workload(namespace: str, kind: str, name: str, uid: str) -> tuple[WorkloadKey, Group]:
    return WorkloadKey(namespace, kind, name, uid), Group(Level.WORKLOAD, f"{namespace}/{kind}/{name}", uid)


BERT, BERT_GROUP = workload("ml-training", "Job", "bert-training-job", "abc-def-123")
SERVER, SERVER_GROUP = workload("ml-inference", "Deployment", "inference-server", "xyz-uvw-456")
_, UNSEEN_GROUP = workload("ml-training", "Job", "unseen", "u-1")
_, SYSTEM_GROUP = workload("kube-system", "DaemonSet", "agent", "u-2")
WHOLE = Group(Level.CLUSTER)
SPREAD = {60: 20, 70: 36, 89: 4}
"""60 minutes: the value of rank 30 is 70, that of rank 57 is 89."""


def fill_database(database: Database, uid: str) -> None:
    """Write the data of the document's examples, and further data for cases the examples do not cover.

    :param uid: of the service's cluster. Another cluster was collected first, into the same database.
    """
    other = database.put_cluster("uid-2", "prod-cluster")
    cluster = database.put_cluster(uid, "cluster-1")
    pods = [
        Holding("p1", "ml-training", "bert-0", BERT, "n1", 8.0, "A100", *_SAID_OF_BERT, float(FIRST - 10), 0.0, None),
        Holding("p2", "ml-inference", "s-0", SERVER, "n1", 2.0, "V100", *_SAID_OF_SERVER, float(FIRST), 1.0, None),
    ]
    database.put_changes(cluster, FIRST + HOUR, holdings=pods, quotas=[GpuQuota("inference", 64, FIRST - DAY, None)])
    label = lambda value: Group(Level.LABEL, "team", value)  # noqa: E731
    hour = {
        WHOLE: sums(96.5, 68.5, 45.3, 95.2, share=0.5, cap_gpu_s=128 * HOUR, histogram=SPREAD, buckets=12, samples=9),
        Group(Level.NAMESPACE, value="ml-training"): sums(32.5, 72.3, 55.2, 89.5, workloads=5),
        Group(Level.NAMESPACE, value="inference"): sums(48, 65.8, 48.3, 82.1, workloads=12),
        Group(Level.NAMESPACE, value="kube-system"): sums(1, 1, 1, 1, workloads=1),
        label("ai-research"): sums(64, 78.5, 62.1, 92.3, workloads=8),
        label("cv-team"): sums(32.5, 68.2, 51.3, 85.7, workloads=4),
        Group(Level.ANNOTATION, "cost-center", "cc-001"): sums(8, 85.67, 72.34, 98.2, workloads=1),
        BERT_GROUP: sums(
            8, 85.67, 72.34, 98.2, histogram={85: 56, 96: 4}, pod_s=HOUR, pods_min=1, pods_max=1, samples=3600,
            workloads=1, **memory(8, 28.5, 31.2, 32.0),
        ),
        SERVER_GROUP: sums(
            4, 62.34, 42, 81, histogram={61: 40, 79: 20}, pod_s=2.5 * HOUR, pods_min=2, pods_max=3, samples=3600,
            workloads=1, **memory(4, 12.8, 15.6, 16.0),
        ),
        # Half of the hour on two GPUs, without measurements.
        UNSEEN_GROUP: Sums(alloc_gpu_s=HOUR, pod_s=HOUR / 2, pods_min=1, pods_max=1, workloads=1),
        SYSTEM_GROUP: sums(1, 1, 1, 1, pod_s=HOUR, pods_min=1, pods_max=1, workloads=1),
    }  # fmt: skip
    database.put_rolled_up(cluster, RolledUp(FIRST, HOUR, hour, "first"), provisional=False)
    # An hour in progress: a quarter of it has passed.
    running = {WHOLE: Sums(alloc_gpu_s=64 * 900, cap_gpu_s=128 * 900)}
    database.put_rolled_up(cluster, RolledUp(FIRST + HOUR, 900, running, "running"), provisional=True)
    for number in range(11):
        start = at("2025-10-01T00:00:00") + number * HOUR
        values = {Group(Level.LABEL, "many", f"v{item:04}"): Sums(alloc_gpu_s=HOUR) for item in range(MANY)}
        works = {workload("ml-training", "Job", f"w{item}", "u")[1]: sums(1, item % 7, 0, 9) for item in range(23)}
        both = {**values, **works} if number else values
        database.put_rolled_up(cluster, RolledUp(start, HOUR, {WHOLE: Sums(), **both}, "many"), provisional=False)
    held = (
        WorkloadAllocation(WorkloadKey("ml-training", "PyTorchJob", "bert-training", "abc-123"), 8, 85.3),
        WorkloadAllocation(WorkloadKey("ml-training", "Job", "rest", "r"), 24, (72.5 * 32 - 85.3 * 8) / 24),
        WorkloadAllocation(WorkloadKey("inference", "Deployment", "a", "d"), 48, None),
        WorkloadAllocation(WorkloadKey("kube-system", "DaemonSet", "agent", "e"), 16, 1.0),
    )
    for minutes in (0, 5, 25):
        database.put_changes(cluster, snapshots=[AllocationSnapshot(FIRST + minutes * 60, 128, 96, held)])
    of_other = {
        WHOLE: sums(1, 50, 50, 50, cap_gpu_s=8 * HOUR),
        Group(Level.NAMESPACE, value="ml-training"): sums(1, 5, 5, 5),
    }
    database.put_rolled_up(other, RolledUp(FIRST, HOUR, of_other, "o"), False)
    for number in range(301):
        database.put_changes(other, snapshots=[AllocationSnapshot(time.time() - 60 - number * 20, 8, 8, held[:1])])


_SAID_OF_BERT = (
    {"team": "research", "project": "nlp", "priority": "high"},
    {"cost-center": "cc-001", "project-id": "proj-123"},
)
_SAID_OF_SERVER = ({"team": "production", "app": "inference"}, {})  # type: ignore[var-annotated]


def uid_of(plane: ControlPlane) -> str:
    """Return the uid that identifies a cluster."""
    return str(plane.get("namespace", "kube-system")["metadata"]["uid"])


@pytest.fixture(scope="module")
def usage(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("usage")
    path = directory / "usage.db"
    database = open_database(str(path), clock=lambda: FIRST + HOUR + 1.7)
    fill_database(database, uid_of(plane))
    database.close()
    with serving(directory, plane.kubeconfig(), USERS, usage_database=str(path)) as running:  # type: ignore[arg-type]
        yield running


def ask(served: Served, path: str, name: str = "admin", **query: Any) -> Any:
    """Return the data of a successful answer."""
    value = served.get(f"{BASE}/{path}", name, **query)
    assert (value.keys(), value["code"], value["message"]) == ({"code", "message", "data"}, 200, "success")
    return value["data"]


def refused(served: Served, path: str, name: str = "admin", *, status: int, **query: Any) -> str:
    """Return the error text of an answer with this status."""
    value = served.get(f"{BASE}/{path}", name, status=status, **query)
    assert (value.keys() - {"reason"}, value["code"]) == ({"code", "message", "error"}, status)
    text: str = value["error"]
    return text


def without_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without their ids; assert that ids are unique and exact in JavaScript."""
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(number, int) and 0 < number < 2**53 for number in ids)
    return [{key: value for key, value in row.items() if key != "id"} for row in rows]


# Answers as printed in the document.


def test_cluster_hours(usage: Served) -> None:
    first, running = without_ids(ask(usage, "cluster/hourly-stats", **ALL))
    assert first == {
        "cluster_name": "cluster-1",
        "stat_hour": "2025-11-05T14:00:00Z",
        "total_gpu_capacity": 128,
        "allocated_gpu_count": 96.5,
        "allocation_rate": 75.39,
        "avg_utilization": 68.5,
        "max_utilization": 95.2,
        "min_utilization": 45.3,
        "p50_utilization": 70,
        "p95_utilization": 89,
        "sample_count": 12,
        "coverage": 0.5,
        **KNOWN,
        **CREATED,
    }
    assert running == {
        "cluster_name": "cluster-1",
        "stat_hour": "2025-11-05T15:00:00Z",
        "total_gpu_capacity": 128,
        "allocated_gpu_count": 64.0,
        "allocation_rate": 50.0,
        **dict.fromkeys([f"{kind}_utilization" for kind in ("avg", "max", "min", "p50", "p95")]),
        "sample_count": 0,
        "coverage": 0.0,
        "known_seconds": 900.0,
        "provisional": True,
        **CREATED,
    }


def test_namespace_hours(usage: Served) -> None:
    inference, system, training = without_ids(ask(usage, "namespaces/hourly-stats", **ALL))
    alike = {"cluster_name": "cluster-1", "stat_hour": "2025-11-05T14:00:00Z", "coverage": 1.0, **KNOWN, **CREATED}
    assert training == alike | {
        "namespace": "ml-training",
        "total_gpu_capacity": 128,
        "allocated_gpu_count": 32.5,
        "allocation_rate": 25.39,
        "avg_utilization": 72.3,
        "max_utilization": 89.5,
        "min_utilization": 55.2,
        "active_workload_count": 5,
    }
    assert inference == alike | {
        "namespace": "inference",
        # The GPUs of its quota.
        "total_gpu_capacity": 64,
        "allocated_gpu_count": 48.0,
        "allocation_rate": 75.0,
        "avg_utilization": 65.8,
        "max_utilization": 82.1,
        "min_utilization": 48.3,
        "active_workload_count": 12,
    }
    assert system["namespace"] == "kube-system"
    (one,) = without_ids(ask(usage, "namespaces/hourly-stats", namespace="ml-training", **ALL))
    assert one == training
    assert ask(usage, "namespaces/hourly-stats", namespace="absent", **ALL) == []


def test_label_and_annotation_hours(usage: Served) -> None:
    of_team = {"dimension_type": "label", "dimension_key": "team"}
    first, second = without_ids(ask(usage, "labels/hourly-stats", **of_team, **ALL))
    alike = {
        "cluster_name": "cluster-1",
        **of_team,
        "stat_hour": "2025-11-05T14:00:00Z",
        "coverage": 1.0,
        **KNOWN,
        **CREATED,
    }
    assert first == alike | {
        "dimension_value": "ai-research",
        "allocated_gpu_count": 64.0,
        "avg_utilization": 78.5,
        "max_utilization": 92.3,
        "min_utilization": 62.1,
        "active_workload_count": 8,
    }
    assert second == alike | {
        "dimension_value": "cv-team",
        "allocated_gpu_count": 32.5,
        "avg_utilization": 68.2,
        "max_utilization": 85.7,
        "min_utilization": 51.3,
        "active_workload_count": 4,
    }
    assert without_ids(ask(usage, "labels/hourly-stats", **of_team, dimension_value="cv-team", **ALL)) == [second]
    (cost,) = ask(usage, "labels/hourly-stats", dimension_type="annotation", dimension_key="cost-center", **ALL)
    assert (cost["dimension_value"], cost["allocated_gpu_count"]) == ("cc-001", 8.0)
    assert ask(usage, "labels/hourly-stats", dimension_type="label", dimension_key="cost-center", **ALL) == []


def test_workload_hours(usage: Served) -> None:
    page = ask(usage, "workloads/hourly-stats", **ALL, order_by="utilization", order_direction="desc")
    assert {key: value for key, value in page.items() if key != "data"} == {
        "total": 4,
        "page": 1,
        "page_size": 20,
        "total_pages": 1,
    }
    bert, server, system, unseen = without_ids(page["data"])
    alike = {
        "cluster_name": "cluster-1",
        "stat_hour": "2025-11-05T14:00:00Z",
        "workload_status": "Running",
        **KNOWN,
        **CREATED,
    }
    assert bert == alike | {
        "namespace": "ml-training",
        "workload_name": "bert-training-job",
        "workload_type": "Job",
        "allocated_gpu_count": 8.0,
        "requested_gpu_count": 8.0,
        "avg_utilization": 85.67,
        "max_utilization": 98.2,
        "min_utilization": 72.34,
        "p50_utilization": 85,
        "p95_utilization": 96,
        "avg_gpu_memory_used": 28.5,
        "max_gpu_memory_used": 31.2,
        "avg_gpu_memory_total": 32.0,
        "avg_replica_count": 1.0,
        "max_replica_count": 1,
        "min_replica_count": 1,
        "sample_count": 3600,
        "owner_uid": "abc-def-123",
        "owner_name": "bert-training-job",
        "labels": {"team": "research", "project": "nlp", "priority": "high"},
        "annotations": {"cost-center": "cc-001", "project-id": "proj-123"},
        "coverage": 1.0,
    }
    assert server == alike | {
        "namespace": "ml-inference",
        "workload_name": "inference-server",
        "workload_type": "Deployment",
        "allocated_gpu_count": 4.0,
        # 1.6 GPUs per pod, at most three pods.
        "requested_gpu_count": 4.8,
        "avg_utilization": 62.34,
        "max_utilization": 81.0,
        "min_utilization": 42.0,
        "p50_utilization": 61,
        "p95_utilization": 79,
        "avg_gpu_memory_used": 12.8,
        "max_gpu_memory_used": 15.6,
        "avg_gpu_memory_total": 16.0,
        "avg_replica_count": 2.5,
        "max_replica_count": 3,
        "min_replica_count": 2,
        "sample_count": 3600,
        "owner_uid": "xyz-uvw-456",
        "owner_name": "inference-server",
        "labels": {"team": "production", "app": "inference"},
        "annotations": {},
        "coverage": 1.0,
    }
    # Unknown values are null, and sorted last.
    names = ("allocated_gpu_count", "requested_gpu_count", "avg_utilization", "max_gpu_memory_used", "coverage")
    assert [unseen[name] for name in names] == [1.0, 2.0, None, None, 0.0]
    assert unseen["workload_status"] == "Pending"
    assert system["namespace"] == "kube-system"


def test_latest_snapshot(usage: Served) -> None:
    found = ask(usage, "snapshots/latest")
    details = found.pop("allocation_details")
    assert isinstance(found.pop("id"), int)
    assert found == {
        "cluster_name": "cluster-1",
        "snapshot_time": "2025-11-05T14:25:00Z",
        "dimension_type": "cluster",
        "dimension_key": "",
        "dimension_value": "",
        "total_gpu_capacity": 128,
        "allocated_gpu_count": 96,
        "created_at": "2025-11-05T15:00:01Z",
    }
    assert (details.keys(), details["annotations"]) == ({"namespaces", "annotations"}, {})
    training = details["namespaces"]["ml-training"]
    assert [item["name"] for item in training.pop("workloads")] == ["rest", "bert-training"]
    assert training == {"allocated_gpu": 32, "utilization": 72.5, "workload_count": 2}
    (one,) = details["namespaces"]["inference"].pop("workloads")
    assert one == {
        "uid": "d",
        "name": "a",
        "namespace": "inference",
        "kind": "Deployment",
        "allocated_gpu": 48,
        "utilization": None,
    }
    assert details["namespaces"]["inference"] == {"allocated_gpu": 48, "utilization": None, "workload_count": 1}


def test_snapshots_in_a_time_range(usage: Served) -> None:
    between = {"start_time": "2025-11-05T14:00:00Z", "end_time": "2025-11-05T14:25:00Z"}
    found = ask(usage, "snapshots", **between)
    assert [item["snapshot_time"][11:16] for item in found] == ["14:00", "14:05"]
    assert found[0].keys() == {
        *("id", "cluster_name", "snapshot_time", "dimension_type", "total_gpu_capacity", "allocated_gpu_count"),
        *("allocation_details", "created_at"),
    }
    assert found[0]["allocation_details"]["namespaces"].keys() == {"ml-training", "inference", "kube-system"}
    (bare, _) = ask(usage, "snapshots", include_details="false", **between)
    assert (bare["allocation_details"], bare["allocated_gpu_count"]) == ({}, 96)
    (some, _) = ask(usage, "snapshots", workload_names="rest, absent", **between)
    named = [item["name"] for space in some["allocation_details"]["namespaces"].values() for item in space["workloads"]]
    assert (set(named), some["allocated_gpu_count"]) == ({"rest"}, 96)
    page = ask(usage, "snapshots", page=2, page_size=1, **between)
    assert (page["total"], page["total_pages"], page["data"]) == (2, 2, found[1:])
    # The default is the last 24 hours; more than 300 snapshots are returned without details, and the message says so.
    value = usage.get(f"{BASE}/snapshots", cluster="prod-cluster")
    assert len(value["data"]) == 301
    assert {json.dumps(item["allocation_details"]) for item in value["data"]} == {"{}"}
    assert value["message"].endswith("request them with include_details=true")
    text = refused(usage, "snapshots", cluster="prod-cluster", include_details="true", status=400)
    assert "page=1&page_size=300" in text
    told = ask(usage, "snapshots", cluster="prod-cluster", include_details="true", page=1, page_size=300)
    assert all(item["allocation_details"]["namespaces"] for item in told["data"])
    assert ask(usage, "snapshots") == []


def test_names_of_clusters_namespaces_and_dimensions(usage: Served) -> None:
    assert ask(usage, "clusters") == ["cluster-1", "prod-cluster"]
    assert ask(usage, "namespaces") == ["inference", "kube-system", "ml-inference", "ml-training"]
    assert ask(usage, "namespaces", cluster="prod-cluster") == ["ml-training"]
    assert ask(usage, "dimension-keys") == ["many", "team"]
    assert ask(usage, "dimension-keys", dimension_type="annotation") == ["cost-center"]
    assert ask(usage, "dimension-values", dimension_type="label", dimension_key="team") == ["ai-research", "cv-team"]
    assert ask(usage, "dimension-values", dimension_type="label", dimension_key="absent") == []


# Every request of the document, with the values its shell commands would insert, and the number of rows.
LINES = """
cluster/hourly-stats?start_time=2025-11-04T00:00:00Z&end_time=2025-11-05T00:00:00Z 0
cluster/hourly-stats?cluster=prod-cluster&start_time=2025-11-04T00:00:00Z&end_time=2025-11-05T00:00:00Z 0
namespaces/hourly-stats?start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 3
namespaces/hourly-stats?namespace=ml-training&start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 1
labels/hourly-stats?dimension_type=label&dimension_key=team&start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 2
labels/hourly-stats?dimension_type=label&dimension_key=team&dimension_value=ai-research&start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 1
labels/hourly-stats?dimension_type=annotation&dimension_key=cost-center&start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 1
workloads/hourly-stats?start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 4
workloads/hourly-stats?namespace=ml-training&start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 2
workloads/hourly-stats?namespace=ml-training&workload_name=bert-training-job&start_time=2025-11-01T00:00:00Z&end_time=2025-11-07T23:59:59Z 1
workloads/hourly-stats?workload_type=Job&start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 2
workloads/hourly-stats?start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z&page=1&page_size=50&order_by=utilization&order_direction=desc 4
workloads/hourly-stats?cluster=cluster-1&namespace=production&workload_type=Deployment&start_time=2025-11-01T00:00:00Z&end_time=2025-11-07T23:59:59Z 0
snapshots/latest 1
snapshots/latest?cluster=prod-cluster 1
snapshots 0
snapshots?start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z 3
cluster/hourly-stats?start_time={week}&end_time={today_end} 0
labels/hourly-stats?dimension_type=label&dimension_key=team&start_time={today}&end_time={today_end} 0
namespaces/hourly-stats?start_time={month}&end_time={today_end} 0
workloads/hourly-stats?start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z&order_by=utilization&order_direction=asc&page_size=10 4
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_every_request_of_the_document_returns_its_rows(usage: Served, line: str) -> None:
    now = datetime.now(timezone.utc)
    request, _, number = line.format(
        week=(now - timedelta(days=7)).strftime("%Y-%m-%dT00:00:00Z"),
        today=now.strftime("%Y-%m-%dT00:00:00Z"),
        today_end=now.strftime("%Y-%m-%dT23:59:59Z"),
        month=now.strftime("%Y-%m-01T00:00:00Z"),
    ).rpartition(" ")
    parts = urlsplit(request)
    found = ask(usage, parts.path, **dict(parse_qsl(parts.query)))
    found = found["data"] if parts.path.startswith("workloads") else found
    assert (1 if isinstance(found, dict) else len(found)) == int(number)


# Paging and times.


def test_pages_contain_each_row_once(usage: Served) -> None:
    """All pages together contain each row once, in one order."""
    october = {"start_time": "2025-10-01T00:00:00Z", "end_time": "2025-10-02T00:00:00Z"}
    for order in ("time", "utilization", "allocated_gpu_count"):
        for direction in ("asc", "desc"):
            asked = {**october, "order_by": order, "order_direction": direction}
            whole = ask(usage, "workloads/hourly-stats", page_size=1000, **asked)
            assert (whole["total"], whole["total_pages"], len(whole["data"])) == (230, 1, 230)
            found: list[Any] = []
            for number in range(1, 7):
                page = ask(usage, "workloads/hourly-stats", page=number, page_size=40, **asked)
                assert (page["total"], page["page"], page["page_size"], page["total_pages"]) == (230, number, 40, 6)
                found += page["data"]
            assert found == whole["data"]
            keys = {"time": "stat_hour", "utilization": "avg_utilization"}
            values = [row[keys.get(order, order)] for row in found]
            assert values == sorted(values, reverse=direction == "desc")
    default = ask(usage, "workloads/hourly-stats", **october)
    assert (default["page"], default["page_size"], len(default["data"])) == (1, 20, 20)
    beyond = ask(usage, "workloads/hourly-stats", page=2**31, page_size=1000, **october)
    assert (beyond["total"], beyond["data"]) == (230, [])


def test_long_lists_need_pages(usage: Served) -> None:
    """Without page and page_size a list, up to a maximum number of rows; with either of them a page."""
    asked = {"dimension_type": "label", "dimension_key": "many", "start_time": "2025-10-01T00:00:00Z"}
    text = refused(usage, "labels/hourly-stats", **asked, end_time="2025-10-02T00:00:00Z", status=400)
    assert text.startswith("more than 10000 rows; request a shorter time, or pages")
    assert len(ask(usage, "labels/hourly-stats", **asked, end_time="2025-10-01T10:00:00Z")) == 10_000
    page = ask(usage, "labels/hourly-stats", **asked, end_time="2025-10-02T00:00:00Z", page=11, page_size=1000)
    assert (page["total"], page["total_pages"], len(page["data"])) == (11_000, 11, 1000)
    page = ask(usage, "cluster/hourly-stats", **ALL, page_size=1)
    assert (page["total"], page["page"], page["page_size"], page["total_pages"]) == (2, 1, 1, 2)
    page = ask(usage, "namespaces/hourly-stats", **ALL, page=2)
    assert (page["total"], page["data"]) == (3, [])


def test_time_ranges_are_half_open_in_any_zone(usage: Served) -> None:
    """Half-open intervals, in any time zone, also if a `+` was decoded as a space."""

    def hours(start: str, end: str) -> list[str]:
        found = ask(usage, "cluster/hourly-stats", start_time=start, end_time=end)
        return [row["stat_hour"][11:13] for row in found]

    assert hours("2025-11-05T14:00:00Z", "2025-11-05T15:00:00Z") == ["14"]
    assert hours("2025-11-05T14:00:01Z", "2025-11-05T15:00:01Z") == ["15"]
    assert hours("2025-11-05T22:00:00+08:00", "2025-11-05T22:00:01+08:00") == ["14"]
    assert hours("2025-11-05T22:00:00 08:00", "2025-11-05T23:00:00 08:00") == ["14"]
    assert hours("2025-11-05T13:59:59.999Z", "2025-11-05T14:00:00Z") == []


# Days and longer, and the ledger.


def test_steps_sum_their_hours(usage: Served) -> None:
    """One row per step with the sums of its hours; no row for a step without hours."""
    (day,) = ask(usage, "cluster/hourly-stats", **ALL, step="day")
    assert (day["stat_hour"], day["end_time"]) == ("2025-11-05T00:00:00Z", "2025-11-06T00:00:00Z")
    # An hour of 96.5 GPUs and a quarter of an hour of 64.
    assert (day["allocated_gpu_count"], day["total_gpu_capacity"]) == (90.0, 128)
    assert (day["avg_utilization"], day["p95_utilization"], day["sample_count"]) == (68.5, 89, 12)
    shanghai = {**ALL, "step": "day", "tz": "Asia/Shanghai", "end_time": "2025-11-06T16:00:00Z"}
    assert [row["end_time"][:13] for row in ask(usage, "namespaces/hourly-stats", **shanghai)] == ["2025-11-05T16"] * 3
    of_team = {"dimension_type": "label", "dimension_key": "team", "step": "month"}
    assert [row["allocated_gpu_count"] for row in ask(usage, "labels/hourly-stats", **of_team, **ALL)] == [51.2, 26.0]
    page = ask(usage, "workloads/hourly-stats", **ALL, step="total", order_by="utilization", order_direction="desc")
    assert [row["workload_name"] for row in page["data"]] == [
        "bert-training-job",
        "inference-server",
        "agent",
        "unseen",
    ]
    assert page["data"][0]["labels"]["team"] == "research"
    text = refused(usage, "cluster/hourly-stats", **ALL, step="day", tz="Asia/Nowhere", status=400)
    assert text == "tz: time zone `Asia/Nowhere` does not exist; use a name such as Asia/Shanghai"


def test_ledger_by_each_dimension(usage: Served) -> None:
    (row,) = ask(usage, "ledger", **ALL, step="month", tz="Asia/Shanghai")
    held = 96.5 * HOUR + 64 * 900
    assert (row["level"], row["time"], row["end_time"]) == ("cluster", ALL["start_time"], ALL["end_time"])
    assert (row["capacity_gpu_seconds"], row["allocated_gpu_seconds"]) == (128 * 4500, held)
    assert row["busy_gpu_seconds"] == pytest.approx(96.5 * HOUR / 2 * 0.685)
    assert row["held_unobserved_gpu_seconds"] == pytest.approx(96.5 * HOUR / 2 + 64 * 900)
    # The test data has more capacity than its parts add up to; `closes` reports that.
    assert row["closes"] is False
    rows = ask(usage, "ledger", **ALL, by="label", key="team")
    assert [(row["value"], row["closes"], row["capacity_gpu_seconds"]) for row in rows] == [
        ("ai-research", True, None),
        ("cv-team", True, None),
    ]
    page = ask(usage, "ledger", **ALL, by="workload", namespace="ml-training", page_size=1)
    assert (page["total"], page["data"][0]["name"], page["data"][0]["value"]) == (2, "bert-training-job", "abc-def-123")
    assert ask(usage, "ledger", **ALL, by="node") == ask(usage, "ledger", **ALL, by="model") == []
    # Users see the rows of their own namespaces.
    assert [row["value"] for row in ask(usage, "ledger", "anna", by="namespace", **ALL)] == ["ml-training"]
    assert {row["namespace"] for row in ask(usage, "ledger", "anna", by="workload", **ALL)} == {"ml-training"}
    for by in ("cluster", "node", "model"):
        text = refused(usage, "ledger", "anna", by=by, status=403, **ALL)
        assert text.endswith("together; use /gpu-aggregation/ledger?by=namespace")
    assert "403" not in str(refused(usage, "ledger", "pooled", by="workload", status=403, **ALL))
    refused(usage, "ledger", "anna", by="label", key="team", status=403, **ALL)
    refused(usage, "ledger", "anna", by="namespace", namespace="inference", status=403, **ALL)


def test_hours_parameter_selects_the_last_hours(usage: Served) -> None:
    """The hour in progress counts; the last day has no data here, all hours since FIRST have everything."""
    assert ask(usage, "cluster/hourly-stats", hours=24) == []
    back = int(time.time() - FIRST) // HOUR + 1
    assert len(ask(usage, "cluster/hourly-stats", hours=back)) == 2
    assert len(ask(usage, "cluster/hourly-stats", hours=back - 1)) == 1
    # With a start or end time, the hours after or before it.
    assert len(ask(usage, "cluster/hourly-stats", hours=1, start_time="2025-11-05T14:00:00Z")) == 1
    assert len(ask(usage, "cluster/hourly-stats", hours=3, end_time="2025-11-05T16:00:00Z")) == 2


def csv_of(served: Served, path: str, name: str = "admin", **query: Any) -> list[dict[str, str]]:
    response = served.client(name).get(f"{BASE}/{path}", params={**query, "format": "csv"})
    assert (response.status_code, response.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.DictReader(io.StringIO(response.text, newline="")))


def test_csv_has_the_rows_of_json(usage: Served) -> None:
    """The same rows as JSON: columns are named as the fields, null is an empty cell."""
    for path, more in (
        ("cluster/hourly-stats", {}),
        ("namespaces/hourly-stats", {"include_idle": "true"}),
        ("workloads/hourly-stats", {}),
        ("ledger", {"by": "workload", "step": "day"}),
    ):
        found = ask(usage, path, **ALL, **more)
        rows = found["data"] if isinstance(found, dict) else found
        told = csv_of(usage, path, **ALL, **more)
        assert len(told) == len(rows) > 0
        for row, cells in zip(rows, told, strict=True):
            for name, value in row.items():
                if isinstance(value, dict):
                    assert json.loads(cells[name]) == value
                elif isinstance(value, float):
                    assert float(cells[name]) == value
                else:
                    assert cells[name] == ("" if value is None else json.dumps(value).strip('"'))
    # All workloads, not a page of 20.
    october = {"start_time": "2025-10-01T00:00:00Z", "end_time": "2025-10-02T00:00:00Z"}
    assert len(csv_of(usage, "workloads/hourly-stats", **october)) == 230
    assert len(csv_of(usage, "workloads/hourly-stats", **october, page=2, page_size=100)) == 100
    response = usage.client().get(f"{BASE}/cluster/hourly-stats", params={"hours": 1, "format": "csv"})
    assert response.text.startswith("id,cluster_name,stat_hour,")
    assert response.text.endswith("\r\n")
    assert response.text.count("\n") == 1
    # Errors are JSON, as without `format=csv`.
    assert "is required" in refused(usage, "cluster/hourly-stats", status=400, format="csv")
    refused(usage, "workloads/hourly-stats", "pooled", status=403, format="csv", **ALL)
    assert {row["namespace"] for row in csv_of(usage, "namespaces/hourly-stats", "anna", **ALL)} == {"ml-training"}


def test_excluded_namespaces_are_left_out(usage: Served) -> None:
    without = {**ALL, "exclude_namespaces": "kube-system, ml-training"}
    assert [row["namespace"] for row in ask(usage, "namespaces/hourly-stats", **without)] == ["inference"]
    assert [row["value"] for row in ask(usage, "ledger", by="namespace", **without)] == ["inference"]
    assert {row["namespace"] for row in ask(usage, "workloads/hourly-stats", **without)["data"]} == {"ml-inference"}
    assert ask(usage, "namespaces/hourly-stats", "anna", **without) == []


def test_include_idle_adds_namespaces_without_gpus(usage: Served) -> None:
    """`include_idle` adds a row for each known namespace in every hour."""
    whole = ask(usage, "namespaces/hourly-stats", **ALL)
    rows = ask(usage, "namespaces/hourly-stats", **ALL, include_idle="true")
    assert [(row["stat_hour"][11:13], row["namespace"]) for row in rows] == [
        (hour, name) for hour in ("14", "15") for name in ("inference", "kube-system", "ml-training")
    ]
    assert [row for row in rows if row["allocated_gpu_count"]] == whole
    idle = next(row for row in rows if row["allocated_gpu_count"] == 0)
    assert (idle["avg_utilization"], idle["coverage"], idle["active_workload_count"]) == (None, None, 0)
    capacities = {(row["namespace"], row["total_gpu_capacity"]) for row in rows}
    assert capacities == {("inference", 64), ("kube-system", 128), ("ml-training", 128)}
    page = ask(usage, "namespaces/hourly-stats", **ALL, include_idle="true", page=2, page_size=4)
    assert (page["total"], page["data"]) == (6, rows[4:])
    months = {**ALL, "include_idle": "true", "step": "month", "dimension_type": "label", "dimension_key": "team"}
    assert len(ask(usage, "labels/hourly-stats", **months)) == 2
    assert [row["namespace"] for row in ask(usage, "namespaces/hourly-stats", "nora", **ALL, include_idle="true")] == []


@pytest.mark.parametrize("order", ["time", "utilization", "allocated_gpu_count"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("step", ["hour", "total"])
def test_cursor_pages_contain_each_row_once(usage: Served, order: str, direction: str, step: str) -> None:
    """All rows, each once, in the order of pages; also with equal or null sort values."""
    asked = {"start_time": "2025-10-01T00:00:00Z", "end_time": "2025-11-06T00:00:00Z", "step": step}
    asked |= {"order_by": order, "order_direction": direction}
    whole = ask(usage, "workloads/hourly-stats", page_size=1000, **asked)["data"]
    found: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        answer_ = ask(usage, "workloads/hourly-stats", cursor=cursor, page_size=7 if step == "total" else 50, **asked)
        assert answer_.keys() == {"page_size", "next_cursor", "data"}
        found += answer_["data"]
        cursor = answer_["next_cursor"]
    assert found == whole


def test_new_rows_do_not_shift_a_cursor(plane: ControlPlane, tmp_path: Path) -> None:
    """New rows before or after the cursor do not shift the others."""
    path = tmp_path / "usage.db"
    database = open_database(str(path))
    cluster = database.put_cluster(uid_of(plane), "cluster-1")

    def put(number: int, *names: str) -> None:
        values = {Group(Level.NAMESPACE, value=name): sums(1, 50, 50, 50) for name in names}
        rolled = RolledUp(FIRST + number * HOUR, HOUR, {WHOLE: Sums(), **values}, f"{number} {names}")
        database.put_rolled_up(cluster, rolled, provisional=False)

    for number in (1, 2, 3):
        put(number, "b", "d")
    users = {"admin": USERS["admin"]}
    with serving(tmp_path, plane.kubeconfig(), users, usage_database=str(path)) as running:  # type: ignore[arg-type]
        asked = {**ALL, "end_time": "2025-11-07T00:00:00Z", "page_size": 3}
        first = ask(running, "namespaces/hourly-stats", cursor="", **asked)
        for number in (0, 1, 2, 4):
            put(number, "a", "b", "c", "d")
        rest = ask(running, "namespaces/hourly-stats", cursor=first["next_cursor"], **asked | {"page_size": 100})
        told = [(int(row["stat_hour"][11:13]) - 14, row["namespace"]) for row in first["data"] + rest["data"]]
        assert told == [
            (1, "b"),
            (1, "d"),
            (2, "b"),
            (2, "c"),
            (2, "d"),
            (3, "b"),
            (3, "d"),
            *((4, name) for name in "abcd"),
        ]
    database.close()


def test_snapshots_are_thinned_by_interval(usage: Served) -> None:
    times = [item["snapshot_time"][11:16] for item in ask(usage, "snapshots", **ALL, interval="20m")]
    assert times == ["14:00", "14:25"]
    page = ask(usage, "snapshots", **ALL, interval="5m", page=2, page_size=2)
    assert (page["total"], [item["snapshot_time"][11:16] for item in page["data"]]) == (3, ["14:25"])
    # Few enough to include details.
    found = ask(usage, "snapshots", cluster="prod-cluster", interval="1h")
    assert 1 <= len(found) <= 4
    assert all(item["allocation_details"] for item in found)


# Errors.


def cursor(value: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("cluster/hourly-stats", {}, 400, "the query parameter start_time is required; end_time is required"),
        ("labels/hourly-stats", ALL, 400, "the query parameter dimension_type is required; dimension_key is required"),
        ("labels/hourly-stats", {**ALL, "dimension_type": "node", "dimension_key": "x"}, 400, "dimension_type must be one of `label`, `annotation`"),
        ("labels/hourly-stats", {**ALL, "dimension_type": "label", "dimension_key": ""}, 400, "dimension_key must have at least 1 character"),
        ("dimension-values", {"dimension_type": "label"}, 400, "the query parameter dimension_key is required"),
        ("cluster/hourly-stats", {**ALL, "start_time": "yesterday"}, 400, "start_time: `yesterday` is not a time such as"),
        ("cluster/hourly-stats", {**ALL, "end_time": ""}, 400, "the query parameter end_time is required"),
        ("cluster/hourly-stats", {**ALL, "end_time": ALL["start_time"]}, 400, "start_time must be before end_time"),
        ("snapshots", {"end_time": "2020-01-01T00:00:00Z", "start_time": "2021-01-01T00:00:00Z"}, 400, "must be before"),
        ("workloads/hourly-stats", {**ALL, "page_size": 1001}, 400, "page_size must be at most 1000"),
        ("workloads/hourly-stats", {**ALL, "page": 0}, 400, "page must be at least 1"),
        ("workloads/hourly-stats", {**ALL, "order_by": "name"}, 400, "order_by must be one of `time`"),
        ("workloads/hourly-stats", {**ALL, "order_direction": "up"}, 400, "order_direction must be one of `asc`, `desc`"),
        ("cluster/hourly-stats", {**ALL, "cluster": "absent"}, 404, "cluster absent does not exist; the database has prod-cluster, cluster-1"),
        ("snapshots/latest", {"cluster": "absent"}, 404, "cluster absent does not exist"),
        ("dimension-keys", {"cluster": "absent"}, 404, "cluster absent does not exist"),
        ("nothing", {}, 404, "this path does not exist"),
        ("cluster/hourly-stats", {**ALL, "step": "year"}, 400, "step must be one of `hour`"),
        ("workloads/hourly-stats", {**ALL, "tz": "../passwd"}, 400, "time zone `../passwd` does not exist"),
        ("ledger", {**ALL, "by": "label"}, 400, "key is required with by=label"),
        ("ledger", {**ALL, "by": "node", "key": "team"}, 400, "key is only for by=label and by=annotation: leave it out"),
        ("ledger", {**ALL, "by": "model", "namespace": "x"}, 400, "namespace is for by=namespace and by=workload"),
        ("ledger", {**ALL, "by": "pod"}, 400, "by must be one of `cluster`"),
        ("ledger", {**ALL, "exclude_namespaces": "x"}, 400, "exclude_namespaces is for by=namespace and by=workload"),
        ("cluster/hourly-stats", {"hours": 0}, 400, "hours must be at least 1"),
        ("cluster/hourly-stats", {**ALL, "hours": 3}, 400, "hours: leave start_time or end_time out"),
        ("cluster/hourly-stats", {"start_time": ALL["start_time"]}, 400, "the query parameter end_time is required"),
        ("cluster/hourly-stats", {**ALL, "format": "xlsx"}, 400, "format must be one of `json`, `csv`"),
        ("workloads/hourly-stats", {**ALL, "cursor": "", "page": 2}, 400, "cursor: leave page out"),
        ("workloads/hourly-stats", {**ALL, "cursor": "x"}, 400, "cursor: not a cursor of this query"),
        ("workloads/hourly-stats", {**ALL, "cursor": cursor(["workload hour time True", 1, "", ""])}, 400, "cursor: not a cursor"),
        ("workloads/hourly-stats", {**ALL, "cursor": cursor(["workload hour time True", "1", "", "", 1])}, 400, "cursor: not a cursor"),
        ("workloads/hourly-stats", {**ALL, "cursor": cursor(["cluster hour time True", 1, "", "", 1])}, 400, "cursor: not a cursor"),
        ("workloads/hourly-stats", {**ALL, "cursor": cursor(["workload hour time True", 2**70, "", "", 1])}, 400, "cursor: not a cursor"),
        ("workloads/hourly-stats", {**ALL, "cursor": cursor(["workload hour time True", 1, "\ud800", "", 1])}, 400, "cursor: not a cursor"),
        ("snapshots", {"interval": "5"}, 400, "interval: `5` is not a duration such as 5m, 1h or 1d"),
        ("namespaces/hourly-stats", {**ALL, "namspace": "x"}, 400, "the query parameter namspace is unknown; did you mean `namespace`?"),
        ("workloads/hourly-stats", {**ALL, "orderby": "time"}, 400, "orderby is unknown; did you mean `order_by`?"),
        ("workloads/hourly-stats", {**ALL, "pageSize": 5}, 400, "pageSize is unknown; did you mean `page_size`?"),
        ("cluster/hourly-stats", {**ALL, "namespace": "x"}, 400, "namespace is unknown"),
        ("snapshots/latest", {"zzz": ""}, 400, "zzz is unknown; known are cluster"),
        ("clusters", {"x": 1}, 400, "x is unknown; this path has none"),
    ],
)  # fmt: skip
def test_invalid_queries_are_rejected(usage: Served, path: str, query: dict[str, Any], status: int, said: str) -> None:
    assert said in refused(usage, path, status=status, **query)


def test_errors_before_routing_have_the_same_form(usage: Served) -> None:
    assert "token is missing" in refused(usage, "clusters", "", status=401)
    # A client without a valid token does not learn which parameters exist.
    assert "token is missing" in refused(usage, "clusters", "", status=401, x=1)
    response = usage.client().post(f"{BASE}/clusters")
    assert (response.status_code, response.json()["code"], response.headers["allow"]) == (405, 405, "GET, HEAD")
    # 413 and 429 have the form of this API too.
    large = {"content": b"x" * (1024 * 1024 + 1)}
    assert usage.call("GET", f"{BASE}/clusters", status=413, **large)["code"] == 413
    busy = answer(Problem(429, "the service is busy"), f"/api/v1{BASE}/clusters")
    assert json.loads(bytes(busy.body)) == {"code": 429, "message": "Too many requests", "error": "the service is busy"}
    # Errors of other paths keep their own form.
    assert usage.get("/nothing", status=404).keys() == {"error", "message", "details", "hint"}


def test_unset_database_is_reported(served: Served) -> None:
    for path in ("clusters", "snapshots"):
        text = refused(served, path, status=503)
        assert served.get(f"{BASE}/{path}", status=503)["reason"] == "UsageNotConfigured"
        assert text == "usage is not configured: the setting `usage_database` is empty"
    # Missing rights are reported first.
    assert "may not get" in refused(served, "cluster/hourly-stats", "anna", status=403, **ALL)


def test_unusable_database_is_reported_until_it_is_replaced(plane: ControlPlane, tmp_path: Path) -> None:
    """The service starts nevertheless, and answers once the database is usable."""
    path = tmp_path / "usage.db"
    path.write_text("no database " * 100)
    users = {"admin": USERS["admin"]}
    with serving(tmp_path, plane.kubeconfig(), users, usage_database=str(path)) as running:  # type: ignore[arg-type]
        assert "is not an SQLite database, or is corrupt" in refused(running, "clusters", status=503)
        path.unlink()
        assert ask(running, "clusters") == []
        text = refused(running, "cluster/hourly-stats", status=404, **ALL)
        assert text.startswith("no usage of the cluster of this service has been collected yet")
        # A collector of another cluster, then that of this one, begin to fill the database.
        database = open_database(str(path))
        database.put_cluster("uid", "early")
        text = refused(running, "cluster/hourly-stats", status=404, **ALL)
        assert text == "the database has no usage of the cluster of this service; `cluster` may be early"
        assert ask(running, "cluster/hourly-stats", cluster="early", **ALL) == []
        database.put_cluster(uid_of(plane), "late")
        database.close()
        assert ask(running, "clusters") == ["late", "early"]
        assert refused(running, "snapshots/latest", status=404) == "there is no snapshot of the cluster late yet"


# Access rights.


def test_user_sees_only_their_namespaces(usage: Served) -> None:
    assert ask(usage, "namespaces", "anna") == ["ml-training"]
    assert [row["namespace"] for row in ask(usage, "namespaces/hourly-stats", "anna", **ALL)] == ["ml-training"]
    found = ask(usage, "workloads/hourly-stats", "anna", **ALL)
    assert (found["total"], {row["namespace"] for row in found["data"]}) == (2, {"ml-training"})
    assert ask(usage, "workloads/hourly-stats", "anna", workload_name="inference-server", **ALL)["total"] == 0
    # A snapshot contains only that part, and its total counts only that part.
    for snapshot in (ask(usage, "snapshots/latest", "anna"), *ask(usage, "snapshots", "anna", **ALL)):
        assert snapshot["allocation_details"]["namespaces"].keys() == {"ml-training"}
        assert (snapshot["allocated_gpu_count"], snapshot["total_gpu_capacity"]) == (32, 128)
    bare = ask(usage, "snapshots", "anna", include_details="false", **ALL)
    assert {(item["allocated_gpu_count"], json.dumps(item["allocation_details"])) for item in bare} == {(32, "{}")}
    # A user whose namespaces have no usage gets empty answers.
    assert ask(usage, "namespaces", "nora") == []
    assert ask(usage, "namespaces/hourly-stats", "nora", **ALL) == []
    assert ask(usage, "snapshots/latest", "nora")["allocated_gpu_count"] == 0
    assert ask(usage, "workloads/hourly-stats", "nora", **ALL)["total"] == 0
    assert ask(usage, "workloads/hourly-stats", "twice", **ALL)["total"] == 3


def test_cluster_wide_usage_needs_access_to_all_namespaces(usage: Served) -> None:
    of_team = {"dimension_type": "label", "dimension_key": "team"}
    for path, query, instead in (
        ("cluster/hourly-stats", ALL, "namespaces/hourly-stats"),
        ("labels/hourly-stats", {**ALL, **of_team}, "workloads/hourly-stats"),
        ("dimension-keys", {}, "workloads/hourly-stats"),
        ("dimension-values", of_team, "workloads/hourly-stats"),
    ):
        text = refused(usage, path, "anna", status=403, **query)
        assert text == f"anna may not get the usage of all namespaces together; use /gpu-aggregation/{instead}"
        # The same error, whether the cluster exists or not.
        assert refused(usage, path, "anna", status=403, **query, cluster="absent") == text
        assert ask(usage, path, "vera", **query) == ask(usage, path, **query)
    # The recommended request works.
    assert ask(usage, "workloads/hourly-stats", "anna", **ALL)["total"] > 0


@pytest.mark.parametrize("path", ["namespaces/hourly-stats", "workloads/hourly-stats"])
def test_foreign_namespace_is_forbidden(usage: Served, path: str) -> None:
    """403, whether the namespace exists or not."""
    for name in ("inference", "absent", "kube-system"):
        text = refused(usage, path, "anna", status=403, namespace=name, **ALL)
        assert text.startswith(
            f"anna may not get metrics in the namespace {name}: the namespaces of this token are ml-tr"
        )
    assert "for admins" in refused(usage, path, "vera", status=403, namespace="kube-system", **ALL)


def test_system_namespaces_follow_the_token(usage: Served) -> None:
    """Only unlimited admins see them; other users get the answers of a database without them."""
    assert ask(usage, "namespaces", "vera") == ["inference", "ml-inference", "ml-training"]
    assert ask(usage, "workloads/hourly-stats", "vera", **ALL)["total"] == 3
    assert ask(usage, "snapshots/latest", "vera")["allocated_gpu_count"] == 80


OF_A_CLUSTER = [
    ("namespaces", {}),
    ("dimension-keys", {}),
    ("dimension-values", {"dimension_key": "team"}),
    ("cluster/hourly-stats", ALL),
    ("namespaces/hourly-stats", ALL),
    ("labels/hourly-stats", {**ALL, "dimension_type": "label", "dimension_key": "team"}),
    ("workloads/hourly-stats", ALL),
    *(("ledger", {**ALL, "by": by}) for by in ("cluster", "namespace", "workload", "node", "model")),
    ("ledger", {**ALL, "by": "label", "key": "team"}),
    ("workloads/models", {**ALL, "dimension_key": "team"}),
    ("waste", ALL),
    ("snapshots/latest", {}),
    ("snapshots", ALL),
]
"""Every query about one cluster."""


@pytest.mark.parametrize(("path", "query"), OF_A_CLUSTER)
def test_another_cluster_needs_an_unlimited_token(usage: Served, path: str, query: dict[str, Any]) -> None:
    """A token names namespaces and pools of the own cluster, not those of the same name in other clusters."""
    for name in ("anna", "twice", "nora", "pooled", "both"):
        text = refused(usage, path, name, status=403, cluster="prod-cluster", **query)
        # The same error as for a cluster that does not exist.
        assert refused(usage, path, name, status=403, cluster="absent", **query) == text
        value = usage.client(name).get(f"{BASE}/{path}", params=query)
        assert usage.client(name).get(f"{BASE}/{path}", params={**query, "cluster": "cluster-1"}).json() == value.json()
        assert "prod-cluster" not in value.text
    assert "prod-cluster" not in json.dumps(ask(usage, path, "vera", **query))
    ask(usage, path, "vera", cluster="prod-cluster", **query)


def test_clusters_listed_depend_on_the_token(usage: Served) -> None:
    for name in ("admin", "vera"):
        assert ask(usage, "clusters", name) == ["cluster-1", "prod-cluster"]
    for name in ("anna", "twice", "nora", "pooled", "both"):
        assert ask(usage, "clusters", name) == ["cluster-1"]


def test_every_path_with_a_cluster_is_checked(usage: Served) -> None:
    paths = {path.removeprefix(f"/api/v1{BASE}/") for path in usage.get("/openapi.json")["paths"] if BASE in path}
    assert paths - {"clusters"} == {path for path, _ in OF_A_CLUSTER}


def test_yaml_answers(usage: Served) -> None:
    response = usage.client().get(f"{BASE}/clusters", headers={"Accept": "application/yaml"})
    assert response.headers["content-type"].startswith("application/yaml")
    assert response.text == "code: 200\nmessage: success\ndata:\n- cluster-1\n- prod-cluster\n"


def test_python_client_reads_usage(usage: Served) -> None:
    """Lists and pages have their own types, and errors are the exceptions of every other path."""
    with Client(usage.url, usage.tokens["admin"]) as client:
        whole = client.get_cluster_usage(**ALL).data
        assert isinstance(whole, list)
        assert [row.allocated_gpu_count for row in whole] == [96.5, 64.0]
        page = client.get_cluster_usage(page=2, page_size=1, **ALL).data
        assert isinstance(page, ClusterHourPage)
        assert (page.total, page.data) == (2, whole[1:])
        assert client.get_workload_usage(**ALL, order_by="utilization").data.data[-1].avg_utilization is None
        assert client.get_latest_snapshot().data.allocation_details.namespaces["ml-training"].allocated_gpu == 32
        with pytest.raises(NotFound, match="cluster absent does not exist"):
            client.get_cluster_usage(cluster="absent", **ALL)
