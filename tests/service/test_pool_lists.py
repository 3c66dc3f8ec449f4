"""`/pools`: the examples of the product's documents, the command line's numbers, and access rights."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_tools import JOB_TYPE, POOL, Place, training
from support.seed_world import hidden_words
from support.served import Served

NAMES = ["drill", "experiment-pool", "hollow-pool", "inference-pool", "training-pool", "default"]
DESCRIPTION = "Pool for training models"


@pytest.fixture(autouse=True)
def settled(served: Served, seed_place: Place) -> None:
    """Wait until the service lists all pools in their current state."""
    served.until("/pools", lambda value: value["items"] == listed(seed_place))


def have_ids(value: dict[str, Any]) -> bool:
    """Return True if every job of the pool is in the list of jobs."""
    return all(job["jobId"] for job in value["jobs"] if job["kind"])


def listed(place: Place) -> list[dict[str, Any]]:
    """Return the pools of the command line, with the fields of the service's list."""
    fields = ("name", "description", "gpuTotal", "gpuUsed", "gpuFree", "gpuUnavailable", "gpuType", "status")
    pools = place.anywhere("get", "pools", "-o", "json").value["items"]
    return [{field: pool[field] for field in fields} for pool in pools]


def test_documented_pool_details(served: Served) -> None:
    value = served.until("/pools/training-pool", have_ids)
    ids = {job["name"]: job.pop("jobId") for job in value["jobs"]}
    pods = [(pod["name"], pod["nodeName"], pod["gpu"]) for pod in value.pop("pods")]
    assert [pod for pod in pods if pod[0] == "qwen2-7b-sft"] == [("qwen2-7b-sft", "node-1", 4)]
    assert {(pod["name"], pod["nodeName"], pod["gpu"]) for pod in value.pop("waitingPods")} == {("queued", None, 64)}
    assert ids["stranger"] is None
    assert all(ids[name].startswith(f"{name}-") for name in ("qwen2-7b-sft", "wide"))
    assert value == {
        "name": "training-pool",
        "description": DESCRIPTION,
        "nodes": ["node-1", "node-2", "node-3", "node-6"],
        "gpuTotal": 32,
        "gpuUsed": 16,
        "gpuFree": 16,
        "gpuUnavailable": 0,
        "gpuType": {"a100-80g": 24, "a100-40g": 8},
        "status": "active",
        "quota": {"maxJobs": 100, "maxGpuPerJob": 8},
        "jobs": [
            {"name": "qwen2-7b-sft", "namespace": "team-a", "kind": "training", "gpu": 4},
            {"name": "wide", "namespace": "team-b", "kind": "training", "gpu": 8},
            {"name": "stranger", "namespace": "team-b", "kind": None, "gpu": 4},
        ],
        "missingNodes": ["node-9"],
        "waitingJobs": value["waitingJobs"],
        "isDefined": True,
    }
    (waiting,) = value["waitingJobs"]
    assert (waiting["name"], waiting["gpu"]) == ("queued", 64)


def test_pool_details_equal_those_of_the_command_line(served: Served, seed_place: Place) -> None:
    def same(value: dict[str, Any], name: str) -> bool:
        expected = seed_place.anywhere("describe", "pool", name, "-o", "json").value
        for field, pods in (("jobs", "pods"), ("waitingJobs", "waitingPods")):
            if value.pop(pods) != expected[field]:
                return False
            jobs: dict[tuple[str, str, str], int] = {}
            for pod in expected.pop(field):
                key = (pod["name"], pod["namespace"], pod["kind"])
                jobs[key] = jobs.get(key, 0) + pod["gpu"]
            if {(job["name"], job["namespace"], job["kind"]): job["gpu"] for job in value.pop(field)} != jobs:
                return False
        return bool(value == expected)

    for name in NAMES:
        # Pods of other tests may still be terminating.
        served.until(f"/pools/{name}", lambda value, name=name: same(value, name))


