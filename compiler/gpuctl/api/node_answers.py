"""Nodes, their labels and GPUs, and pools, as JSON: ``get`` and ``describe`` of them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from gpuctl.api.json_values import listed, number
from gpuctl.capacity.quota_sum import format_amount
from gpuctl.objects.api_resources import labels_of
from gpuctl.reading.label_rows import GpuType, Label
from gpuctl.reading.node_rows import NodeState, PodOnNode
from gpuctl.reading.pool_rows import PoolState


def node_list(nodes: Iterable[NodeState]) -> dict[str, Any]:
    """``get nodes -o json``."""
    return listed(
        {
            "nodeName": node.name,
            "status": node.status,
            "gpuTotal": node.gpu_total,
            "gpuUsed": node.gpu_used,
            "gpuFree": node.gpu_free,
            "boundPools": [node.pool],
            "cpu": format_amount("cpu", node.total.get("cpu", Fraction(0))),
            "memory": format_amount("memory", node.total.get("memory", Fraction(0))),
            "gpuType": node.gpu_type,
            "createdAt": node.created_at,
        }
        for node in nodes
    )


def node_answer(node: NodeState) -> dict[str, Any]:
    """``describe node -o json``."""
    status, spec = node.object.get("status") or {}, node.object.get("spec") or {}
    info = status.get("nodeInfo") or {}
    conditions = status.get("conditions") or []
    heartbeats = [item["lastHeartbeatTime"] for item in conditions if item.get("lastHeartbeatTime")]
    return {
        "nodeName": node.name,
        "status": node.status,
        "gpuType": node.gpu_type,
        "k8sStatus": {
            "conditions": conditions,
            "schedulable": not node.is_cordoned,
            "taints": spec.get("taints") or [],
            "addresses": status.get("addresses") or [],
            "kernelVersion": info.get("kernelVersion"),
            "osImage": info.get("osImage"),
            "architecture": info.get("architecture"),
            "kubeletVersion": info.get("kubeletVersion"),
            "containerRuntimeVersion": info.get("containerRuntimeVersion"),
        },
        "resources": {
            **_amounts(node, "cpu"),
            **_amounts(node, "memory"),
            "gpuTotal": node.gpu_total,
            "gpuUsed": node.gpu_used,
            "gpuFree": node.gpu_free,
            "gpuUnhealthy": node.broken_gpus,
        },
        "gpuDetail": _gpus(node),
        "labels": [{"key": key, "value": value} for key, value in sorted(labels_of(node.object).items())],
        "boundPools": [node.pool],
        "runningJobs": holders(node.holders),
        "createdAt": node.created_at,
        "lastUpdatedAt": max(heartbeats, default=None),
    }


def _amounts(node: NodeState, resource: str) -> dict[str, Any]:
    total, used = node.amount(resource)
    free = None if used is None else max(Fraction(0), total - used)
    values = {"Total": total, "Used": used, "Free": free}
    return {f"{resource}{name}": _quantity(resource, value) for name, value in values.items()}


def _quantity(resource: str, value: Fraction | None) -> int | float | str | None:
    """An amount of a resource: cores as a number, memory as an exact quantity such as ``64Gi``."""
    if value is not None and resource == "memory":
        return format_amount(resource, value)
    return number(value)


def gpu_list(nodes: Iterable[NodeState]) -> dict[str, Any]:
    """``get nodes --gpu-detail -o json``."""
    return listed(
        {"nodeName": node.name, "gpuCount": node.gpu_total + node.broken_gpus, "gpus": _gpus(node)} for node in nodes
    )


def _gpus(node: NodeState) -> list[dict[str, Any]]:
    """One by one; utilization and use of memory come with a usage service only."""
    return [
        {"gpuId": gpu.name, "type": gpu.type, "status": gpu.status, "utilization": None, "memoryUsage": None}
        for gpu in node.gpus
    ]


def holders(pods: Iterable[PodOnNode] | None) -> list[dict[str, Any]] | None:
    """The pods that hold room, or wait for some; null where they may not be read."""
    if pods is None:
        return None
    return [
        {
            "pod": pod.pod,
            "name": pod.name,
            "namespace": pod.namespace,
            "kind": pod.kind,
            "gpu": pod.gpu,
            "nodeName": pod.node,
        }
        for pod in pods
    ]


def label_list(labels: Iterable[Label]) -> dict[str, Any]:
    """``get labels NODE -o json``."""
    return listed({"nodeName": item.node, "labelKey": item.key, "labelValue": item.value} for item in labels)


def label_answer(label: Label) -> dict[str, Any]:
    """``get labels NODE --key KEY -o json``. It was set at ``createdAt`` at the latest: more is not kept."""
    value = {
        "key": label.key,
        "value": label.value,
        "createdAt": label.created_at,
        "lastUpdatedAt": label.updated_at,
    }
    return {"nodeName": label.node, "label": value}


def gpu_label_list(nodes: Iterable[NodeState]) -> dict[str, Any]:
    """``get labels --all -o json``: of each node the labels about GPUs, and its pool."""
    return listed(
        {
            "nodeName": node.name,
            "gpuLabels": [{"key": key, "value": value} for key, value in node.gpu_labels.items()],
            "gpuType": node.gpu_type,
            "boundPools": [node.pool],
        }
        for node in nodes
    )


def gpu_type_list(types: Iterable[GpuType]) -> dict[str, Any]:
    """``get gpu-types -o json``."""
    return listed(
        {
            "gpuType": item.name,
            "vendors": list(item.vendors),
            "gpuTotal": item.total,
            "gpuUsed": item.used,
            "gpuFree": item.free,
            "nodes": list(item.nodes),
            "boundPools": list(item.pools),
        }
        for item in types
    )


def pool_list(pools: Iterable[PoolState]) -> dict[str, Any]:
    """``get pools -o json``."""
    return listed(map(_pool, pools))


def pool_answer(pool: PoolState) -> dict[str, Any]:
    """``describe pool -o json``: the types with their numbers, and what is missing or waits."""
    return {
        **_pool(pool),
        "gpuType": pool.gpu_types,
        "missingNodes": list(pool.missing),
        "waitingJobs": holders(pool.waiting),
        "isDefined": pool.is_defined,
    }


def _pool(pool: PoolState) -> dict[str, Any]:
    return {
        "name": pool.name,
        "description": pool.description,
        "gpuTotal": pool.gpu_total,
        "gpuUsed": pool.gpu_used,
        "gpuFree": pool.gpu_free,
        "gpuUnavailable": pool.gpu_unavailable,
        "gpuType": list(pool.gpu_types),
        "status": pool.status,
        "nodes": [node.name for node in pool.nodes],
        "quota": {"maxJobs": pool.max_jobs, "maxGpuPerJob": pool.max_gpu_per_job},
        "jobs": holders(pool.jobs),
    }
