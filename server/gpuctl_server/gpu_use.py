"""What is measured of GPUs, where something measures it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuctl_server.service import Service


class GpuUse(NamedTuple):
    """Of one GPU: ``utilization`` in percent, ``memory`` as ``72Gi/80Gi``; None where that is not measured."""

    utilization: float | None
    memory: str | None


def measured_use(service: Service, nodes: Iterable[str]) -> Mapping[str, Mapping[str, GpuUse]]:
    """Node -> GPU (``gpu-0``) -> its use, of those that are measured. Without Prometheus none is."""
    return {}
