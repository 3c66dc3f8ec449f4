"""Inferences on several nodes as LeaderWorkerSets, with LeaderWorkerSet's real controller and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.cluster_tools import Document, Object, Place, image, inference

Judge = Callable[..., bool]
LWS = "LeaderWorkerSet"


@pytest.fixture
def group_place(queue_place: Place) -> Place:
    """A place whose platform uses LeaderWorkerSets."""
    queue_place.platform("inference: {backend: lws}\nservice: {type: ClusterIP}")
    return queue_place


def served(name: str = "chat", nodes: int = 2, **changes: Any) -> Document:
    """Return an inference whose replicas have two nodes."""
    return inference(name, resources={"nodes": nodes}, **changes)


def job_status(place: Place, name: str = "chat") -> str:
    """Return a job's status in `get jobs`."""
    items = place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]
    return next(f"{item['status']} {item['ready']}" for item in items if item["name"] == name)


def slices(place: Place, service: str) -> list[Object]:
    """Return the endpoints of a Service."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{place.namespace}/endpointslices"
    items = place.api.call("GET", f"{path}?labelSelector=kubernetes.io%2Fservice-name%3D{service}")["items"]
    return [point for item in items for point in item.get("endpoints") or []]


def test_replica_on_two_nodes_serves_by_its_leader(group_place: Place, writes_nothing: Judge) -> None:
    place = group_place
    assert place.gpuctl("fit", "-f", place.file(served()), "-o", "json").value["jobs"][0]["verdict"] == "fits"
    place.apply(served(), flags=("--wait", "--timeout", "60"))
    assert job_status(place) == "Running 2/2"
    worker = place.get("Pod", "chat-0-1")
    env = {item["name"]: item.get("value") for item in worker["spec"]["containers"][0]["env"]}
    assert env["LWS_LEADER_ADDRESS"] == f"chat-0.chat.{place.namespace}"
    assert (env["MASTER_ADDR"], env["NODE_RANK"]) == ("$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)")
    assert (env["NNODES"], env["LWS_WORKER_INDEX"], env["LWS_GROUP_SIZE"]) == ("2", "1", "2")
    # Kubernetes expands references to earlier variables only.
    assert list(env).index("LWS_WORKER_INDEX") < list(env).index("NODE_RANK")
    place.until(lambda: len(slices(place, "svc-chat")) == 1, "the endpoint")
    assert slices(place, "svc-chat")[0]["targetRef"]["name"] == "chat-0"
    assert writes_nothing(served())
    assert place.gpuctl("why", "chat", "-o", "json").value["cause"] == "running"
    described = place.gpuctl("describe", "job", "chat").out
    assert f"Kind:         inference ({LWS})" in described
    assert "nodes: 2" in described
    lines = place.gpuctl("logs", "chat", "--pod", "0-1", "--prefix").out
    # The pod writes on between both commands.
    assert lines
    assert place.gpuctl("logs", "chat-0-1", "--prefix").out.startswith(lines)
    place.gpuctl("drift", "-f", place.file(served()))
    place.gpuctl("delete", "job", "chat", "--yes")
    place.until(lambda: not place.pods("chat") and not place.exists("StatefulSet", "chat"), "the rest to go")


@pytest.mark.slow
def test_paused_inference_has_no_pods(group_place: Place, writes_nothing: Judge) -> None:
    place = group_place
    place.apply(served(service={"replicas": 2}), flags=("--wait", "--timeout", "60"))
    place.gpuctl("pause", "chat")
    place.until(lambda: not place.pods("chat"), "the pods to end")
    assert job_status(place) == "Paused 0/0"
    assert writes_nothing(served(service={"replicas": 2}))
    place.gpuctl("resume", "chat")
    place.until(lambda: job_status(place) == "Running 4/4", "the pods to run again")


def test_changes_replace_or_roll(group_place: Place, writes_nothing: Judge) -> None:
    place = group_place
    place.apply(served(nodes=1), flags=("--wait", "--timeout", "60"))
    grown = place.plan(served())
    assert grown.actions["LeaderWorkerSet/chat"] == "replace"
    place.apply(served(), flags=("--yes", "--wait", "--timeout", "60"))
    assert not place.exists("Deployment", "chat")
    uid = place.uid(LWS, "chat")
    rolling = served(environment=image("v2"), service={"strategy": "rolling"})
    assert place.plan(rolling).actions["LeaderWorkerSet/chat"] == "update"
    place.apply(rolling, flags=("--yes", "--wait", "--timeout", "60"))
    assert place.uid(LWS, "chat") == uid
    images = {pod["spec"]["containers"][0]["image"] for pod in place.api.list_objects("Pod", place.namespace)}
    assert images == {image("v2")["image"]}
    assert writes_nothing(rolling)
    place.apply(served(nodes=1), flags=("--yes", "--wait", "--timeout", "60"))
    assert not place.exists(LWS, "chat")


@pytest.mark.slow
def test_autoscaler_scales_replicas(group_place: Place) -> None:
    place = group_place
    scaled = served(autoscaling={"enabled": True, "minReplicas": 2, "maxReplicas": 3, "metric": "queue"})
    place.apply(scaled)

    def able() -> bool:
        """Return True if the autoscaler reads and sets the number of replicas."""
        conditions = (place.get("HorizontalPodAutoscaler", "chat").get("status") or {}).get("conditions") or []
        return any((item["type"], item["status"]) == ("AbleToScale", "True") for item in conditions)

    place.until(able, "the autoscaler")
    place.until(lambda: len(place.pods("chat")) == 4, "the minimum of replicas")
    # The cluster has no metrics.
    place.until(lambda: job_status(place) == "Running 4/4", "all pods to run")
    assert place.plan(scaled).actions["LeaderWorkerSet/chat"] == "unchanged"
