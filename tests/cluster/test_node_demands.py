"""MIG slices, spot nodes and RDMA devices with the real scheduler, in fit, why and lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Place, training

POOL = "demands"
SLICES, SPOT = "demands-slices", "demands-spot"
PLATFORM = """
spot: {labels: {example.com/capacity: spot}, taint: example.com/spot}
network: {rdma: {resource: rdma/hca, env: {NCCL_IB_HCA: mlx5}}}
"""


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[None]:
    pool = {"runwhere.ai/pool": POOL}
    taint = {"key": "example.com/spot", "effect": "NoSchedule"}
    plane.add_nodes(
        {
            SLICES: {"labels": pool, "gpus": 7, "gpu_resource": "nvidia.com/mig-1g.10gb"},
            SPOT: {
                "labels": {**pool, "example.com/capacity": "spot"},
                "gpus": 4,
                "gpu_resource": "rdma/hca",
                "taints": [taint],
            },
        }
    )
    plane.wait_for_nodes()
    yield
    plane.kubectl("delete", "node", SLICES, SPOT)


def document(name: str, **resources: Any) -> dict[str, Any]:
    return training(name, resources={"pool": POOL, "gpu": 0, "cpu": 1, "memory": "1Gi", **resources})


def verdict(place: Place, job: dict[str, Any], code: int) -> str:
    (answer,) = place.gpuctl("fit", "-f", place.file(job), "-o", "json", code=code).value["jobs"]
    return str(answer["verdict"])


def test_slices_are_scheduled_and_counted(place: Place, nodes: None) -> None:
    four = document("four", gpu=4, **{"gpu-profile": "1g.10gb"})
    more = document("more", gpu=5, **{"gpu-profile": "1g.10gb"})
    assert verdict(place, four, 0) == "fits"
    assert verdict(place, document("eight", gpu=8, **{"gpu-profile": "1g.10gb"}), 1) == "never"
    place.apply(four)
    (pod,) = place.running("four")
    assert place.get("Pod", pod)["spec"]["nodeName"] == SLICES
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert row["gpu"] == 4
    (pool,) = place.anywhere("get", "pools", POOL, "-o", "json").value["items"]
    assert (pool["gpuTotal"], pool["gpuUsed"], pool["gpuFree"]) == (7, 4, 3)
    assert verdict(place, more, 1) == "fits-when-empty"
    place.apply(more)
    place.until(lambda: place.gpuctl("why", "more", "-o", "json").value["cause"] == "gpu-shortage", "the scheduler")


def test_spot_jobs_run_on_spot_nodes_with_rdma_devices(place: Place, nodes: None) -> None:
    place.platform(PLATFORM)
    job = document("spot", spot=True, network={"rdma": 3})
    assert verdict(place, job, 0) == "fits"
    assert verdict(place, document("many", spot=True, network={"rdma": 5}), 1) == "never"
    # Without `spot` the job does not tolerate the taint of the nodes that have the devices.
    assert verdict(place, document("other", network={"rdma": 3}), 1) == "never"
    place.apply(job)
    (pod,) = place.running("spot")
    found = place.get("Pod", pod)["spec"]
    assert found["nodeName"] == SPOT
    assert found["containers"][0]["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert place.apply(job, flags=("-o", "json")).actions == {"Job/spot": "unchanged"}
