"""Lowers ``kind: inference`` to a Deployment, a Service and a HorizontalPodAutoscaler."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.deployment import deployment
from gpuctl.backend.exposure_objects import exposure
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata
from gpuctl.backend.service_objects import service
from gpuctl.frontend.document import Document
from gpuctl.language.inference_document import Autoscaling, InferenceDocument
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import parse_duration

DEFAULT_GPU_TARGET = 70
DEFAULT_CPU_TARGET = 80
DEFAULT_QUEUE_TARGET = 5


def lower(context: Context, document: Document, model: InferenceDocument) -> Iterator[Object]:
    """Yield the objects of an inference."""
    yield service(context, document, model, model.service)
    yield from exposure(context, document, model, model.service)
    replicas = None if model.autoscaled else model.service.replicas
    yield deployment(context, document, model, model.service, replicas=replicas)
    if model.autoscaling is not None and model.autoscaled:
        yield _autoscaler(context, document, model, model.autoscaling)


def _autoscaler(context: Context, document: Document, model: InferenceDocument, scaling: Autoscaling) -> Object:
    spec: Object = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": model.job.name},
        "minReplicas": scaling.minReplicas,
        "maxReplicas": scaling.maxReplicas,
        "metrics": _metrics(context, scaling),
    }
    behavior = {}
    for direction, delay in (("scaleUp", scaling.scaleUpDelay), ("scaleDown", scaling.scaleDownDelay)):
        if delay is not None:
            behavior[direction] = {"stabilizationWindowSeconds": parse_duration(delay)}
    if behavior:
        spec["behavior"] = behavior
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(model.job.name, document.namespace, identity_labels(context, document, model)),
        "spec": spec,
    }


def _metrics(context: Context, scaling: Autoscaling) -> list[Object]:
    names = context.settings.platform.autoscaling.metrics
    metrics: list[Object] = []
    if scaling.metric == "cpu":
        target = {"type": "Utilization", "averageUtilization": scaling.targetCPUUtilization or DEFAULT_CPU_TARGET}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    elif scaling.metric == "queue":
        metrics.append(_pods_metric(names.queue, scaling.targetQueueLength or DEFAULT_QUEUE_TARGET))
    elif scaling.targetGPUUtilization is not None or scaling.targetMemoryUtilization is None:
        metrics.append(_pods_metric(names.gpu, scaling.targetGPUUtilization or DEFAULT_GPU_TARGET))
    if scaling.targetMemoryUtilization is not None:
        metrics.append(_pods_metric(names.memory, scaling.targetMemoryUtilization))
    return metrics


def _pods_metric(name: str, target: int) -> Object:
    """Return a metric of the pods, served by the cluster's metrics adapter (custom.metrics.k8s.io)."""
    value = {"type": "AverageValue", "averageValue": str(target)}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": value}}
