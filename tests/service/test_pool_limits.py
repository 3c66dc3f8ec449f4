"""A token limited to pools: for it, jobs and nodes of other pools do not exist, and no answer contains their names."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from control_plane import ControlPlane
from gpuctl_usage.sums import Level
from support.cluster_tools import Place, fresh_namespaces, inference, training
from support.documents_sent import YAML, sent, text_of
from support.remote import Remote
from support.served import Served, serving
from support.small_usage import one_hour

SPACE, POOL, OTHER = "limited-space", "limited-pool", "sealed-pool"
NODE, OTHER_NODE = "limited-0", "sealed-0"
HIDDEN, ABSENT = "sealed-job", "absent-job"
"""Of equal length, so that texts about them are equal."""
USERS = {
    "admin": ("admin", None, None),
    "pooled": ("user", None, (POOL,)),
    "both": ("user", (SPACE,), (POOL,)),
    "viewer": ("viewer", None, (POOL,)),
    "owner": ("admin", None, (POOL,)),
}
LIMITED = [name for name in USERS if name != "admin"]
SECRETS = re.compile("sealed|hidden")
"""Part of every name in the other pool (jobs, pods, image, node, quota holders), and of the placeholders of redaction.
"""
USAGE = "/gpu-aggregation"
CLUSTERS = f"{USAGE}/clusters"
HOURS = {"start_time": "2025-11-05T00:00:00Z", "end_time": "2025-11-06T00:00:00Z"}


def job(name: str, pool: str, gpu: int = 1, **header: Any) -> dict[str, Any]:
    image = {"image": f"registry.example.com/{pool}:v1"}
    return training(name, job={"namespace": SPACE, **header}, environment=image, resources={"pool": pool, "gpu": gpu})


@pytest.fixture(scope="module")
def world(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two pools with one node each, running jobs of one namespace that hold GPUs in both, and a pending job for each
    pool.
    """
    directory = tmp_path_factory.mktemp("limited")
    fresh_namespaces(plane, SPACE)
    for node, pool in ((NODE, POOL), (OTHER_NODE, OTHER)):
        plane.add_node(node, gpus=8, cpu="64", memory="256Gi", labels={"runwhere.ai/pool": pool})
    usage = one_hour(directory, plane)
    with serving(directory, plane.kubeconfig(), USERS, usage_database=usage) as served:  # type: ignore[arg-type]
        quota = {"name": "limited", "users": {SPACE: {"cpu": 900, "memory": "900Gi", "gpu": 400}}}
        served.call("POST", "/quotas", status=201, json=quota)
        jobs = [job("mine", POOL), job(HIDDEN, OTHER), job("sealed-too", OTHER, gpu=7), job("big", POOL, gpu=64)]
        served.call("POST", "/jobs", status=201, json=sent(*jobs, job("sealed-big", OTHER, gpu=64)))
        for name in ("mine", HIDDEN, "sealed-too"):
            served.until_running(name, SPACE)
        yield served
    plane.kubectl("delete", "namespace", SPACE, "--wait=false")
    plane.kubectl("delete", "node", NODE, OTHER_NODE, "--wait=false")


