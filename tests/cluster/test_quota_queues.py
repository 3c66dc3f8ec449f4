"""Quotas as Kueue queues (`quota.backend: kueue`), with Kueue's real controller."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import DOMAIN, Document, Place, namespace_for, places, training
from support.collecting import collecting
from support.queues import API, Queues
from support.repositories import Repository
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


def counted(place: Place, *, admitted: int, waiting: int = 0) -> None:
    """Wait until Kueue has counted the jobs of the place, a moment after it has admitted them."""
    Queues(place).counted("default", f"gpuctl-{place.namespace}", waiting=waiting, admitted=admitted)


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
    counted(place, admitted=1, waiting=1)
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
    counted(place, admitted=1, waiting=1)
    refused = place.gpuctl("delete", "quota", place.namespace, code=2)
    assert "job/second cannot start until the namespace has a quota again" in refused.err
    deleted = place.gpuctl("delete", "quota", place.namespace, "--yes")
    assert "1 running job uses it; delete it afterwards" in deleted.out
    assert "queue-unusable" in place.gpuctl("why", "second").out
    limited(place, gpu=4)
    queues.admitted("second")
    # Until then Kueue and the job's controller change it.
    place.until(lambda: place.get("Job", "second")["status"].get("ready"), "second to be ready")
    place.gpuctl("delete", "job", "first", "second", "--yes")
    place.until(lambda: not queues.workloads(), "the end of the jobs")
    place.gpuctl("delete", "quota", place.namespace, "--yes")
    place.until(lambda: not _cluster_queues(place), "the ClusterQueue to be gone")


SERVICE = {
    "kind": "compute",
    "version": "v0.1",
    "environment": {"image": "registry.example.com/a:1"},
    "resources": {"pool": "drill", "gpu": 1, "cpu": 1, "memory": "1Gi"},
}


@pytest.mark.slow
def test_deleted_documents_keep_the_queue_of_running_jobs(place: Place) -> None:
    """Without its ClusterQueue nothing could create the quota again, and the deletion would wait for the jobs."""
    limited(place, gpu=2)
    service = {**SERVICE, "job": {"name": "api", "namespace": place.namespace}}
    place.apply(service)
    [pod] = place.running("api")
    name = f"clusterqueue.kueue.x-k8s.io/gpuctl-{place.namespace}"
    refused = place.gpuctl("delete", "-f", place.file(quota(place, gpu=2)), code=2)
    assert f"pods that replace pod/{pod} cannot start until the namespace has a quota again" in refused.err
    deleted = place.gpuctl("delete", "-f", place.file(quota(place, gpu=2)), "--yes")
    assert f"skipped   {name}  (1 running job uses it; delete it afterwards)" in deleted.out
    limited(place, gpu=2)
    place.gpuctl("delete", "-f", place.file(quota(place, gpu=2), service))
    place.until(lambda: not _cluster_queues(place), "the ClusterQueue to be gone")


@pytest.mark.slow
def test_changed_limits_below_what_jobs_hold(place: Place) -> None:
    queues = limited(place, gpu_types=TYPES)
    place.apply(training("first", resources={"gpu": 2}))
    place.running("first")
    counted(place, admitted=1)
    queue = f"ClusterQueue gpuctl-{place.namespace}"
    lower = quota(place, gpu_types={"T4": 1, "H100": 1})
    lost = f"{queue}: jobs hold 2 nvidia.com/gpu, and the limit becomes 1: they keep running, and others wait"
    assert lost in place.gpuctl("diff", "-f", place.file(lower), code=1).err
    other = quota(place, gpu=4)
    uncounted = f"{queue}: jobs hold 2 nvidia.com/gpu of flavor gpuctl-t4, which the new quota does not have"
    assert uncounted in place.apply(other).err
    assert len(place.running("first")) == 1
    # Kueue counts the flavors of the quota alone.
    place.apply(training("second", resources={"gpu": 4}))
    queues.admitted("second")
    place.gpuctl("delete", "job", "first", "second", "--yes")


@pytest.mark.slow
def test_impact_on_the_queues_of_a_cluster(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(place, gpu=2)
    place.apply(training("first", resources={"gpu": 2}))
    place.running("first")
    place.apply(training("waits", resources={"gpu": 1}))
    counted(place, admitted=1, waiting=1)
    repository = Repository(place.directory / "repository")
    monkeypatch.chdir(repository.root)
    repository.write("platform.yaml", "kind: platform\nversion: v0.1\nquota: {backend: kueue}\n")
    repository.write("quota.yaml", json.dumps(quota(place, gpu=2)))
    repository.commit()
    new = training("new", resources={"gpu": 1})
    repository.write("quota.yaml", json.dumps(quota(place, gpu=1)))
    repository.write("new.yaml", json.dumps({**new, "job": {**new["job"], "namespace": place.namespace}}))
    arguments = ("impact", "--from", "HEAD", "--kubeconfig", str(place.plane.kubeconfig()))
    found = place.anywhere(*arguments, "-o", "json").value
    [row] = found["quotas"]
    assert (row["before"], row["after"]) == (
        {"asked": 0, "hard": 2, "borrowed": 0},
        {"asked": 1, "hard": 1, "borrowed": 0},
    )
    [held] = found["cluster"]["queues"]
    assert "jobs hold 2 nvidia.com/gpu, and the limit becomes 1" in held
    assert "(2 of 1 used)" in found["cluster"]["fit"][0]["reason"]
    repository.remove("quota.yaml")
    text = place.anywhere(*arguments).out
    assert "- LocalQueue default in" in text
    assert "is deleted: job/waits cannot start without it" in text
    assert f"- ClusterQueue gpuctl-{place.namespace} is deleted: 1 job runs on" in text
    place.gpuctl("delete", "job", "first", "waits", "--yes")


def test_pruned_quota_takes_its_queues(place: Place) -> None:
    place.apply(quota(place, gpu=2), flags=("--set", "limits"))
    other = {**quota(place), "users": {place.namespace: {"cpu": 4}}, "quota": {"name": "others"}}
    renamed = place.apply(other, flags=("--set", "limits", "--prune", "--yes"))
    assert f"updated   clusterqueue.kueue.x-k8s.io/gpuctl-{place.namespace}" in renamed.out
    elsewhere = {**other, "users": {f"{place.namespace}-b": {"cpu": 4}}}
    place.apply(elsewhere, flags=("--set", "limits", "--prune", "--yes"))
    place.until(lambda: _cluster_queues(place) == [], "the ClusterQueue to be pruned")
    place.anywhere("delete", "quota", f"{place.namespace}-b", "--yes")


@pytest.mark.slow
def test_queue_does_not_know_the_types_of_a_pool(place: Place) -> None:
    place.platform("quota: {backend: kueue}\npools: [{name: drill, gpu-types: [T4]}]")
    queues = limited(place, gpu_types={"H100": 1, "T4": 1})
    documents = [quota(place, gpu_types={"H100": 1, "T4": 1}), training("any", resources={"gpu": 1})]
    assert "write `gpu-type: T4`" in place.apply(*documents).err
    queues.admitted("any")
    assert queues.workload("any")["status"]["admission"]["podSetAssignments"][0]["flavors"]["nvidia.com/gpu"] == (
        "gpuctl-h100"
    )
    place.until(
        lambda: "no node of drill has the GPU type H100" in place.gpuctl("why", "any", code=None).out,
        "the pod to be unschedulable",
    )
    place.apply(training("typed", resources={"gpu": 1, "gpu-type": "T4"}))
    place.running("typed")
    place.gpuctl("delete", "job", "any", "typed", "--yes")


def test_roles_get_gpu_types_of_their_own(place: Place) -> None:
    other = f"{NODE}-other"
    labels = {f"{DOMAIN}/pool": "drill", f"{DOMAIN}/gpu-type": "H100"}
    place.plane.add_nodes({other: {"labels": labels, "gpus": 8, "cpu": "64", "memory": "512Gi"}})
    place.plane.wait_for_nodes()
    place.platform("quota: {backend: kueue}\ntraining: {backend: jobset}")
    queues = limited(place, gpu_types=TYPES)
    roles = [
        {"name": "trainer", "resources": {"gpu": 1, "gpu-type": "H100"}},
        {"name": "rollout", "nodes": 2, "resources": {"gpu": 1}},
    ]
    document = training("tune", roles=roles, resources={"gpu-type": "T4"})
    [answer] = place.gpuctl("fit", "-f", place.file(document), "-o", "json").value["jobs"]
    assert answer["verdict"] == "fits"
    place.apply(document)
    queues.admitted("tune", kind="JobSet")

    def nodes() -> list[str]:
        pods = place.api.list_objects("Pod", place.namespace)
        return sorted(pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running")

    place.until(lambda: nodes() == [NODE, NODE, other], "each role on nodes of its type")
    assert set(place.plan(document).actions.values()) == {"unchanged"}
    # Kueue counts an admitted job in the status of its queue a moment later.
    place.until(lambda: table(place.gpuctl("get", "quotas").out)[0]["GPU"] == "T4:2/2,H100:1/1", "both types in use")
    place.gpuctl("delete", "job", "tune", "--yes")
    place.plane.requests.call("DELETE", f"/api/v1/nodes/{other}")


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


@pytest.mark.slow
def test_usage_records_the_limits_of_queues(place: Place, tmp_path: Path) -> None:
    limited(place, gpu_types={"T4": 3, "H100": 1}, borrow=2)
    platform = str(place.directory / "platform.yaml")
    with collecting(tmp_path, place.plane.kubeconfig(), platform=platform) as collector:

        def gpus() -> list[tuple[float, bool]]:
            found = collector.database.quotas(1, 0, 2**40)
            return [(item.gpus, item.end is None) for item in found if item.namespace == place.namespace]

        collector.until(lambda: gpus() == [(4, True)], "the limits of both types")
        limited(place, gpu=2)
        collector.until(lambda: gpus()[-1] == (2, True), "the new limit")
        place.gpuctl("delete", "quota", place.namespace, "--yes")
        collector.until(lambda: gpus()[-1] == (2, False), "the end of the quota")


@pytest.mark.slow
def test_workload_priorities_order_the_queue_of_a_quota(place: Place) -> None:
    queues = limited(place, gpu=1)
    place.apply(training("first", resources={"gpu": 1}))
    place.running("first")
    place.apply(training("low", resources={"gpu": 1}, job={"priority": "low"}))
    place.platform("quota: {backend: kueue}\nqueues: {priority: workload}")
    place.apply(training("high", resources={"gpu": 1}, job={"priority": "high"}))
    assert queues.workload("high")["spec"]["priorityClassRef"]["name"] == "gpuctl-high"
    queues.waits("low", "high")
    place.apply(training("first", resources={"gpu": 1}), training("low", resources={"gpu": 1}, job={"priority": "low"}))
    place.gpuctl("delete", "job", "first", "--yes")
    queues.admitted("high")
    assert queues.condition("low", "Admitted").get("status") != "True"
    place.gpuctl("delete", "job", "high", "low", "--yes")


def test_services_wait_in_the_queue_of_their_quota(place: Place) -> None:
    limited(place, gpu=1)
    place.apply(training("first", resources={"gpu": 1}))
    place.running("first")
    service = {**SERVICE, "job": {"name": "api", "namespace": place.namespace}}
    place.apply(service)
    place.until(lambda: "queued" in place.gpuctl("why", "api", code=None).out, "api to wait")
    assert set(place.plan(service).actions.values()) == {"unchanged"}
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("api")
