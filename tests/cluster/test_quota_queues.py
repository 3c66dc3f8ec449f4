"""Quotas as Kueue queues (`quota.backend: kueue`), with Kueue's real controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import DOMAIN, Document, Place, namespace_for, places, training
from support.queues import API, Queues
from support.tables import table

Judge = Callable[..., bool]
TYPES = {"T4": 2, "H100": 1}
NODE = "quota-queue-node"


@pytest.fixture
def place(
    queue_plane: ControlPlane,
    tmp_path: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Place]:
    """A place whose quotas are queues, and a node with GPUs of a type."""
    labels = {f"{DOMAIN}/pool": "drill", f"{DOMAIN}/gpu-type": "T4"}
    queue_plane.add_nodes({NODE: {"labels": labels, "gpus": 8, "cpu": "64", "memory": "512Gi"}})
    queue_plane.wait_for_nodes()
    for made in places(queue_plane, Api(queue_plane), tmp_path, capsys, monkeypatch, namespace_for(request)):
        made.platform("quota: {backend: kueue}")
        yield made
    for name in _cluster_queues(made, "", "-b"):
        made.api.request("DELETE", f"/apis/{API}/clusterqueues/{name}")
    queue_plane.requests.call("DELETE", f"/api/v1/nodes/{NODE}")


def _cluster_queues(place: Place, *users: str) -> list[str]:
    """Return the ClusterQueues of the place's namespace, or of its users: the ends of their namespaces' names."""
    found = place.api.call("GET", f"/apis/{API}/clusterqueues")["items"] or []
    own = {f"gpuctl-{place.namespace}{user}" for user in users or ("",)}
    return sorted(own & {item["metadata"]["name"] for item in found})


def quota(place: Place, name: str = "groups", **limits: Any) -> Document:
    """Return a quota for the place's namespace."""
    limits = {key.replace("_", "-"): value for key, value in limits.items()}
    return {"kind": "quota", "version": "v0.1", "quota": {"name": name}, "users": {place.namespace: limits}}


def limited(place: Place, **limits: Any) -> Queues:
    """Apply a quota of the place, and wait until Kueue has its queues."""
    return limited_as(place, quota(place, **limits))


def limited_as(place: Place, document: Document) -> Queues:
    """Apply a quota, and wait until Kueue has the place's queues."""
    place.apply(document)
    queues = Queues(place)
    queues.active(f"gpuctl-{place.namespace}")
    path = f"/apis/{API}/namespaces/{place.namespace}/localqueues/default"
    place.until(lambda: (place.api.call("GET", path).get("status") or {}).get("conditions"), path)
    return queues


def test_job_over_the_limit_of_its_gpu_type_waits(place: Place) -> None:
    queues = limited(place, gpu_types=TYPES, maxJobs=9)
    assert set(place.plan(quota(place, gpu_types=TYPES, maxJobs=9)).actions.values()) == {"unchanged"}
    place.apply(training("first", resources={"gpu": 2}))
    assert len(place.running("first")) == 1
    second = training("second", resources={"gpu": 1, "gpu-type": "T4"})
    [answer] = place.gpuctl("fit", "-f", place.file(second), "-o", "json", code=None).value["jobs"]
    assert answer["verdict"] == "fits-when-empty"
    assert "it asks for 1 nvidia.com/gpu, 0 free in flavor gpuctl-t4 (2 of 2 used)" in answer["reason"]
    place.apply(second)
    queues.waits("second")
    why = place.gpuctl("why", "second", "-o", "json").value
    assert (why["cause"], "gpuctl-t4" in why["message"]) == ("queued", True)
    [row] = table(place.gpuctl("get", "quotas").out)
    assert (row["QUOTA"], row["STATUS"], row["GPU"]) == ("groups", "full", "T4:2/2,H100:0/1")
    assert row == table(place.gpuctl("query", "quotas").out)[0]
    described = place.gpuctl("describe", "quota", place.namespace).out
    assert [line.split() for line in described.splitlines() if line.strip().startswith("gpu/")] == [
        ["gpu/T4", "2", "2", "0", "100%"],
        ["gpu/H100", "1", "0", "1", "0%"],
    ]
    assert f"quota/{place.namespace}" in place.anywhere("get", "quotas", "groups", "-o", "name").out
    larger = quota(place, gpu_types={"T4": 3, "H100": 1}, maxJobs=9)
    assert "updated   clusterqueue.kueue.x-k8s.io" in place.apply(larger).out
    queues.admitted("second")
    assert "no drift" in place.gpuctl("drift", "-f", place.file(larger)).err


