"""The cluster of the product's documents, as far as their examples agree, and nodes of every odd kind beside it.

``training-pool`` has 24 GPUs a100-80g and 8 a100-40g, of which 16 are taken; ``inference-pool`` 16 a10-24g, 8 taken;
``experiment-pool`` has t4 on two nodes, and only labels: no definition.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from control_plane import ControlPlane
from fault_tools.world import Api
from support.node_world import ASCEND, NVIDIA, POOL, TYPE, remove_nodes, spoil

TEAM, OTHER = "team-a", "team-b"
NVIDIA_TYPE, MODEL = "nvidia.com/gpu-type", "company.com/gpu-model"
JOB_TYPE = POOL.replace("/pool", "/job-type")
NODES: dict[str, dict[str, Any]] = {
    "node-1": {"gpus": 8, "memory": "256Gi", "labels": {POOL: "training-pool", NVIDIA_TYPE: "a100-80g"}},
    "node-2": {"gpus": 8, "memory": "256Gi", "labels": {POOL: "training-pool", NVIDIA_TYPE: "a100-80g"}},
    "node-3": {"gpus": 8, "memory": "256Gi", "labels": {POOL: "training-pool", NVIDIA_TYPE: "a100-40g"}},
    "node-4": {"gpus": 4, "labels": {POOL: "experiment-pool", MODEL: "t4"}},
    "node-5": {"gpus": 4, "labels": {POOL: "experiment-pool", NVIDIA_TYPE: "t4"}},
    "node-6": {"gpus": 8, "memory": "256Gi", "labels": {POOL: "training-pool", NVIDIA_TYPE: "a100-80g"}},
    "inference-1": {"gpus": 16, "labels": {POOL: "inference-pool", TYPE: "a10-24g"}},
    "cordoned-1": {"gpus": 2, "labels": {TYPE: "t4"}},
    "faulty-1": {"gpus": 2, "cpu": "63920m", "memory": "527966564Ki", "labels": {TYPE: "t4"}},
    "cpu-1": {},
    "mixed-1": {"gpus": 4, "labels": {TYPE: "t4", MODEL: "ascend910b"}},
    "mig-1": {"gpus": 7, "gpu_resource": "nvidia.com/mig-1g.5gb", "labels": {TYPE: "a100-40g"}},
    "shared-1": {"gpus": 8, "gpu_resource": "nvidia.com/gpu.shared", "labels": {TYPE: "t4"}},
}
_PODS = (
    # Name, namespace, job, pool, node, GPUs: one of a job of two nodes, two that are no jobs.
    ("qwen2-7b-sft-abcde", TEAM, "qwen2-7b-sft", "training-pool", "node-1", 4),
    ("wide-0", OTHER, "wide", "training-pool", "node-2", 4),
    ("wide-1", OTHER, "wide", "training-pool", "node-6", 4),
    ("stranger", OTHER, "", "", "node-6", 4),
    ("chat-abcde", TEAM, "chat", "inference-pool", "inference-1", 8),
    ("queued-abcde", OTHER, "queued", "training-pool", "", 64),
)
_SECRETS = ("wide", "stranger", "queued", OTHER)
"""Words that a user who sees only the first team must not receive."""


def hidden_words() -> tuple[str, ...]:
    """Return the names of the second team's objects."""
    return _SECRETS


def documents() -> list[dict[str, Any]]:
    """The definitions of the pools: one names a node that is not there, one has no nodes at all."""
    return [
        {
            "kind": "pool",
            "version": "v0.1",
            "pool": {"name": "training-pool", "description": "Pool for training models"},
            "nodes": {"node-1": {}, "node-2": {}, "node-3": {}, "node-6": {}, "node-9": {}},
            "quota": {"maxJobs": 100, "maxGpuPerJob": 8},
        },
        {
            "kind": "pool",
            "version": "v0.1",
            "pool": {"name": "inference-pool", "description": "Pool for inference services"},
            "nodes": {"inference-1": {}},
        },
        {"kind": "pool", "version": "v0.1", "pool": {"name": "hollow-pool"}, "nodes": {"node-8": {}}},
    ]


@contextlib.contextmanager
def populated(plane: ControlPlane) -> Iterator[None]:
    """The nodes and pods, on a plane that has others too; they go away again."""
    plane.add_nodes(NODES)
    more = {"capacity": {ASCEND: "2"}, "allocatable": {ASCEND: "2"}}
    # Two of its GPUs are out of order.
    broken = {"capacity": {NVIDIA: "8"}, "allocatable": {NVIDIA: "6"}}
    for name, status in (("mixed-1", more), ("node-3", {"allocatable": {NVIDIA: "8"}}), ("node-5", broken)):
        plane.requests.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
    plane.wait_for_nodes()
    spoil(plane, faulty="faulty-1", cordoned="cordoned-1")
    plane.create(*(_pod(*pod) for pod in _PODS))
    plane.wait_for(lambda: _settled(Api(plane)), "the nodes and pods")
    try:
        yield
    finally:
        for name, namespace, *_ in _PODS:
            plane.requests.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")
        remove_nodes(plane, NODES)


def _pod(name: str, namespace: str, job: str, pool: str, node: str, gpus: int) -> Mapping[str, Any]:
    labels = {"app": job, JOB_TYPE: "training", POOL: pool} if job else {}
    amounts = {"cpu": "2", "memory": "4Gi", NVIDIA: str(gpus)}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    place = {"nodeName": node} if node else {"nodeSelector": {POOL: pool}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container], **place},
    }


def _settled(api: Api) -> bool:
    nodes = {node["metadata"]["name"]: node for node in api.call("GET", "/api/v1/nodes")["items"]}
    ready = [item["status"] for item in nodes["faulty-1"]["status"]["conditions"] if item["type"] == "Ready"]
    pods = [pod for space in (TEAM, OTHER) for pod in api.list_objects("Pod", space)]
    running = {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"}
    return ready == ["False"] and {name for name, *_, node, _ in _PODS if node} <= running