def reads() -> dict[str, tuple[str, dict[str, str]]]:
    """Return each GET of the OpenAPI document by its operationId, about objects that a limited token may see."""
    paths = {}
    for name, path in {
        "listJobs": "/jobs",
        "listPods": "/pods?reasons=true&pageSize=5000",
        "getGpuUse": "/gpu-use",
        "fitWaiting": "/fit",
        "getJob": "/jobs/mine",
        "getJobDetails": "/jobs/mine/details",
        "getJobWhy": "/jobs/big/why",
        "getJobTimeline": "/jobs/big/timeline",
        "getJobHistory": "/jobs/mine/history",
        "getJobRevision": "/jobs/mine/history/1",
        "getJobLogs": "/jobs/mine/logs",
        "getJobMetrics": "/jobs/mine/metrics",
        "listPools": "/pools",
        "getPool": f"/pools/{POOL}",
        "listNodes": "/nodes",
        "listGpus": "/nodes/gpu-detail",
        "listGpuTypes": "/gpu-types",
        "getNode": f"/nodes/{NODE}",
        "listGpuLabels": "/nodes/labels/all",
        "listNodeLabels": f"/nodes/{NODE}/labels",
        "getNodeLabel": f"/nodes/{NODE}/labels/runwhere.ai/pool",
        "listQuotas": "/quotas",
        "getQuota": f"/quotas/{SPACE}",
        "listQueues": "/queues",
        "getQueue": "/queues/absent",
        "listNamespaces": "/namespaces",
        "getNamespace": f"/namespaces/{SPACE}",
        "listRecoveries": "/recoveries",
        "listAudit": "/audit",
        "listUsageClusters": CLUSTERS,
        "listUsageNamespaces": f"{USAGE}/namespaces",
        "listUsageKeys": f"{USAGE}/dimension-keys",
        "getLatestSnapshot": f"{USAGE}/snapshots/latest",
        "listSnapshots": f"{USAGE}/snapshots",
        "getUsageWaste": f"{USAGE}/waste",
    }.items():
        paths[name] = (path, {})
    paths["listNodesWithLabel"] = ("/nodes/labels", {"key": "runwhere.ai/pool"})
    paths["listUsageValues"] = (f"{USAGE}/dimension-values", {"dimension_key": "team"})
    for name, path in (("Cluster", "cluster"), ("Namespace", "namespaces"), ("Workload", "workloads")):
        paths[f"get{name}Usage"] = (f"{USAGE}/{path}/hourly-stats", HOURS)
    paths["listHeldModels"] = (f"{USAGE}/workloads/models", HOURS)
    paths["getLabelUsage"] = (
        f"{USAGE}/labels/hourly-stats",
        {**HOURS, "dimension_type": "label", "dimension_key": "team"},
    )
    paths["getUsageLedger"] = (f"{USAGE}/ledger", HOURS)
    return paths


def test_no_answer_contains_names_of_another_pool(world: Served) -> None:
    """Each GET of the OpenAPI document, by each limited role."""
    document = world.get("/openapi.json")["paths"]
    asked = reads()
    assert set(asked) == {item["get"]["operationId"] for item in document.values() if "get" in item}
    for name, (path, query) in asked.items():
        for role in LIMITED:
            answer = world.client(role).get(path, params=query)
            # There is no Kueue: its queues have a test of their own.
            known = (404,) if name == "getQueue" else (200, 403, 503)
            assert answer.status_code in known, (name, role, answer.text)
            assert not SECRETS.search(answer.text), (name, role, answer.text)


@pytest.mark.parametrize("by", ["", *(level.value for level in Level)])
def test_usage_is_forbidden(world: Served, by: str) -> None:
    """Usage does not record pools: each answer but the name of the own cluster would be about all of them.

    :param by: level of the ledger; "" for all other endpoints.
    """
    asked = [(path, query) for path, query in reads().values() if path.startswith(USAGE) and path != CLUSTERS]
    if by:
        key = {"key": "team"} if by in ("label", "annotation") else {}
        asked = [(f"{USAGE}/ledger", {**HOURS, "by": by, **key, "value": value}) for value in ("", OTHER_NODE)]
    for role in LIMITED:
        for path, query in asked:
            answer = world.call("GET", path, role, status=403, params=query)
            assert answer["error"] == (
                f"{role} may not get usage: it is not recorded by pool, and the pools of this token are {POOL}; use "
                "/gpu-use for the GPUs that its jobs hold now"
            )
        assert len(world.get(CLUSTERS, role)["data"]) == 1


def test_totals_count_only_the_own_pool(world: Served) -> None:
    for role in LIMITED:
        jobs = world.get("/jobs", role)
        assert (jobs["total"], {item["name"] for item in jobs["items"]}) == (2, {"mine", "big"})
        assert [pool["name"] for pool in world.get("/pools", role)["items"]] == [POOL]
        assert world.get("/nodes/gpu-detail", role)["total"] == 1
        (space,) = [item for item in world.get("/namespaces", role)["items"] if item["name"] == SPACE]
        assert space["jobs"] == 2, space


