"""Competing new jobs are created one after another: those start that ``fit`` predicts, and no pod is evicted."""

from __future__ import annotations

import itertools
import signal
from concurrent.futures import Future
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, hang, matching, meanwhile, nth, on, refuse
from fault_tools.zygote import Running, shared
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run import sequential_create
from gpuctl.kube.configuration import session_of
from gpuctl.objects.api_resources import key_of
from support.cluster_tools import Document, Place, inference, training
from support.queues import Queues

_numbers = itertools.count(1)


@pytest.fixture
def two_node_pool(plane: ControlPlane, jobset: None) -> str:
    """A pool of two nodes with 4 GPUs each that no other test uses."""
    name = f"turns-{next(_numbers)}"
    node = {"labels": {"runwhere.ai/pool": name}, "gpus": 4, "cpu": "64", "memory": "256Gi"}
    plane.add_nodes({f"{name}-{number}": node for number in range(2)})
    plane.wait_for_nodes()
    return name


def jobs(pool: str) -> list[Document]:
    """Return jobs of several kinds that ask for 16 GPUs where 8 exist; later names have a higher priority."""

    def of(name: str, priority: str, gpus: int, **more: Any) -> Document:
        return training(name, job={"name": name, "priority": priority}, resources={"pool": pool, "gpu": gpus, **more})

    served = inference("b-served", resources={"pool": pool, "gpu": 2}, service={"replicas": 2, "port": 8000})
    served["job"] = {"name": "b-served", "priority": "low"}
    return [
        of("a-low", "low", 4),
        served,
        of("c-medium", "medium", 2),
        of("d-medium", "medium", 2),
        of("e-high", "high", 4),
    ]


def test_highest_priority_jobs_start_without_evictions(place: Place, two_node_pool: str) -> None:
    mine = jobs(two_node_pool)
    planned = place.plan(*mine)
    verdicts = {step["name"]: step["verdict"] for step in planned.value["steps"] if step["verdict"]}
    assert verdicts == {
        "a-low": "fits-when-empty",
        "b-served": "fits-when-empty",
        "c-medium": "fits",
        "d-medium": "fits",
        "e-high": "fits",
    }
    said = "5 jobs compete for room: they are created one after another, highest priority first"
    assert said in place.gpuctl("apply", "-f", place.file(*mine), "--dry-run=server").err
    place.apply(*mine)
    place.running("c-medium", "d-medium", "e-high")
    first = place.pods("c-medium") | place.pods("d-medium") | place.pods("e-high")
    born = {name: place.get("Pod", name)["metadata"]["creationTimestamp"] for name in first | place.pods("a-low")}
    assert max(born[name] for name in first) <= min(born[name] for name in place.pods("a-low"))
    assert not _evictions(place)
    waiting = place.pods("a-low") | place.pods("b-served")
    place.until(
        lambda: all(not place.get("Pod", name)["spec"].get("nodeName") for name in waiting),
        "the other pods to stay unscheduled",
    )


@pytest.mark.slow
def test_quota_goes_to_the_highest_priority(place: Place, two_node_pool: str) -> None:
    """apply does not wait for pods that the quota refuses: it creates the next job when the controller reports the
    refusal.
    """
    place.limit(gpu="4")
    steps = place.plan(*jobs(two_node_pool), flags=("--queue",)).value["steps"]
    waits = {step["name"]: item["cause"] for step in steps for item in step["waits"]}
    assert waits == dict.fromkeys(("a-low", "b-served", "c-medium", "d-medium"), "quota")
    place.apply(*jobs(two_node_pool), flags=("--queue",))
    place.running("e-high")
    place.until(
        lambda: place.get("ResourceQuota", "few")["status"]["used"]["requests.nvidia.com/gpu"] == "4", "its use"
    )
    assert not place.pods("a-low") | place.pods("b-served") | place.pods("c-medium") | place.pods("d-medium")
    assert {"Job/a-low", "Deployment/b-served", "Job/c-medium", "Job/d-medium"} <= place.names()


@pytest.mark.slow
def test_jobs_that_all_fit_are_created_at_once(place: Place, two_node_pool: str) -> None:
    assert "compete" not in place.apply(*jobs(two_node_pool)[-3:]).err
    place.running("c-medium", "d-medium", "e-high")


