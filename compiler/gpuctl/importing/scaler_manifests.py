"""Imports HorizontalPodAutoscalers as `autoscaling`."""

from __future__ import annotations

from typing import Any

from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.source_tree import Path
from gpuctl.objects.quantities import whole_number

_FIELD = "autoscaling"
_NOTES = {
    r"behavior": "`autoscaling.scaleUpDelay` and `scaleDownDelay` are times that load must stay high or low",
    r"metadata": "the autoscaler has the labels of the job",
}
_WRITE = "write `autoscaling`: it has one measure of load"


def take_autoscaler(tree: ConvertedTree) -> None:
    """Add the autoscaling of a service, if the autoscaler has one measure of load."""
    draft = tree.draft
    found = _metric(tree)
    if tree.number(("spec", "maxReplicas")) is None or found is None:
        tree.dropped((), _WRITE)
        return
    path, fields = found
    draft.set("autoscaling.enabled", True, tree.line(("kind",)))
    draft.set("autoscaling.minReplicas", 1)
    for name in ("minReplicas", "maxReplicas"):
        tree.set_number(("spec", name), f"autoscaling.{name}")
    for name, value in fields.items():
        draft.set(f"autoscaling.{name}", value, tree.line(path))
    tree.mapped(path, "autoscaling.metric")
    for part in (("apiVersion",), ("kind",), ("metadata", "namespace"), ("spec", "scaleTargetRef")):
        tree.mapped(part, _FIELD)
    tree.changed(("metadata", "name"), _FIELD, "gpuctl names the autoscaler after the job")
    tree.drop_rest(_NOTES)


def _metric(tree: ConvertedTree) -> tuple[Path, dict[str, Any]] | None:
    """Return the measure of load as fields, with its path; None if it is not one that the language has."""
    old: Path = ("spec", "targetCPUUtilizationPercentage")
    metrics: Path = ("spec", "metrics")
    if tree.node(metrics) is None:
        percent = tree.number(old)
        return None if percent is None else (old, {"metric": "cpu", "targetCPUUtilization": percent})
    first: Path = (*metrics, 0)
    metric = tree.get(first)
    if tree.items(metrics) != 1 or not isinstance(metric, dict):
        return None
    match metric:
        case {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": str(text)}}}:
            percent = whole_number(text)
            return None if percent is None else (metrics, {"metric": "cpu", "targetCPUUtilization": percent})
        case {"type": "Pods", "pods": {"metric": {"name": str(name), **rest}, "target": {"averageValue": str(value)}}}:
            return None if rest else (metrics, {"metric": {"name": name, "target": value}})
    return None
