"""The metrics of GPU exporters as the history of a Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""
UTIL, ACTIVE, USED, FREE, TOTAL = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_TOTAL",
)
Line = tuple[str, dict[str, Any], float, float]
OWN = {"pod": "dcgm-exporter-x", "namespace": "monitoring"}
"""Labels that Prometheus sets for the exporter if it does not honor the exporter's own."""


def dcgm(metric: str, value: float, when: float, gpu: int = 0, node: str = "n1", **labels: str) -> Line:
    return metric, {"gpu": gpu, "Hostname": node, "instance": "10.0.0.1:9400", **labels}, value, when


def history(lines: Iterable[Line]) -> str:
    """OpenMetrics: each metric's lines together, with their times."""
    by_metric: dict[str, list[str]] = {}
    for metric, labels, value, when in lines:
        inside = ",".join(f'{key}="{item}"' for key, item in labels.items())
        by_metric.setdefault(metric, []).append(f"{metric}{{{inside}}} {value} {BEGIN + when}")
    return "\n".join(text for metric, found in by_metric.items() for text in (f"# TYPE {metric} gauge", *found))


def exported(pod: str, namespace: str = "a") -> dict[str, str]:
    return {"exported_pod": pod, "exported_namespace": namespace, **OWN}