@pytest.mark.slow
def test_fragile_job_is_created_after_jobs_that_may_evict_it(place: Place, two_node_pool: str) -> None:
    """Both fit. If the two-node training came first, it would be spread over both nodes, be evicted, and fail."""
    wide = training("a-wide", job={"priority": "low"}, resources={"pool": two_node_pool, "gpu": 2, "nodes": 2})
    urgent = training("urgent", job={"priority": "high"}, resources={"pool": two_node_pool, "gpu": 4})
    assert "2 jobs compete for room" in place.apply(wide, urgent).err
    place.running("urgent", "a-wide")
    assert not _evictions(place)


def test_ctrl_c_creates_no_further_jobs(place: Place, proxy: Proxy, two_node_pool: str) -> None:
    started: Future[Running] = Future()
    second = nth(2, matching("POST", "/jobs", writes=True))
    proxy.reset(on(second, meanwhile(lambda: started.result(60).signal(signal.SIGINT))))
    config = {"KUBECONFIG": str(place.directory / "through-proxy")}
    command = ["apply", "-f", place.file(*jobs(two_node_pool)), "-n", place.namespace]
    started.set_result(shared().start(command, env=config, cwd=place.directory))
    result = started.result().wait()
    assert result.code == 130, result
    assert "interrupted: finishing the steps in progress" in result.stderr
    created = {name.partition("/")[2] for name in place.names() if name.startswith(("Job/", "Deployment/"))}
    assert created == {"e-high", "c-medium"}
    place.apply(*jobs(two_node_pool))
    place.running("c-medium", "d-medium", "e-high")


@pytest.mark.slow
def test_silent_pod_watch_delays_creation_only_briefly(
    place: Place, proxy: Proxy, two_node_pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequential_create, "_PATIENCE", 0.2)
    proxy.reset(on(matching("GET", "/pods", watch=True), hang))
    place.apply(*jobs(two_node_pool))
    place.running("c-medium", "d-medium", "e-high")


@pytest.mark.slow
def test_jobs_are_created_in_order_without_rights_to_events(place: Place, proxy: Proxy, two_node_pool: str) -> None:
    proxy.reset(on(matching("GET", "/events"), refuse(403, "Forbidden", "events are forbidden")))
    place.apply(*jobs(two_node_pool))
    place.running("c-medium", "d-medium", "e-high")
    assert not _evictions(place)


def _evictions(place: Place) -> list[Any]:
    events = place.api.call("GET", f"/api/v1/namespaces/{place.namespace}/events")["items"]
    return [event for event in events if event["reason"] == "Preempted"]


@pytest.mark.slow
def test_queued_jobs_are_created_in_order(queue_place: Place, queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kueue reports when a job is in its queue; its pods are created at admission."""
    monkeypatch.setattr(sequential_create, "_PATIENCE", 3600.0)
    place = queue_place
    queues.active(queues.team(gpus=4))
    mine = [
        training(name, job={"name": name, "priority": priority}, resources={"gpu": 4})
        for name, priority in (("a", "low"), ("b", "medium"), ("c", "high"))
    ]
    assert "3 jobs compete for room" in place.apply(*mine).err
    queues.admitted("c")
    queues.waits("a", "b")
    made = [queues.workload(name)["metadata"]["creationTimestamp"] for name in ("c", "b", "a")]
    assert made == sorted(made)


@pytest.mark.slow
def test_pods_of_jobs_with_similar_names_are_distinguished(queue_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods of chat-v2 do not belong to chat; otherwise apply would wait for pods that never come."""
    monkeypatch.setattr(sequential_create, "_PATIENCE", 3600.0)
    place = queue_place
    place.platform("training: {backend: jobset}")
    mine = {
        "chat": inference("chat"),
        "chat-v2": inference("chat-v2"),
        "train": training("train", resources={"nodes": 2}),
        "train-big": training("train-big", resources={"nodes": 2}),
        "last": training("last"),
    }
    made = yaml.safe_load_all(place.gpuctl("render", "-f", place.file(*mine.values())).out)
    objects = {item["metadata"]["name"]: item for item in made if item["kind"] in ("Deployment", "JobSet", "Job")}
    lane = [Step("create", key_of(objects[name]), desired=objects[name], method="post") for name in mine]
    assert [step.key.kind for step in lane] == ["Deployment", "Deployment", "JobSet", "JobSet", "Job"]
    came: list[str] = []
    with session_of(None) as session:
        order = sequential_create.SequentialCreation(session, [lane], lambda: None)
        order.start()
        try:
            while order.left:
                (step,) = place.until(order.due, f"the turn after {came}")
                assert not order.due()
                place.apply(mine[step.key.name])
                step.result = "done"
                order.finished(step)
                came.append(step.key.name)
        finally:
            order.stop()
    assert came == list(mine)