Ask = Callable[[str], tuple[str, str, dict[str, Any]]]


def at(method: str, path: str, **rest: Any) -> Ask:
    return lambda name: (method, path.format(name), rest)


BY_NAME: dict[str, Ask] = {
    "detail": at("GET", "/jobs/{}"),
    "detail in its namespace": at("GET", "/jobs/{}", params={"namespace": SPACE}),
    "why": at("GET", "/jobs/{}/why"),
    "details": at("GET", "/jobs/{}/details"),
    "pods": at("GET", "/pods?names={}"),
    "explained pods": at("GET", "/pods?names={}&reasons=true"),
    "timeline": at("GET", "/jobs/{}/timeline"),
    "history": at("GET", "/jobs/{}/history", params={"namespace": SPACE}),
    "a revision": at("GET", "/jobs/{}/history/1", params={"namespace": SPACE}),
    "logs": at("GET", "/jobs/{}/logs"),
    "events": at("GET", "/jobs/{}/logs", params={"follow": "true"}, headers={"Accept": "text/event-stream"}),
    "metrics": at("GET", "/jobs/{}/metrics"),
    "wait": at("POST", "/jobs/{}/wait", json={"condition": "running", "timeout": 0}),
    "wait until it is gone": at("POST", "/jobs/{}/wait", json={"condition": "deleted", "timeout": 0}),
    "wait for several": lambda name: (
        "POST",
        "/jobs/wait",
        {"json": {"jobs": [{"job": name, "namespace": SPACE}], "condition": "running", "timeout": 0}},
    ),
    "update": lambda name: ("PUT", f"/jobs/{name}", {"json": sent(job(name, POOL))}),
    "delete": at("DELETE", "/jobs/{}"),
    "pause": at("POST", "/jobs/{}/pause"),
    "resume": at("POST", "/jobs/{}/resume"),
    "rerun": at("POST", "/jobs/{}/rerun"),
    "run": at("POST", "/jobs/{}/run"),
    "scale": at("POST", "/jobs/{}/scale?nodes=2"),
    "rollback": at("POST", "/jobs/{}/rollback", params={"namespace": SPACE, "to": "1"}),
}
for _path in ("/jobs/delete", "/jobs/rerun", "/jobs/run", "/jobs/pause", "/jobs/resume", "/jobs/scale?nodes=2"):
    BY_NAME[_path] = lambda name, path=_path: ("POST", path, {"json": {"names": [name]}})  # type: ignore[misc]


@pytest.mark.parametrize("case", BY_NAME)
def test_job_of_another_pool_is_indistinguishable_from_a_missing_one(world: Served, case: str) -> None:
    """The same status and the same text."""
    for role in ("pooled", "both", "owner"):
        answers = []
        for name in (HIDDEN, ABSENT):
            method, path, rest = BY_NAME[case](name)
            response = world.client(role).request(method, path, **rest)
            answers.append((response.status_code, response.text.replace(name, "NAME")))
        assert answers[0] == answers[1]
        assert answers[0][0] == (200 if case in ("wait until it is gone", "wait for several") else 404), answers


def test_job_of_another_pool_is_not_found_by_id_or_pod(world: Served) -> None:
    (item,) = [item for item in world.get("/jobs")["items"] if item["name"] == HIDDEN]
    (pod,) = world.get(f"/jobs/{item['jobId']}")["pods"]
    for text in (item["jobId"], pod["jobId"], pod["name"]):
        for path in (f"/jobs/{text}", f"/jobs/{text}/logs", f"/jobs/{text}/why"):
            assert world.get(path, "pooled", status=404)["message"] == f"there is no job {text}"


