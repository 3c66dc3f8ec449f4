"""Current utilization and memory of the GPUs of nodes, from Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuctl_server.lookups.job_metrics import memory_text, metric_queries
from gpuctl_server.service_context import Service
from gpuctl_usage.prometheus import PrometheusProblem

_SOON = 2.0
"""Time limit for the queries of one answer, seconds."""


class GpuMeasurement(NamedTuple):
    """Measurements of one GPU: ``utilization`` in percent, ``memory`` as ``72Gi/80Gi``; None if not measured."""

    utilization: float | None
    memory: str | None


def measure_gpus(service: Service, nodes: Iterable[str]) -> Mapping[str, Mapping[str, GpuMeasurement]]:
    """Return node -> GPU (``gpu-0``) -> its measurements. GPUs without measurements are left out."""
    names = sorted(nodes)
    if service.prometheus is None or not names:
        return {}
    deadline = time.monotonic() + _SOON
    share, used, total = (
        _by_gpu(service, query, names, deadline) for query in ("nodeUtilization", "nodeMemoryUsage", "nodeMemoryTotal")
    )
    found: dict[str, dict[str, GpuMeasurement]] = {}
    for node, gpu in sorted({*share, *used}):
        percent = share.get((node, gpu))
        memory = memory_text(used.get((node, gpu)), total.get((node, gpu)))
        found.setdefault(node, {})[f"gpu-{gpu}"] = GpuMeasurement(
            None if percent is None else round(percent, 2), memory
        )
    return found


def _by_gpu(service: Service, name: str, nodes: list[str], deadline: float) -> dict[tuple[str, str], float]:
    query, left = metric_queries(service)[name], deadline - time.monotonic()
    if service.prometheus is None or not query.query or left <= 0:
        return {}
    try:
        found = service.prometheus.query(query.filled({"nodes": nodes, "pods": [], "namespace": "", "job": ""}), left)
    except PrometheusProblem:
        return {}
    return {
        (series.labels["node"], series.labels["gpu"]): series.samples[-1].value
        for series in found
        if series.samples and {"node", "gpu"} <= series.labels.keys()
    }
