"""Small snapshots and jobs for tests of `fit` without a cluster."""

from __future__ import annotations

from typing import Any

from gpuctl.capacity.snapshot_document import Snapshot, load, render

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CLASSES = [
    {"name": "low", "value": 10},
    {"name": "high", "value": 100},
    {"name": "polite", "value": 100, "preemptionPolicy": "Never"},
]


def node(name: str, gpus: int = 8, **more: Any) -> Object:
    """A node with a little of everything."""
    labels = {"kubernetes.io/hostname": name, "zone": "a", **more.pop("labels", {})}
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "10", GPU: str(gpus), **more.pop("allocatable", {})}
    return {"name": name, "labels": labels, "allocatable": allocatable, **more}


def running(name: str, on: str, gpus: int = 1, priority: int = 0, **more: Any) -> Object:
    """A pod that is on a node."""
    requests = {GPU: str(gpus), **more.pop("requests", {})}
    own = {"namespace": "team", "name": name, "node": on, "priority": priority, "requests": requests}
    return {**own, "startTime": "2026-01-01T00:00:00Z", "labels": {"app": name}, **more}


def job(name: str = "train", pods: int = 1, gpus: int = 1, priority: str = "low", **spec: Any) -> Object:
    """A Job as lowering makes it."""
    amounts = {GPU: str(gpus), **spec.pop("amounts", {})}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    pod = {"containers": [container], "priorityClassName": priority, **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def cluster(nodes: list[Object], pods: list[Object] | None = None, **more: Any) -> Snapshot:
    """A snapshot, through its JSON."""
    priority_classes = more.pop("priority_classes", CLASSES)
    made = Snapshot("2026-01-01T00:00:00Z", nodes, pods or [], priority_classes=priority_classes, **more)
    return load(render(made))


def apart(name: str = "train", by: str = "zone") -> Object:
    """Pods of a job that stay out of each other's zones, or other parts of the cluster."""
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": by}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def service_of(gpus: int, namespace: str = "team", **spec: Any) -> Object:
    """A Deployment ``chat``."""
    metadata = {"name": "chat", "namespace": namespace}
    template = job(gpus=gpus)["spec"]["template"]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template, **spec}}


def waiting(name: str, gpus: int, priority: int, **wants: Any) -> Object:
    """A pod that waits for a node."""
    pod = running(name, "a", gpus, priority, wants=wants, phase="Pending")
    return {key: value for key, value in pod.items() if key not in ("node", "startTime")}
