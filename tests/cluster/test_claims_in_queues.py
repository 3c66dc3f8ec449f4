"""Claims for GPUs of a driver (DRA) in Kueue queues: what Kueue refuses, in the words of `validate` and `why`."""

from __future__ import annotations

from support.cluster_tools import Object, Place, training
from support.queues import Queues

PLATFORM = "gpu: {allocation: dra, products: {H100: [NVIDIA H100 80GB HBM3], A100: [NVIDIA A100-SXM4-80GB]}}"


def why(place: Place, name: str) -> Object:
    return dict(place.gpuctl("why", name, "-o", "json").value)


def test_claims_that_kueue_refuses(queue_place: Place, queues: Queues) -> None:
    place = queue_place
    queues.team(gpus=2)
    place.platform(PLATFORM)
    resources = {"gpu": 1, "cpu": 1, "memory": "1Gi", "queue": "team"}
    several = training("several", resources={**resources, "gpu-type": ["H100", "A100"]})
    assert "GPU435" in place.gpuctl("validate", place.file(several)).out
    place.apply(several, training("plain", resources=resources))
    for name, words, fix in (
        ("several", "Kueue does not support claims with alternatives of GPU types", "`resources.gpu-type`"),
        ("plain", "does not list DeviceClass gpu.nvidia.com", "list gpu.nvidia.com in `resources.deviceClassMappings`"),
    ):
        place.until(lambda name=name: why(place, name)["cause"] == "queue-unusable", "Kueue's refusal")
        answer = why(place, name)
        assert "(ClusterQueue" in answer["message"]
        assert words in answer["message"]
        assert fix in answer["fix"]
