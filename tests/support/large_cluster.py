"""A cluster of 500 nodes and 2,400 pods that no controller changes, made in less than a minute.

Pods are bound when they are created, and their status is written here: the scheduler and the kubelets would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from control_plane import ControlPlane

NODES, JOBS, PODS_PER_JOB = 500, 1000, 2
RUNNING = 300
"""Jobs whose pods run; those of the others start. The pods of one more job wait."""
WIDE, WIDE_PODS = "wide", 400
"""A job of many pods, beside the others."""
POOL, SECOND_POOL = "training-pool", "inference-pool"
NAMESPACES = tuple(f"team-{number:02}" for number in range(20))
WAITING = "waits"
_GPU = "nvidia.com/gpu"
_DOMAIN = "runwhere.ai"
_THREADS = 8


@contextmanager
def large_cluster(binaries: Path) -> Iterator[ControlPlane]:
    """Yield the control plane; its only programs are etcd and the API server."""
    with ControlPlane(binaries) as plane:
        for program in ("kube-controller-manager", "kube-scheduler", "kwok"):
            plane.stop_program(program, kill=True)
        for namespace in NAMESPACES:
            plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        _side_by_side(_add_node(plane), range(NODES))
        _side_by_side(_add_pods(plane), range(JOBS))
        for number in range(WIDE_PODS):
            plane.create(_pod(f"{WIDE}-{number:04}", WIDE, NAMESPACES[0], POOL, f"gpu-{number % NODES:03}", 0))
        _add_waiting_pod(plane)
        yield plane


def _side_by_side(function: Callable[[int], None], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(function, numbers))


def _add_node(plane: ControlPlane) -> Callable[[int], None]:
    def add(number: int) -> None:
        pool, model = (POOL, "A100-80G") if number < NODES * 3 // 5 else (SECOND_POOL, "L40S-48G")
        labels = {f"{_DOMAIN}/pool": pool, "nvidia.com/gpu.product": model}
        name = f"gpu-{number:03}"
        plane.add_node(name, labels=labels, gpus=8, cpu="256", memory="2Ti")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        plane.requests.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})
        plane.requests.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    return add


def _add_pods(plane: ControlPlane) -> Callable[[int], None]:
    def add(number: int) -> None:
        namespace, name = NAMESPACES[number % len(NAMESPACES)], f"job-{number:04}"
        # The GPUs of all nodes are held: each node has the pods of two jobs.
        node = number % NODES
        pool = POOL if node < NODES * 3 // 5 else SECOND_POOL
        for place in range(PODS_PER_JOB):
            plane.create(_pod(f"{name}-{place}", name, namespace, pool, f"gpu-{node:03}", 2))
            if number < RUNNING:
                path = f"/api/v1/namespaces/{namespace}/pods/{name}-{place}/status"
                started = {"startedAt": "2026-01-01T00:00:00Z"}
                container = {"name": "main", "ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
                status = {"phase": "Running", "containerStatuses": [{**container, "state": {"running": started}}]}
                plane.requests.call("PATCH", path, {"status": status})

    return add


def _add_waiting_pod(plane: ControlPlane) -> None:
    name, namespace = f"{WAITING}-0", NAMESPACES[1]
    plane.create(_pod(name, WAITING, namespace, POOL, "", 8))
    message = f"0/{NODES} nodes are available: {NODES} Insufficient {_GPU}."
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    plane.requests.call("PATCH", path, {"status": {"conditions": [refused]}})


def _pod(name: str, job: str, namespace: str, pool: str, node: str, gpus: int) -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "4Gi", **({_GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    labels = {"app": job, f"{_DOMAIN}/job-type": "training", f"{_DOMAIN}/pool": pool}
    place = {"nodeName": node} if node else {"nodeSelector": {f"{_DOMAIN}/pool": pool}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container], **place},
    }
