"""The documents of ``examples/`` on a real API server: each is created, and applying them again changes nothing."""

from __future__ import annotations

import pytest

from control_plane import ControlPlane
from support.cluster_tools import DOMAIN, Place, other_definitions
from support.device_nodes import cards, device_nodes, slices
from support.pages import ROOT

EXAMPLES = ROOT / "examples"
GPUS = (*(f"gpu-a{number}" for number in range(1, 17)), "gpu-s1", "gpu-s2", "gpu-s3", "gpu-s4", "gpu-m1")
KUEUE = EXAMPLES / "kueue"


@pytest.mark.slow
def test_examples_of_jobs_are_created_once(queue_plane: ControlPlane, queue_place: Place) -> None:
    """Their platform puts trainings into a queue, and one waits for others there, which Kueue must support."""
    queue_plane.install_definitions(*other_definitions())
    nodes = {**dict.fromkeys(GPUS, "nvidia.com/gpu"), "npu-1": "huawei.com/Ascend910", "amd-1": "amd.com/gpu"}
    _are_created_once(queue_plane, queue_place, "jobs", nodes, 20)


def test_examples_of_hami_are_created_once(plane: ControlPlane, place: Place) -> None:
    _are_created_once(plane, place, "hami", {"gpu-h1": "nvidia.com/gpu", "npu-h1": "huawei.com/Ascend910B3"}, 4)


def _are_created_once(plane: ControlPlane, place: Place, directory: str, nodes: dict[str, str], at_least: int) -> None:
    path = str(EXAMPLES / directory)
    plane.add_nodes(
        {name: {"gpus": 8, "gpu_resource": gpu, "cpu": "128", "memory": "1Ti"} for name, gpu in nodes.items()}
    )
    try:
        created, again = (place.anywhere("apply", "-f", path, "--yes", "-o", "json") for _ in range(2))
        assert len(created.actions) > at_least
        assert set(created.actions.values()) == {"create"}
        assert again.actions == dict.fromkeys(created.actions, "unchanged")
    finally:
        place.anywhere("delete", "-f", path, "--yes", "--without-checkpoint")
        plane.kubectl("delete", "pvc", "--all", "-n", "nlp")
        plane.kubectl("delete", "node", *nodes)


def test_examples_of_devices_run(plane: ControlPlane, place: Place) -> None:
    path = str(EXAMPLES / "devices")
    # Their platform sets `gpu.allocation`, so they are in a directory of their own.
    with device_nodes(plane, "device-pool", "gpu-d1", [*cards(3, "NVIDIA A100-SXM4-80GB", "80Gi"), *slices(7)]):
        try:
            created, again = (place.anywhere("apply", "-f", path, "--yes", "-o", "json") for _ in range(2))
            assert set(created.actions.values()) == {"create"}
            assert again.actions == dict.fromkeys(created.actions, "unchanged")
            for name in ("qwen3-sft", "qwen3-14b", "small-experiments"):
                place.anywhere("wait", name, "-n", "nlp", "--for", "running", "--timeout", "2m")
        finally:
            place.anywhere("delete", "-f", path, "--yes")


def test_examples_of_kueue_are_created_once(queue_plane: ControlPlane, queue_place: Place) -> None:
    place = queue_place
    label = {f"{DOMAIN}/pool": "training-pool", f"{DOMAIN}/gpu-type": "H100-80G"}
    queue_plane.add_nodes({"gpu-h1": {"gpus": 8, "cpu": "128", "memory": "1Ti", "labels": label}})
    try:
        created, again = (place.anywhere("apply", "-f", str(KUEUE), "-o", "json") for _ in range(2))
        assert {"ClusterQueue/gpuctl-speech", "LocalQueue/default", "Job/acoustic-model"} <= created.actions.keys()
        assert set(again.actions.values()) == {"unchanged"}
    finally:
        place.anywhere("delete", "-f", str(KUEUE / "training.yaml"), "--yes")
        place.anywhere("delete", "quota", "research", "--yes")
        queue_plane.kubectl("delete", "node", "gpu-h1")
