"""Jobs in Kueue's queues that claim GPUs as devices (DRA): `fit`, `why` and what Kueue does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import GPU, Document, Place, training
from support.device_nodes import cards, device_nodes
from support.queues import Queues

POOL, NODE = "queued-claims", "queued-claims-1"
PLATFORM = (
    "gpu: {allocation: dra, products: {H100: [NVIDIA H100 80GB HBM3], A100: [NVIDIA A100-SXM4-40GB]}}\n"
    f"pools: [{{name: {POOL}, gpu-types: [H100, A100]}}]"
)


@pytest.fixture
def nodes(queue_plane: ControlPlane) -> Iterator[None]:
    """A node with 4 cards. Kueue's configuration maps their DeviceClass to the GPU resource."""
    with device_nodes(queue_plane, POOL, NODE, cards(4, "NVIDIA A100-SXM4-40GB", "40960Mi")):
        yield


def job(name: str, gpus: int, **resources: Any) -> Document:
    """A training in the queue ``team``."""
    return training(
        name, resources={"pool": POOL, "gpu": gpus, "cpu": 1, "memory": "1Gi", "queue": "team", **resources}
    )


def answer(place: Place, *arguments: str) -> Any:
    """The verdict, whether it is certain, and the reason, of the job that is judged last."""
    found = place.gpuctl("fit", *arguments, "-o", "json", code=None).value["jobs"][-1]
    return found["verdict"], found["certain"], found["reason"] or ""


def test_fit_counts_claims_as_kueue_does(queue_place: Place, queues: Queues, nodes: None) -> None:
    place = queue_place
    place.platform(PLATFORM)
    queues.local_queue("team", queues.cluster_queue("team", 2))
    first, second = job("first", 2), job("second", 1)
    assert answer(place, "-f", place.file(first))[:2] == ("fits", True)
    place.apply(first)
    queues.admitted("first")
    verdict, is_certain, reason = answer(place, "-f", place.file(second))
    assert (verdict, is_certain) == ("fits-when-empty", True)
    assert f"it asks for 1 {GPU}, 0 free in flavor" in reason
    place.apply(second)
    queues.waits("second")
    assert answer(place)[:2] == ("fits-when-empty", True), "the waiting job"
    detail = place.gpuctl("why", "second", "-o", "json").value
    assert (detail["cause"], detail["numbers"]["position"]) == ("queued", 1)
    refused = {
        "many": (job("many", 3), f"it asks for 3 {GPU} in all, and 2 is the most"),
        "either": (job("either", 1, **{"gpu-type": ["H100", "A100"]}), "does not support claims with alternatives"),
    }
    for name, (document, words) in refused.items():
        path = place.file(document)
        verdict, is_certain, reason = answer(place, "-f", path)
        assert (name, verdict, is_certain) == (name, "never", True)
        assert words in reason
        place.plane.kubectl("apply", "-n", place.namespace, "-f", "-", input=place.gpuctl("render", "-f", path).out)
        queues.waits(name)
        found = place.gpuctl("why", name, "-o", "json").value
        assert (name, found["cause"]) == (name, "queue-unusable")