def test_pools_with_only_labels_or_only_a_definition(served: Served) -> None:
    labelled = served.get("/pools/experiment-pool")
    assert (labelled["nodes"], labelled["isDefined"], labelled["description"]) == (["node-4", "node-5"], False, None)
    assert labelled["quota"] == {"maxJobs": None, "maxGpuPerJob": None}
    hollow = served.get("/pools/hollow-pool")
    assert (hollow["nodes"], hollow["missingNodes"], hollow["status"]) == ([], ["node-8"], "empty")
    rest = served.get("/pools/default")
    assert (rest["gpuTotal"], rest["gpuUnavailable"]) == (17, 4), (
        "with 7 MIG slices; the cordoned and the faulty node have two each"
    )


# Access rights --------------------------------------------------------------------------------------------


def test_users_see_all_counts_but_only_their_own_jobs(served: Served) -> None:
    served.until("/pools", lambda value: value == served.get("/pools"), "anna")
    mine, everything = served.get("/pools/training-pool", "anna"), served.get("/pools/training-pool")
    jobs, pods = ([job for job in everything[field] if job["namespace"] == "team-a"] for field in ("jobs", "pods"))
    assert mine == {**everything, "jobs": jobs, "waitingJobs": [], "pods": pods, "waitingPods": []}
    assert len(jobs) == 1
    text = served.client("anna").get("/pools/training-pool").text
    assert not any(word in text for word in hidden_words())


def test_pool_limited_token_sees_only_its_pools(served: Served) -> None:
    assert [item["name"] for item in served.get("/pools", "otto")["items"]] == [POOL]
    assert served.get(f"/pools/{POOL}", "otto")["name"] == POOL
    there, absent = (served.get(f"/pools/{name}", "otto", status=403) for name in ("training-pool", "training-none"))
    assert {**there, "message": there["message"].replace("training-pool", "training-none")} == absent
    assert there["message"] == "otto may not get pools of the pool training-pool: the pools of this token are drill"


def test_missing_pool_gets_a_suggestion(served: Served) -> None:
    missing = served.get("/pools/trainig-pool", status=404)
    assert missing == {
        "error": "NotFound",
        "message": "there is no pool trainig-pool",
        "details": [],
        "hint": "did you mean `training-pool`?",
    }


def test_jobs_of_a_pool_have_the_id_of_the_job_list(served: Served, place: Place) -> None:
    """The GPUs of a job's pods are one sum."""
    place.apply(training("seen", resources={"gpu": 3}))
    place.running("seen")
    (job,) = served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["running"], namespace=place.namespace
    )["items"]
    here = {"jobId": job["jobId"], "name": "seen", "namespace": place.namespace, "kind": "training", "gpu": 3}
    # Pods of other tests may still be terminating.
    value = served.until(f"/pools/{POOL}", lambda value: value["gpuUsed"] == 3 and value["jobs"] == [here])
    assert (value["gpuTotal"], value["gpuFree"]) == (256, 253)
    without = served.get(f"/pools/{POOL}", jobs="false")
    assert without.keys() == value.keys()
    assert {without[name] for name in ("jobs", "waitingJobs", "pods", "waitingPods")} == {None}


def test_counted_gpus_come_with_the_name_of_their_job(served: Served, place: Place) -> None:
    """The first answer that counts a pod's GPUs also contains the name and id of its job."""
    # Pods of other tests must be gone: from then on only this test uses the pool.
    served.until(f"/pools/{POOL}", lambda value: value["gpuUsed"] == 0)
    for number in range(5):
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        place.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "labels": {"app": f"job-{number}", JOB_TYPE: "training"}},
                "spec": {"nodeName": f"{POOL}-0", "containers": [{"name": "m", "image": "x", "resources": resources}]},
            }
        )
        value = served.until(f"/pools/{POOL}", lambda value, number=number: value["gpuUsed"] > number)
        jobs = {job["name"]: job["jobId"] for job in value["jobs"] if job["namespace"] == place.namespace}
        assert set(jobs) == {f"job-{index}" for index in range(number + 1)}
        assert all(jobs.values())
