"""Shares of cards with the real scheduler, on nodes that offer memory and cores: lowering, fit, why and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Place, training

POOL, HYGON, ASCEND = "shared-cards", "shared-hygon", "shared-ascend"
PLATFORM = "gpu: {sharing: hami}\n"
OFFERED = {
    HYGON: {"hygon.com/dcunum": "8", "hygon.com/dcumem": "16384", "hygon.com/dcucores": "100"},
    ASCEND: {"huawei.com/Ascend910B3": "8"},
}


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[None]:
    plane.add_nodes({name: {"labels": {"runwhere.ai/pool": POOL}} for name in OFFERED})
    for name, amounts in OFFERED.items():
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    plane.wait_for_nodes()
    yield
    plane.kubectl("delete", "node", *OFFERED)


def job(name: str, share: Any, vendor: str = "hygon", **resources: Any) -> dict[str, Any]:
    own = {"gpu-share": share} if share is not None else {}
    fields = {"pool": POOL, "gpu": 1, "gpu-vendor": vendor, "cpu": 1, "memory": "1Gi", **own, **resources}
    return training(name, resources=fields)


def test_shares_wait_for_memory_and_cores(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    place.apply(job("first", {"memory": "8Gi", "cores": "60%"}))
    (pod,) = place.running("first")
    assert place.get("Pod", pod)["spec"]["nodeName"] == HYGON
    place.apply(job("memory", "12Gi"), job("cores", {"memory": "4Gi", "cores": "50%"}))
    answers = {}
    for name in ("memory", "cores"):
        place.until(lambda name=name: cause(place, name) == "gpu-shortage", f"the cause of {name}")
        answers[name] = place.gpuctl("why", name).out
    assert f"needs 12Gi GPU memory on one node of {POOL}" in answers["memory"]
    assert "8Gi free" in answers["memory"]
    assert f"needs 50% GPU cores on one node of {POOL}" in answers["cores"]
    assert "has 40% free" in answers["cores"]


def test_whole_cards_have_the_name_of_their_chip(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    whole = job("whole", None, "ascend", gpu=8, **{"gpu-type": "910B3"})
    place.kubectl("label", "node", ASCEND, "runwhere.ai/gpu-type=910B3")
    place.apply(whole)
    (pod,) = place.running("whole")
    assert place.get("Pod", pod)["spec"]["nodeName"] == ASCEND
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert row["gpu"] == 8
    place.apply(job("more", None, "ascend", gpu=2, **{"gpu-type": "910B3"}))
    place.until(lambda: cause(place, "more") == "gpu-shortage", "the cause of more")
    assert f"needs 2 910B3 on one node of {POOL}; the only node" in place.gpuctl("why", "more").out


def test_message_of_the_scheduler_of_hami(place: Place, nodes: None) -> None:
    """HAMi's webhook gives pods its scheduler, which counts the memory of cards by annotations."""
    place.platform(PLATFORM)
    document = {**job("waits", "2Gi"), "podPatch": {"schedulerName": "hami-scheduler"}}
    assert (
        place.gpuctl("fit", "-f", place.file(document), "-o", "json", code=2).value["jobs"][0]["verdict"] == "unknown"
    )
    place.apply(document)
    pods = place.until(lambda: place.pods("waits"), "the pod")
    message = "0/2 nodes are available: 2 NodeUnfitPod. preemption: 0/2 nodes are available: 2 No preemption victims."
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    place.patch("Pod", next(iter(pods)), {"status": {"conditions": [unschedulable]}}, subresource="status")
    answer = place.gpuctl("why", "waits").out
    assert cause(place, "waits") == "gpu-shortage", answer
    assert "HAMi has no card with room for it on 2 nodes (NodeUnfitPod)" in answer


def cause(place: Place, name: str) -> str:
    return str(place.gpuctl("why", name, "-o", "json").value["cause"])