def test_deleted_queue_names_the_jobs_that_wait(place: Place) -> None:
    queues = limited(place, gpu=2)
    place.apply(training("first", resources={"gpu": 2}))
    place.running("first")
    place.apply(training("second", resources={"gpu": 2}))
    queues.waits("second")
    refused = place.gpuctl("delete", "quota", place.namespace, code=2)
    assert "job/second cannot start until the namespace has a quota again" in refused.err
    deleted = place.gpuctl("delete", "quota", place.namespace, "--yes")
    assert "1 running job uses it; delete it afterwards" in deleted.out
    assert "queue-unusable" in place.gpuctl("why", "second").out
    limited(place, gpu=4)
    queues.admitted("second")
    place.gpuctl("delete", "job", "first", "second", "--yes")
    place.until(lambda: not queues.workloads(), "the end of the jobs")
    place.gpuctl("delete", "quota", place.namespace, "--yes")
    place.until(lambda: not _cluster_queues(place), "the ClusterQueue to be gone")


def test_pruned_quota_takes_its_queues(place: Place) -> None:
    place.apply(quota(place, gpu=2), flags=("--set", "limits"))
    other = {**quota(place), "users": {place.namespace: {"cpu": 4}}, "quota": {"name": "others"}}
    renamed = place.apply(other, flags=("--set", "limits", "--prune", "--yes"))
    assert f"updated   clusterqueue.kueue.x-k8s.io/gpuctl-{place.namespace}" in renamed.out
    elsewhere = {**other, "users": {f"{place.namespace}-b": {"cpu": 4}}}
    place.apply(elsewhere, flags=("--set", "limits", "--prune", "--yes"))
    place.until(lambda: _cluster_queues(place) == [], "the ClusterQueue to be pruned")
    place.anywhere("delete", "quota", f"{place.namespace}-b", "--yes")


def test_users_borrow_what_others_leave_unused(place: Place) -> None:
    owner = f"{place.namespace}-b"
    document = quota(place, gpu=2, borrow=2)
    document["users"][owner] = {"gpu": 2}
    place.apply(document)
    Queues(place).active(f"gpuctl-{owner}")
    queues = limited_as(place, document)
    place.apply(training("borrower", resources={"gpu": 4}))
    place.running("borrower")
    # Kueue counts an admitted job in the status of its queue a moment later.
    place.until(lambda: table(place.gpuctl("get", "quotas").out)[0]["GPU"] == "4/2", "the borrowed GPUs")
    own = training("own", resources={"gpu": 2})
    place.anywhere("apply", "-f", place.file({**own, "job": {**own["job"], "namespace": owner}}), "--yes")
    queues.waits("borrower")
    assert "a job that takes back lent quota" in place.gpuctl("why", "borrower").out
    place.anywhere("delete", "namespace", owner, "--yes")
    assert table(place.anywhere("get", "quotas", "groups").out) == table(place.gpuctl("get", "quotas").out)
    own_again = {**quota(place, gpu=4), "quota": {"name": "groups"}}
    place.apply(own_again)
    queues.admitted("borrower")
    place.gpuctl("delete", "job", "borrower", "--yes")


def test_services_wait_in_the_queue_of_their_quota(place: Place) -> None:
    limited(place, gpu=1)
    place.apply(training("first", resources={"gpu": 1}))
    place.running("first")
    service = {
        "kind": "compute",
        "version": "v0.1",
        "job": {"name": "api", "namespace": place.namespace},
        "environment": {"image": "registry.example.com/a:1"},
        "resources": {"pool": "drill", "gpu": 1, "cpu": 1, "memory": "1Gi"},
    }
    place.apply(service)
    place.until(lambda: "queued" in place.gpuctl("why", "api", code=None).out, "api to wait")
    assert set(place.plan(service).actions.values()) == {"unchanged"}
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("api")
