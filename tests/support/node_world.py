"""A cluster with nodes of several kinds in several states, and pods that hold and await their GPUs.

========  ==============  ===========  ====================================  ==============================
node      pool            state        GPUs                                  label that tells the type
========  ==============  ===========  ====================================  ==============================
cpu-1     -               active       none                                  -
node-1    training-pool   active       8 nvidia, 5 of them requested         runwhere.ai/gpu-type=A100-80G
node-2    training-pool   active       8 nvidia, 1 of a pod of nobody's job  nvidia.com/gpu-type=a100-80g
node-3    inference-pool  faulty       4 nvidia                              nvidia.com/gpu.product=Tesla-T4
node-4    -               maintaining  4 nvidia                              company.com/gpu-model=a100-40g
npu-1     npu-pool        active       8 ascend, 2 requested                 runwhere.ai/gpu-type=Ascend910B
========  ==============  ===========  ====================================  ==============================
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import DOMAIN, Place
from support.real_parts import control_plane_binaries

NVIDIA, ASCEND = "nvidia.com/gpu", "huawei.com/Ascend910"
POOL, TYPE, JOB_TYPE = f"{DOMAIN}/pool", f"{DOMAIN}/gpu-type", f"{DOMAIN}/job-type"
SYSTEM = "gpuctl-system"
NODES: dict[str, dict[str, Any]] = {
    "cpu-1": {},
    "node-1": {"gpus": 8, "labels": {POOL: "training-pool", TYPE: "A100-80G"}},
    "node-2": {
        "gpus": 8,
        "labels": {POOL: "training-pool", "nvidia.com/gpu-type": "a100-80g"},
        "cpu": "63920m",
        "memory": "527966564Ki",
    },
    "node-3": {"gpus": 4, "labels": {POOL: "inference-pool", "nvidia.com/gpu.product": "Tesla-T4"}},
    "node-4": {"gpus": 4, "labels": {"company.com/gpu-model": "a100-40g"}},
    "npu-1": {"gpus": 8, "gpu_resource": ASCEND, "labels": {POOL: "npu-pool", TYPE: "Ascend910B"}},
}


def running() -> Iterator[ControlPlane]:
    """The cluster; without its programs the tests are skipped, in CI they fail."""
    with ControlPlane(control_plane_binaries()) as plane:
        plane.add_nodes(NODES)
        plane.wait_for_nodes()
        spoil(plane, faulty="node-3", cordoned="node-4")
        _start_pods(plane)
        plane.wait_for(lambda: _settled(Api(plane)), "the nodes and pods")
        yield plane


def place(
    plane: ControlPlane, directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    """Return the place where commands run: use ``anywhere``, because no namespace belongs to it alone."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig()))
    monkeypatch.chdir(directory)
    return Place(plane, Api(plane), "default", directory, capsys)


@contextlib.contextmanager
def spare_nodes(plane: ControlPlane, *names: str, labels: Mapping[str, str] | None = None) -> Iterator[None]:
    """Nodes to change; they go away again, with the definitions of pools that a test made."""
    plane.add_nodes({name: {"gpus": 2, "labels": labels} for name in names})
    try:
        yield
    finally:
        remove_nodes(plane, names)


def spoil(plane: ControlPlane, faulty: str, cordoned: str) -> None:
    """Make one node unready, and cordon another."""
    not_ready = {"metadata": {"annotations": {"gpuctl.test/ready": "false"}}}
    plane.requests.call("PATCH", f"/api/v1/nodes/{faulty}", not_ready)
    plane.requests.call("PATCH", f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})


def remove_nodes(plane: ControlPlane, names: Iterable[str]) -> None:
    """Delete nodes, and the definitions of all pools."""
    for name in names:
        plane.requests.request("DELETE", f"/api/v1/nodes/{name}")
    plane.requests.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/configmaps?labelSelector={quote(POOL, safe='')}")


def labels_of(place: Place, name: str) -> dict[str, str]:
    """A node's labels."""
    found: dict[str, str] = place.api.call("GET", f"/api/v1/nodes/{name}")["metadata"]["labels"]
    return found


def managers(place: Place, name: str, label: str) -> set[str]:
    """Return the field managers of a label of a node."""
    entries = place.api.call("GET", f"/api/v1/nodes/{name}")["metadata"]["managedFields"]
    return {
        entry["manager"]
        for entry in entries
        if f"f:{label}" in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
    }


def _container(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", NVIDIA: str(gpus)}
    return {"name": name, "image": "x", "resources": {"requests": amounts, "limits": amounts}, **more}


def _pod(name: str, spec: Mapping[str, Any], *, job: str = "", pool: str = "", **outcome: str) -> dict[str, Any]:
    labels = {"app": job, JOB_TYPE: "training", POOL: pool} if job else {}
    annotations = {f"gpuctl.test/{key}": value for key, value in outcome.items()}
    metadata = {"name": name, "namespace": "team-a", "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"restartPolicy": "Never", **spec}}


def _start_pods(plane: ControlPlane) -> None:
    on_node_1 = {"nodeName": "node-1"}
    # Counted as the scheduler does: an init container needs its own 4 beside the sidecar's 1, more than 2 + 1 later.
    staged = {
        "initContainers": [_container("proxy", 1, restartPolicy="Always"), _container("fetch", 4)],
        "containers": [_container("main", 2)],
    }
    npus = {"requests": {ASCEND: "2"}, "limits": {ASCEND: "2"}}
    plane.create(
        _pod("sft-abcde", {**on_node_1, **staged}, job="sft", pool="training-pool"),
        _pod("old-abcde", {**on_node_1, "containers": [_container("main", 2)]}, job="old", outcome="complete"),
        _pod("broken-abcde", {**on_node_1, "containers": [_container("main", 2)]}, job="broken", outcome="fail"),
        _pod("foreign", {"nodeName": "node-2", "containers": [_container("main", 1)]}),
        _pod("npu-abcde", {"nodeName": "npu-1", "containers": [{"name": "main", "image": "x", "resources": npus}]}),
        _pod(
            "big-abcde",
            {"nodeSelector": {POOL: "training-pool"}, "containers": [_container("main", 8)]},
            job="big",
            pool="training-pool",
        ),
    )


def _settled(api: Api) -> bool:
    pods = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in api.list_objects("Pod", "team-a")}
    wanted = {"old-abcde": "Succeeded", "broken-abcde": "Failed", "big-abcde": "Pending"}
    nodes = {node["metadata"]["name"]: node for node in api.call("GET", "/api/v1/nodes")["items"]}
    ready = [item["status"] for item in nodes["node-3"]["status"]["conditions"] if item["type"] == "Ready"]
    return pods == {name: wanted.get(name, "Running") for name in pods} and ready == ["False"]
