"""Pools and nodes as the REST API has them: the command line's JSON, with the service's own ids of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuctl.api.node_answers import gpu_list, node_answer, pool_answer, pool_list
from gpuctl.reading.node_rows import NodeState
from gpuctl.reading.pool_rows import PoolState
from gpuctl_server.gpu_use import GpuUse
from gpuctl_server.node_lookups import JobHere

Use = Mapping[str, Mapping[str, GpuUse]]
"""Node -> GPU -> what is measured of it."""

_IN_LISTS = ("name", "description", "gpuTotal", "gpuUsed", "gpuFree", "gpuUnavailable", "gpuType", "status")


def pool_items(pools: Iterable[PoolState]) -> list[dict[str, Any]]:
    """The items of ``GET /pools``."""
    return [{key: item[key] for key in _IN_LISTS} for item in pool_list(pools)["items"]]


def pool_value(pool: PoolState, jobs: Iterable[JobHere] | None, waiting: Iterable[JobHere] | None) -> dict[str, Any]:
    """``GET /pools/{poolName}``."""
    return {**pool_answer(pool), "jobs": job_values(jobs), "waitingJobs": job_values(waiting)}


def node_value(node: NodeState, jobs: Iterable[JobHere] | None, use: Use) -> dict[str, Any]:
    """``GET /nodes/{nodeName}``."""
    value = node_answer(node)
    detail = [{key: gpu[key] for key in gpu if key != "memoryUsage"} for gpu in value["gpuDetail"]]
    return {**value, "gpuDetail": _measured(detail, use.get(node.name, {})), "runningJobs": job_values(jobs)}


def gpu_items(nodes: Sequence[NodeState], use: Use) -> list[dict[str, Any]]:
    """The items of ``GET /nodes/gpu-detail``."""
    items = gpu_list(nodes)["items"]
    return [{**item, "gpus": _measured(item["gpus"], use.get(item["nodeName"], {}))} for item in items]


def job_values(jobs: Iterable[JobHere] | None) -> list[dict[str, Any]] | None:
    """The jobs on a pool or node."""
    if jobs is None:
        return None
    return [
        {"jobId": job.id, "name": job.name, "namespace": job.namespace, "kind": job.kind, "gpu": job.gpu}
        for job in jobs
    ]


def _measured(gpus: list[dict[str, Any]], use: Mapping[str, GpuUse]) -> list[dict[str, Any]]:
    for gpu in gpus:
        found = use.get(gpu["gpuId"])
        if found is not None:
            gpu |= {"utilization": found.utilization}
            if "memoryUsage" in gpu:
                gpu["memoryUsage"] = found.memory
    return gpus
