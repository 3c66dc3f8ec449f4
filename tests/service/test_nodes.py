"""`/nodes`: the examples of the product's documents, the command line's numbers, and access rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuctl.api.node_answers import NodeDetail
from support.cluster_tools import POOL, Place, training
from support.seed_world import NODES, hidden_words
from support.served import Served


def seed_nodes(value: Any) -> dict[str, Any]:
    """Return the nodes of the seed documents by name."""
    return {item["nodeName"]: item for item in value["items"] if item["nodeName"] in NODES}


@pytest.fixture(autouse=True)
def settled(served: Served, seed_place: Place) -> None:
    """Wait until the service lists all nodes in their current state, and the jobs on them."""

    def same(value: Any) -> bool:
        listed = seed_place.anywhere("get", "nodes", "-o", "json").value
        return bool(value == {**listed, "items": listed["items"][:20]})

    served.until("/nodes", same)
    for name in ("node-1", "node-6"):
        served.until(f"/nodes/{name}", lambda value: any(job["jobId"] for job in value["runningJobs"]))


def wait_until_equal(served: Served, path: str, theirs: Callable[[], Any], name: str = "admin", **query: Any) -> None:
    """Wait until both answers are equal: pods of other tests may be terminating, and heartbeats arrive."""
    served.until(path, lambda value: value == theirs(), name, **query)


# Equal to the command line --------------------------------------------------------------------------------


def test_node_lists_equal_those_of_the_command_line(served: Served, seed_place: Place) -> None:
    for words, query in (
        ((), {}),
        (("--pool", "training-pool"), {"pool": "training-pool"}),
        (("--pool", "default"), {"pool": "default"}),
        (("--gpu-type", "A100-80G"), {"gpuType": "A100-80G"}),
        (("--gpu-type", "nvidia.com/a100-80g"), {"gpuType": "nvidia.com/a100-80g"}),
        (("--gpu-type", "company.com/gpu-model=T4"), {"gpuType": "company.com/gpu-model=T4"}),
        (("--gpu-type", "h100"), {"gpuType": "h100"}),
        (("--status", "maintaining"), {"status": "maintaining"}),
        (("--status", "faulty"), {"status": "faulty"}),
        (("--pool", "default", "--gpu-type", "t4", "--status", "active"), {"pool": "default", "gpuType": "t4", "status": "active"}),
        (("--pool", "nothing"), {"pool": "nothing"}),
        (("-l", "kubernetes.io/hostname in (node-1, node-2)"), {"selector": "kubernetes.io/hostname in (node-1, node-2)"}),
        (("-l", "!runwhere.ai/pool", "--status", "active"), {"selector": "!runwhere.ai/pool", "status": "active"}),
    ):  # fmt: skip

        def theirs(words: tuple[str, ...] = words) -> Any:
            return seed_place.anywhere("get", "nodes", *words, "-o", "json").value

        wait_until_equal(served, "/nodes", theirs, **{"pageSize": 1000, **query})
    wait_until_equal(
        served,
        "/nodes/gpu-detail",
        lambda: seed_place.anywhere("get", "nodes", "--gpu-detail", "-o", "json").value,
        pageSize=1000,
    )
    wait_until_equal(served, "/gpu-types", lambda: seed_place.anywhere("get", "gpu-types", "-o", "json").value)


def test_node_details_equal_those_of_the_command_line(served: Served, seed_place: Place) -> None:
    def described(name: str) -> Any:
        value = seed_place.anywhere("describe", "node", name, "-o", "json").value
        jobs: dict[tuple[str, str, str], int] = {}
        value["pods"] = value.pop("runningJobs")
        for pod in value["pods"]:
            key = (pod["name"], pod["namespace"], pod["kind"])
            jobs[key] = jobs.get(key, 0) + pod["gpu"]
        return value, jobs

    def same(value: Any, name: str) -> bool:
        expected, jobs = described(name)
        mine = {(job["name"], job["namespace"], job["kind"]): job["gpu"] for job in value["runningJobs"]}
        return bool(mine == jobs and {**value, "runningJobs": 0} == {**expected, "runningJobs": 0})

    for name in NODES:
        value = served.until(f"/nodes/{name}", lambda value, name=name: same(value, name))
        NodeDetail.model_validate(value)


def test_unusual_nodes_have_the_right_status_and_gpus(served: Served) -> None:
    """Cordoned, not ready, without GPUs, with two vendors, with MIG, with shared GPUs, with unhealthy GPUs."""
    found = seed_nodes(served.get("/nodes", pageSize=1000))
    assert {name: (found[name]["status"], found[name]["gpuTotal"], found[name]["gpuType"]) for name in found} == {
        "node-1": ("active", 8, "a100-80g"),
        "node-2": ("active", 8, "a100-80g"),
        "node-3": ("active", 8, "a100-40g"),
        "node-4": ("active", 4, "t4"),
        "node-5": ("active", 6, "t4"),
        "node-6": ("active", 8, "a100-80g"),
        "inference-1": ("active", 16, "a10-24g"),
        "cordoned-1": ("maintaining", 2, "t4"),
        "faulty-1": ("faulty", 2, "t4"),
        "cpu-1": ("active", 0, None),
        "mixed-1": ("active", 6, "t4"),
        "mig-1": ("active", 7, "a100-40g"),
        "shared-1": ("active", 0, "t4"),
    }
    assert (found["faulty-1"]["cpu"], found["faulty-1"]["memory"]) == ("63920m", "527966564Ki")
    broken = served.get("/nodes/node-5")
    assert broken["resources"]["gpuUnhealthy"] == 2
    assert [gpu["status"] for gpu in broken["gpuDetail"]] == ["free"] * 6 + ["faulty"] * 2
    assert served.get("/nodes/cpu-1")["gpuDetail"] == []


# Pages, forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nodes", "/nodes/gpu-detail", "/nodes/labels/all", "/nodes/labels"])
def test_node_lists_are_paged(path: str, served: Served) -> None:
    query = {"key": "kubernetes.io/hostname"} if path == "/nodes/labels" else {}
    everything = served.get(path, pageSize=1000, **query)
    assert everything["total"] == len(everything["items"]) > 10

    def page(start: int, end: int) -> Any:
        everything = served.get(path, pageSize=1000, **query)
        return {**everything, "items": everything["items"][start:end]}

    wait_until_equal(served, path, lambda: page(3, 6), pageSize=3, page=2, **query)
    wait_until_equal(served, path, lambda: page(0, 0), page=10_000, **query)
    for wrong in ({"page": 0}, {"pageSize": 0}, {"pageSize": 1001}, {"page": "x"}, {"page": 2**31 + 1}):
        assert served.get(path, status=400, **query, **wrong)["error"] == "InvalidRequest"


def test_invalid_node_filters_are_rejected(served: Served) -> None:
    refused = served.call("GET", "/nodes", status=400, params={"status": "gone"})
    assert refused["message"].startswith("status must be one of active, maintaining, faulty, not `")
    refused = served.get("/nodes", status=400, selector="a=b=c")
    assert refused["error"] == "InvalidRequest"
    assert "selector is invalid: `a=b=c` is not a requirement of a label selector" in refused["message"]
    for long in ({"pool": "x" * 254}, {"gpuType": "x" * 513}, {"status": "x" * 64}):
        assert served.call("GET", "/nodes", status=400, params=long)["error"] == "InvalidRequest"


# Access rights --------------------------------------------------------------------------------------------


def test_users_see_all_counts_but_only_their_own_jobs(served: Served) -> None:
    """A user limited to one namespace gets the same numbers, without names from other namespaces."""
    for path in ("/nodes", "/nodes/gpu-detail"):
        wait_until_equal(served, path, lambda path=path: served.get(path, pageSize=1000), "anna", pageSize=1000)
    for name in NODES:

        def theirs(name: str = name) -> Any:
            all_of_it = served.get(f"/nodes/{name}")
            jobs = [job for job in all_of_it["runningJobs"] if job["namespace"] == "team-a"]
            pods = [pod for pod in all_of_it["pods"] if pod["namespace"] == "team-a"]
            return {**all_of_it, "runningJobs": jobs, "pods": pods}

        wait_until_equal(served, f"/nodes/{name}", theirs, "anna")
        text = served.client("anna").get(f"/nodes/{name}").text
        assert not any(word in text for word in hidden_words())
    assert served.get("/nodes/node-6", "anna")["resources"]["gpuUsed"] == 8
    stranger, wide = served.get("/nodes/node-6")["runningJobs"]
    assert stranger == {"jobId": None, "name": "stranger", "namespace": "team-b", "kind": None, "gpu": 4}
    assert wide["jobId"].startswith("wide-")


def test_pool_limited_token_sees_only_its_nodes(served: Served) -> None:
    """Nodes of other pools do not exist for this token; a query for another pool is forbidden, whether it exists or
    not.
    """
    found = served.get("/nodes", "otto", pageSize=1000)
    assert {pool for item in found["items"] for pool in item["boundPools"]} == {POOL}
    wait_until_equal(served, "/nodes", lambda: served.get("/nodes", pool=POOL), "otto", pool=POOL)
    there, absent = served.get("/nodes/node-1", "otto", status=404), served.get("/nodes/node-0", "otto", status=404)
    assert {**there, "message": there["message"].replace("node-1", "node-0")} == absent
    assert there["message"] == "there is no node node-1"
    refused = [
        served.get("/nodes", "otto", status=403, pool=pool)["message"] for pool in ("training-pool", "none-such")
    ]
    assert refused[0].replace("training-pool", "none-such") == refused[1]


def test_jobs_of_a_node_have_the_id_of_the_job_list(served: Served, place: Place) -> None:
    place.apply(training("seen"))
    place.running("seen")
    (job,) = served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["running"], namespace=place.namespace
    )["items"]
    wanted = {"jobId": job["jobId"], "name": "seen", "namespace": place.namespace, "kind": "training", "gpu": 1}

    def held() -> list[Any]:
        nodes = [served.get(f"/nodes/{POOL}-{number}")["runningJobs"] for number in range(4)]
        return [item for jobs in nodes for item in jobs if item["namespace"] == place.namespace]

    place.until(lambda: held() == [wanted], "the job on its node")
