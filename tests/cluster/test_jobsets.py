"""Multi-node trainings as JobSets, with JobSet's real controller and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Document, Object, Place, image, training

Judge = Callable[..., bool]
OUTCOME = "gpuctl.test/outcome"


def jobset(name: str = "train", outcome: str = "", **changes: Any) -> Document:
    """Return a training on two nodes."""
    job = {**changes.pop("job", {}), **({"annotations": {OUTCOME: outcome}} if outcome else {})}
    return training(name, job=job, resources={"nodes": 2}, **changes)


def status(place: Place, name: str) -> Object:
    """Return the status of a JobSet."""
    return dict(place.get("JobSet", name).get("status") or {})


def job_status(place: Place, name: str) -> str:
    """Return a job's status in `get jobs`."""
    items = place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]
    return next(str(item["status"]) for item in items if item["name"] == name)


def test_jobset_pods_find_each_other_by_dns(queue_place: Place, writes_nothing: Judge) -> None:
    place = queue_place
    place.platform("training: {backend: jobset}")
    place.apply(jobset(), flags=("--wait", "--timeout", "60"))
    assert job_status(place, "train") == "Running"
    pods = place.api.list_objects("Pod", place.namespace)
    hosts = sorted(f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" for pod in pods)
    assert hosts == ["train-node-0-0.train", "train-node-0-1.train"]
    second = next(pod["metadata"]["name"] for pod in pods if pod["spec"]["hostname"] == "train-node-0-1")
    # The pod writes a line each second, so that two logs of it can differ.
    said = place.gpuctl("logs", "train", "--pod", "1", "--prefix").out.splitlines()
    assert {line.partition(" | ")[0] for line in said} == {second.removeprefix("train-")}
    env = {item["name"]: item.get("value") for item in pods[0]["spec"]["containers"][0]["env"]}
    assert env["MASTER_ADDR"] == hosts[0]
    service = place.get("Service", "train")
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)

    def named() -> bool:
        """Return True if DNS resolves both pods: it answers from the EndpointSlices."""
        slices = place.api.call("GET", f"/apis/discovery.k8s.io/v1/namespaces/{place.namespace}/endpointslices")
        found = {point.get("hostname") for item in slices["items"] or [] for point in item["endpoints"] or []}
        return found == {"train-node-0-0", "train-node-0-1"}

    place.until(named, "the names of the pods")
    assert writes_nothing(jobset())
    assert place.gpuctl("why", "train", "-o", "json").value["cause"] == "running"
    place.gpuctl("delete", "job", "train", "--yes")
    place.until(lambda: not place.exists("Service", "train"), "the Service to go")


@pytest.mark.slow
def test_failed_pod_restarts_the_whole_jobset(queue_place: Place, writes_nothing: Judge) -> None:
    place = queue_place
    place.platform("training: {backend: jobset}")
    place.apply(jobset(job={"retries": 1}))
    place.until(lambda: job_status(place, "train") == "Running", "it to run")
    old = place.pods("train")
    place.plane.annotate(place.namespace, sorted(old)[1], outcome="fail")
    place.until(lambda: status(place, "train").get("restarts") == 1, "the restart")
    place.until(lambda: job_status(place, "train") == "Running" and len(place.pods("train")) == 2, "both to run again")
    new = place.pods("train")
    assert not set(new.values()) & set(old.values())
    assert writes_nothing(jobset(job={"retries": 1}))
    place.plane.annotate(place.namespace, sorted(new)[0], outcome="fail")
    refused = place.gpuctl("wait", "train", "--for", "done", "--timeout", "60", code=1)
    assert "failed" in refused.err
    assert job_status(place, "train") == "Failed"
    answer = place.gpuctl("why", "train", "-o", "json").value
    assert answer["cause"] == "application-error"
    assert any("ReachedMaxRestarts" in item["text"] for item in answer["evidence"])
    assert writes_nothing(jobset(job={"retries": 1}))
    old_uid = place.uid("JobSet", "train")
    place.gpuctl("rerun", "train")
    place.until(lambda: job_status(place, "train") == "Running", "it to run again")
    assert place.uid("JobSet", "train") != old_uid


