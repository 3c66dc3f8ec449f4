"""Small snapshots and jobs for tests of `fit` without a cluster."""

from __future__ import annotations

from typing import Any

from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load

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


GPU_CLASS = "gpu.example.com"


def device_class(name: str = GPU_CLASS, *selectors: str, resource: str | None = GPU) -> Object:
    """A DeviceClass whose devices are those of the driver with its name."""
    offered = {"extendedResource": resource} if resource else {}
    return {"name": name, **offered, "selectors": [f'device.driver == "{GPU_CLASS}"', *selectors]}


def resource_slice(
    on: str | None, number: int, driver: str = GPU_CLASS, pool: Object | None = None, **more: Any
) -> Object:
    """A ResourceSlice with alike devices ``gpu-0`` ... of a node.

    :param more: the fields of each device.
    """
    own = {"name": on or "network", "generation": 1, "slices": 1, **(pool or {})}
    devices = [{"name": f"gpu-{index}", **more} for index in range(number)]
    return {"driver": driver, "pool": own, **({"node": on} if on else {}), "devices": devices}


def resource_claim(name: str, on: str, *numbers: int, pods: list[str] | None = None) -> Object:
    """An allocated ResourceClaim of a pod with its name."""
    devices = [{"driver": GPU_CLASS, "pool": on, "device": f"gpu-{number}"} for number in numbers]
    return {"namespace": "team", "name": name, "devices": devices, "pods": [name] if pods is None else pods}


def claim_template(*requests: Object, name: str = "cards", **devices: Any) -> Object:
    """A ResourceClaimTemplate as the API has it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"namespace": "team", "name": name},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": f"r{index}", **item} for index, item in enumerate(requests)],
                    **devices,
                }
            }
        },
    }


def exactly(count: int = 1, *selectors: str, of: str = GPU_CLASS, **more: Any) -> Object:
    """A request for devices of a class."""
    return {"exactly": device_option(count, *selectors, of=of, **more)}


def device_option(count: int = 1, *selectors: str, of: str = GPU_CLASS, **more: Any) -> Object:
    """An alternative of a request for devices of a class."""
    return {
        "deviceClassName": of,
        "count": count,
        "selectors": [{"cel": {"expression": text}} for text in selectors],
        **more,
    }