def test_followed_log_of_another_pool_is_not_found(world: Served) -> None:
    answers = []
    for name in (HIDDEN, ABSENT):
        where = f"{world.url}/api/v1/jobs/{name}/logs?follow=true".replace("http", "ws", 1)
        header = {"Authorization": f"Bearer {world.tokens['pooled']}"}
        with pytest.raises(InvalidStatus) as caught, connect(where, additional_headers=header):
            pass
        answer = caught.value.response
        answers.append((answer.status_code, (answer.body or b"").replace(name.encode(), b"NAME")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404


def test_plan_and_fit_hide_other_pools(world: Served) -> None:
    """A document with the name of a hidden job shows nothing of that job; holders and victims have no names;
    suggestions for a mistyped pool or node do not name those of another pool.
    """
    for path in ("/jobs", "/jobs?dryRun=true", "/plan", "/apply"):
        answer = world.call("POST", path, "pooled", status=409, json=sent(job(HIDDEN, POOL)))
        assert answer["message"] == f"the name {HIDDEN} in {SPACE} is used by another job"
    for path in ("/plan", "/fit", "/jobs?dryRun=true"):
        for document in (job("wants", POOL, gpu=8, priority="high"), job("wants", POOL, gpu=400)):
            answer = world.client("pooled").post(path, json=sent(document))
            assert not SECRETS.search(answer.text), (path, answer.text)
    served = inference("sealed-serve", job={"namespace": SPACE}, resources={"pool": OTHER})
    world.call("POST", "/jobs", status=201, json=sent(served))
    for path in ("/jobs", "/jobs?dryRun=true", "/plan"):
        refused = world.call("POST", path, "pooled", status=409, json=sent(job("sealed-serve", POOL)))
        assert refused["message"] == f"the name sealed-serve in {SPACE} is used by another job"
    world.call("PUT", "/jobs/sealed-serve", "pooled", status=404, json=sent(job("sealed-serve", POOL)))
    typed = job("wants", POOL)
    typed["resources"]["pool"] = "sealed-poo"
    assert world.call("POST", "/plan", "pooled", status=403, json=sent(typed))["error"] == "Forbidden"
    pool = {"kind": "pool", "version": "v0.1", "pool": {"name": POOL}, "nodes": {OTHER_NODE: {}}}
    absent = {**pool, "nodes": {"absent-0": {}}}
    told = [
        world.client("owner").post("/jobs", content=text_of(document), headers=YAML).text for document in (pool, absent)
    ]
    assert told[0].replace(OTHER_NODE, "NODE") == told[1].replace("absent-0", "NODE")


def test_command_line_hides_other_pools(
    world: Served, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every reading command, and the commands that name a job of another pool."""
    remote = Remote(place, world, tmp_path / "config", monkeypatch)
    remote.login("pooled")
    for level in ("cluster", "namespaces", "workloads", "models"):
        refused = remote.typed("usage", level, "--last", "1d", code=3)
        assert (refused.out, refused.err.count("it is not recorded by pool")) == ("", 1), refused
    file = tmp_path / "job.yaml"
    file.write_text(text_of(job("wants", POOL, gpu=400)))
    for words in (
        ("get", "jobs", "-n", SPACE, "-o", "wide"),
        ("get", "jobs", "-A"),
        ("get", "jobs", "-n", SPACE, "-o", "json"),
        ("get", "pools"),
        ("get", "nodes"),
        ("get", "labels"),
        ("get", "gpu-types"),
        ("get", "quotas"),
        ("get", "namespaces"),
        ("describe", "quota", SPACE),
        ("describe", "namespace", SPACE),
        ("describe", "job", "mine", "-n", SPACE),
        ("describe", "job", "big", "-n", SPACE),
        ("describe", "pool", POOL),
        ("describe", "node", NODE),
        ("why", "big", "-n", SPACE),
        ("fit", "-f", str(file)),
        ("fit", "-n", SPACE),
        ("diff", "-f", str(file)),
        ("apply", "-f", str(file), "--dry-run"),
    ):
        outcome = remote.typed(*words, code=None)
        assert not SECRETS.search(outcome.out + outcome.err), (words, outcome)
    for words in (
        ("describe", "job"),
        ("why",),
        ("logs",),
        ("wait", "--for", "running", "--timeout", "1s"),
        ("pause",),
        ("resume",),
        ("delete", "job", "--yes"),
        ("rerun", "--yes"),
        ("history",),
        ("rollback", "--yes"),
    ):
        told = []
        for name in (HIDDEN, ABSENT):
            outcome = remote.typed(*words, name, "-n", SPACE, code=None)
            told.append((outcome.code, (outcome.out + outcome.err).replace(name, "NAME")))
        assert told[0] == told[1], words
        assert told[0][0] != 0
    assert place.api.get("Job", SPACE, HIDDEN) is not None


@pytest.mark.parametrize("kind", ["training", "inference"])
def test_job_that_moves_to_another_pool_is_gone_for_streams(world: Served, kind: str) -> None:
    """A follower of its log gets no line and no name of the new pods, and a wait ends as if it were deleted."""
    name = f"moves-{kind}"
    here, there = (
        job(name, pool, gpu=0)
        if kind == "training"
        else inference(name, job={"namespace": SPACE}, resources={"pool": pool, "gpu": 0})
        for pool in (POOL, OTHER)
    )
    world.call("POST", "/jobs", status=201, json=sent(here))
    world.until_running(name, SPACE)
    lines: list[str] = []
    end = time.monotonic() + 90

    def follow() -> None:
        headers, query = {"Accept": "text/event-stream"}, {"follow": "true", "namespace": SPACE}
        with world.own_client("both").stream("GET", f"/jobs/{name}/logs", params=query, headers=headers) as stream:
            for line in stream.iter_lines():
                lines.append(line)
                if time.monotonic() > end:
                    return

    def wait(path: str, **question: Any) -> str:
        answer = world.own_client("both").post(path, json={**question, "condition": "done", "timeout": 60})
        return str(answer.json()["items"][0]["message"])

    with ThreadPoolExecutor() as threads:
        following = threads.submit(follow)
        # A service is never done.
        asked = [(f"/jobs/{name}/wait", {}), ("/jobs/wait", {"jobs": [{"job": name}]})] if kind == "training" else []
        waits = [threads.submit(wait, path, **question) for path, question in asked]
        while not any(line.startswith("data:") for line in lines):
            assert time.monotonic() < end, lines
            time.sleep(0.1)
        world.call("POST", "/apply?confirm=true", json=sent(there))
        world.until_running(name, SPACE)
        following.result()
        for waited in waits:
            assert waited.result(60) == f"training/{name} was deleted: it will not be done"
    hidden = [pod["pod"] for pod in world.get("/pods", names=name, namespace=SPACE)["items"]]
    assert hidden
    assert not [line for line in lines if any(pod in line for pod in hidden)]
    assert lines[-2] == f'data: {{"code": 1000, "reason": "{kind}/{name} is gone"}}'


def test_prerequisite_of_another_pool_is_not_said_to_be_missing(world: Served) -> None:
    waiting = job("later", POOL, after=[HIDDEN])
    world.call("POST", "/jobs", status=201, json=sent(waiting))
    world.until("/jobs/later", lambda value: value["reason"] == f"waits for {HIDDEN}", namespace=SPACE)
    answer = world.call("GET", "/jobs/later/why", "both", params={"namespace": SPACE})
    assert answer["message"] == f"it waits for {HIDDEN}, which does not exist, or you may not see it"
    assert answer["fix"] == f"ask an administrator, who sees all pools, about {HIDDEN}"
    assert answer["numbers"]["prerequisites"][0]["mayBeHidden"] is True
    # The plan of a new job has the same answer for a name that no job has.
    for name in (HIDDEN, "absent-one"):
        plan = world.call("POST", "/plan", "both", json=sent(job("after", POOL, after=[name])))
        said = f"training/after waits for {name} in {SPACE}, which does not exist, or you may not see it"
        assert plan["errors"] == [f"{said}; ask an administrator, who sees all pools, about {name}"]
    assert world.call("POST", "/plan", json=sent(job("after", POOL, after=[HIDDEN])))["errors"] == []
    [error] = world.call("POST", "/plan", json=sent(job("after", POOL, after=["absent-one"])))["errors"]
    assert "there is no job absent-one" in error
    world.call("DELETE", "/jobs/later", params={"namespace": SPACE})