@pytest.mark.slow
def test_jobset_completes_shows_logs_and_runs_again(queue_place: Place) -> None:
    place = queue_place
    place.platform("training: {backend: jobset}")
    place.apply(jobset(outcome="complete"))
    place.gpuctl("wait", "train", "--for", "done", "--timeout", "60")
    assert job_status(place, "train") == "Succeeded"
    logs = place.gpuctl("logs", "train").out
    assert {line.split(" | ")[0].split("-")[2] for line in logs.splitlines() if " | " in line} == {"0", "1"}
    again = place.apply(jobset(outcome="complete"))
    assert f"`gpuctl rerun train -n {place.namespace}` runs it again" in again.out
    place.gpuctl("rerun", "train")
    place.gpuctl("wait", "train", "--for", "done", "--timeout", "60")
    assert job_status(place, "train") == "Succeeded"


def test_jobset_is_changed_in_place_or_replaced(queue_place: Place, writes_nothing: Judge) -> None:
    place = queue_place
    place.platform("training: {backend: jobset}")
    place.apply(jobset(job={"ttl": "1h"}))
    place.until(lambda: job_status(place, "train") == "Running", "it to run")
    pods = place.pods("train")
    place.apply(jobset(job={"ttl": "2h", "description": "longer"}))
    assert place.get("JobSet", "train")["spec"]["ttlSecondsAfterFinished"] == 7200
    assert place.pods("train") == pods
    changed = jobset(job={"ttl": "2h", "description": "longer", "retries": 2}, environment=image("v2"))
    assert "progress is lost" in place.apply(changed, code=2).err
    place.apply(changed, flags=("--yes",))
    place.until(lambda: job_status(place, "train") == "Running", "the new one to run")
    assert not set(place.pods("train").values()) & set(pods.values())
    assert writes_nothing(changed)


@pytest.mark.slow
def test_jobset_is_paused_and_resumed(queue_place: Place, writes_nothing: Judge) -> None:
    place = queue_place
    place.platform("training: {backend: jobset}")
    place.apply(jobset())
    place.until(lambda: job_status(place, "train") == "Running", "it to run")
    place.gpuctl("pause", "train")
    place.until(lambda: not place.pods("train"), "the pods to go")
    assert job_status(place, "train") == "Paused"
    assert writes_nothing(jobset())
    changed = jobset(environment=image("v2"))
    place.apply(changed)
    assert job_status(place, "train") == "Paused"
    place.gpuctl("resume", "train")
    place.until(lambda: job_status(place, "train") == "Running", "it to run again")
    assert writes_nothing(changed)


@pytest.mark.slow
def test_too_long_jobset_name_is_rejected_before_any_change(queue_place: Place) -> None:
    """The pod names of a JobSet contain its name and may not be longer than a host name."""
    place = queue_place
    place.platform("training: {backend: jobset}")
    name = "a" * 60
    refused = place.apply(jobset(name), code=1)
    assert "GPU217" in refused.err
    assert place.names() == set()


@pytest.mark.slow
@pytest.mark.parametrize("retries", [0, 1])
def test_evicted_pod_ends_all_pods_of_its_jobset(queue_plane: ControlPlane, queue_place: Place, retries: int) -> None:
    """With a retry left, the JobSet waits as a whole for both nodes."""
    place = queue_place
    place.platform("training: {backend: jobset}")
    pool = f"evicted-{retries}"
    node = {"labels": {"runwhere.ai/pool": pool}, "gpus": 8, "cpu": "64", "memory": "256Gi"}
    queue_plane.add_nodes({f"{pool}-{number}": node for number in range(2)})
    queue_plane.wait_for_nodes()
    resources = {"pool": pool, "gpu": 8}
    wide = training("wide", job={"priority": "low", "retries": retries}, resources={**resources, "nodes": 2})

    def pods() -> set[str]:
        found = place.api.list_objects("Pod", place.namespace)
        return {pod["metadata"]["name"] for pod in found if pod["metadata"]["labels"]["app"] == "wide"}

    place.apply(wide, flags=("--wait", "--timeout", "60"))
    lost = pods()
    assert len(lost) == 2
    urgent = training("urgent", job={"priority": "high"}, resources=resources)
    (step,) = [item for item in place.plan(urgent).value["steps"] if item["name"] == "urgent"]
    (victim,) = step["victims"]
    assert (victim["job"], set(victim["pods"])) == ("training/wide", lost)
    place.apply(urgent, flags=("--yes",))
    place.running("urgent")
    place.until(lambda: not lost & pods(), "both pods to end")
    if retries:
        place.until(lambda: len(pods()) == 2, "both pods to come again")
    else:
        place.until(lambda: job_status(place, "wide") == "Failed", "the failure")
