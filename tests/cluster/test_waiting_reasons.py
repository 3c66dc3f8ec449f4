"""``get jobs -o wide`` shows the same waiting reason as ``why``, with as many requests for many jobs as for one."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from support.cluster_tools import Document, Place, inference, training
from support.queues import Queues

POOL = "reasons"


@pytest.fixture(scope="module")
def pool(plane: ControlPlane, jobset: None) -> str:
    """A pool of one node with 4 GPUs."""
    node = {"labels": {"runwhere.ai/pool": POOL}, "gpus": 4, "cpu": "64", "memory": "256Gi"}
    plane.add_nodes({POOL: node})
    return POOL


def gpus(name: str, number: int, pool: str = "drill", **resources: Any) -> Document:
    """Return a training with this number of GPUs per pod."""
    return training(name, resources={"gpu": number, "pool": pool, **resources})


def reasons(place: Place, *more: str) -> dict[str, str]:
    """Return the REASON column of the table, which is the last one, by job name."""
    lines = place.gpuctl("get", "jobs", "-o", "wide", *more).out.splitlines()
    start = lines[0].index("REASON")
    return {line.split()[1]: line[start:].strip() for line in lines[1:]}


def why(place: Place, name: str) -> str:
    """Return the message of ``why``."""
    return str(place.gpuctl("why", name, "-o", "json").value["message"])


def wait_for_cause(place: Place, name: str, wanted: str) -> None:
    """Wait until ``why`` finds a cause."""
    place.until(lambda: place.gpuctl("why", name, "-o", "json").value["cause"] == wanted, f"{wanted} of {name}")


def test_reasons_for_quota_and_gpus_equal_why(place: Place, pool: str, proxy: Proxy) -> None:
    place.apply(gpus("holder", 3, pool))
    place.running("holder")
    place.apply(gpus("large", 2, pool), gpus("both", 2, pool, nodes=2))
    # A new quota counts the pods that its controller has cached; the next recount is minutes later.
    wait_for_cause(place, "large", "gpu-shortage")
    wait_for_cause(place, "both", "gpu-shortage")
    place.limit(gpu="9")
    place.until(
        lambda: place.get("ResourceQuota", "few")["status"]["used"]["requests.nvidia.com/gpu"] == "9", "its use"
    )
    # It needs more than the deletion of `both` frees: otherwise it starts after that.
    place.apply(gpus("more", 6), inference("served", resources={"gpu": 1}), flags=("--queue",))
    wait_for_cause(place, "more", "quota-exceeded")
    wait_for_cause(place, "served", "quota-exceeded")
    named = ("large", "both", "more", "served")
    said = {name: why(place, name) for name in named}
    assert said["large"] == f"needs 2 GPUs on one node of {POOL}; the only node has 1 free"
    assert said["both"] == f"2 pods of 2 wait: each needs 2 GPUs on one node of {POOL}; the only node has 1 free"
    assert said["more"] == "quota few has no room: a pod needs 6 requests.nvidia.com/gpu, 0 left (9 of 9 used)"
    for more in ((), ("--jobs",)):
        found = reasons(place, *more)
        assert {name: found[name] for name in named} == said
        assert found["holder"] == "-"
    plain = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert {item["reason"] for item in plain if item["name"] == "large"} != {said["large"]}

    def asked(*arguments: str) -> int:
        proxy.reset()
        place.gpuctl("get", "jobs", "-o", "wide", *arguments)
        return len(proxy.records)

    several = asked()
    place.gpuctl("delete", "job", "both", "served", "--yes")
    place.until(lambda: not place.pods("both") and not place.exists("Deployment", "served"), "both jobs to be deleted")
    assert asked() == several


@pytest.mark.slow
def test_reason_without_rights_to_nodes_equals_why(
    place: Place, plane: ControlPlane, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.apply(gpus("huge", 5, pool))
    wait_for_cause(place, "huge", "gpu-shortage")
    place.grant("alice", "edit")
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("alice")))
    assert reasons(place)["huge"] == why(place, "huge")


@pytest.mark.slow
def test_reason_in_a_queue_equals_why(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=2)
    place.apply(gpus("first", 2))
    place.running("first")
    place.apply(gpus("second", 2))
    place.apply(gpus("third", 1))
    queues.waits("second")
    queues.waits("third")
    found = reasons(place)
    assert "it asks for 2 nvidia.com/gpu, 0 free in flavor" in found["second"]
    assert {name: found[name] for name in ("second", "third")} == {
        name: why(place, name) for name in ("second", "third")
    }
