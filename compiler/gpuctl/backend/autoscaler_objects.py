"""The autoscaler of an inference: a HorizontalPodAutoscaler, or a ScaledObject of KEDA for a query. And its lift."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata
from gpuctl.frontend.document import Document
from gpuctl.language.autoscaling_block import Autoscaling, OwnMetric
from gpuctl.language.inference_document import InferenceDocument
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.autoscalers import replica_range
from gpuctl.objects.durations import format_duration, parse_duration
from gpuctl.objects.quantities import parse_quantity

DEFAULT_GPU_TARGET = 70
DEFAULT_CPU_TARGET = 80
DEFAULT_QUEUE_TARGET = 5
_DIRECTIONS = (("scaleUp", "scaleUpDelay"), ("scaleDown", "scaleDownDelay"))


def autoscaler(
    context: Context, document: Document, model: InferenceDocument, scaling: Autoscaling, main: Object
) -> Object:
    """Return the autoscaler of an inference. That of a LeaderWorkerSet counts replicas, and measures their leaders.

    :param main: the workload.
    """
    own = scaling.own_metric
    target = {"apiVersion": main["apiVersion"], "kind": main["kind"], "name": model.job.name}
    if own is not None and own.query is not None:
        kind, spec = "ScaledObject", _scaled_object(context, scaling, own, own.query)
    else:
        kind, spec = "HorizontalPodAutoscaler", _pod_autoscaler(context, scaling)
    return {
        "apiVersion": RESOURCES[kind].api_version,
        "kind": kind,
        "metadata": metadata(model.job.name, document.namespace, identity_labels(context, document, model)),
        "spec": {"scaleTargetRef": target, **spec},
    }


def _pod_autoscaler(context: Context, scaling: Autoscaling) -> Object:
    spec: Object = {
        "minReplicas": scaling.minReplicas,
        "maxReplicas": scaling.maxReplicas,
        "metrics": _metrics(context, scaling),
    }
    if behavior := _behavior(scaling):
        spec["behavior"] = behavior
    return spec


def _scaled_object(context: Context, scaling: Autoscaling, metric: OwnMetric, query: str) -> Object:
    """Return the spec of a ScaledObject. Its target is for each pod (AverageValue), like that of other metrics."""
    spec: Object = {"minReplicaCount": scaling.minReplicas, "maxReplicaCount": scaling.maxReplicas}
    if scaling.scaleDownDelay is not None:
        # The time before the last pod is stopped; the behavior is about the others.
        spec["cooldownPeriod"] = parse_duration(scaling.scaleDownDelay)
    if behavior := _behavior(scaling):
        spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    # Without the setting, the query is an error that the document's checks report.
    server = context.settings.platform.prometheus or ""
    source = {"serverAddress": server, "query": query, "threshold": _number(metric.target)}
    spec["triggers"] = [{"type": "prometheus", "metricType": "AverageValue", "metadata": source}]
    return spec


def _number(quantity: str) -> str:
    """Return a quantity as the decimal number that KEDA reads: `500m` -> `0.5`."""
    amount = parse_quantity(quantity)
    assert amount is not None, "the language has checked it"
    return f"{Decimal(amount.numerator) / amount.denominator:f}"


def _behavior(scaling: Autoscaling) -> Object:
    delays = {direction: getattr(scaling, field) for direction, field in _DIRECTIONS}
    return {
        direction: {"stabilizationWindowSeconds": parse_duration(delay)}
        for direction, delay in delays.items()
        if delay is not None
    }


def _metrics(context: Context, scaling: Autoscaling) -> list[Object]:
    names = context.settings.platform.autoscaling.metrics
    own, metrics = scaling.own_metric, list[Object]()
    if own is not None:
        metrics.append((_external_metric if own.external else _pods_metric)(str(own.name), own.target))
    elif scaling.metric == "cpu":
        target = {"type": "Utilization", "averageUtilization": scaling.targetCPUUtilization or DEFAULT_CPU_TARGET}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    elif scaling.metric == "queue":
        metrics.append(_pods_metric(names.queue, scaling.targetQueueLength or DEFAULT_QUEUE_TARGET))
    elif scaling.targetGPUUtilization is not None or scaling.targetMemoryUtilization is None:
        metrics.append(_pods_metric(names.gpu, scaling.targetGPUUtilization or DEFAULT_GPU_TARGET))
    if scaling.targetMemoryUtilization is not None:
        metrics.append(_pods_metric(names.memory, scaling.targetMemoryUtilization))
    return metrics


def _pods_metric(name: str, target: int | str) -> Object:
    """Return a metric of the pods, served by the cluster's metrics adapter (custom.metrics.k8s.io)."""
    value = {"type": "AverageValue", "averageValue": str(target)}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": value}}


def _external_metric(name: str, target: str) -> Object:
    """Return a metric of the service, served by the cluster's metrics adapter (external.metrics.k8s.io)."""
    value = {"type": "AverageValue", "averageValue": target}
    return {"type": "External", "external": {"metric": {"name": name}, "target": value}}


def lift_autoscaling(context: Context, scaler: Object) -> dict[str, Any]:
    """Return the ``autoscaling`` block that an autoscaler was lowered from."""
    spec, (least, most) = scaler["spec"], replica_range(scaler)
    scaling: dict[str, Any] = {"enabled": True, "minReplicas": least, "maxReplicas": most}
    if scaler["kind"] == "ScaledObject":
        source = spec["triggers"][0]["metadata"]
        scaling["metric"] = {"query": source["query"], "target": source["threshold"]}
        behavior = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", {}).get("behavior", {})
    else:
        metrics = spec.get("metrics", [])
        names = [metric["pods"]["metric"]["name"] if metric["type"] == "Pods" else None for metric in metrics]
        for number, (name, metric) in enumerate(zip(names, metrics, strict=True), 1):
            # Of two metrics of pods with one name, the first is the user's: the memory of GPUs is the last one.
            is_own = name is not None and name in names[number:]
            scaling |= _lifted_own_metric(metric) if is_own else _lifted_metric(context, metric)
        behavior = spec.get("behavior", {})
    for direction, field in _DIRECTIONS:
        window = behavior.get(direction, {}).get("stabilizationWindowSeconds")
        if window is not None:
            scaling[field] = format_duration(window)
    return scaling


def _lifted_metric(context: Context, metric: Object) -> dict[str, Any]:
    """Return the fields that a metric was lowered from."""
    if metric["type"] == "Resource":
        return {"metric": "cpu", "targetCPUUtilization": metric["resource"]["target"]["averageUtilization"]}
    if metric["type"] == "External":
        return _lifted_own_metric(metric)
    names = context.settings.platform.autoscaling.metrics
    name, target = metric["pods"]["metric"]["name"], metric["pods"]["target"]["averageValue"]
    if name == names.queue and target.isdecimal():
        return {"metric": "queue", "targetQueueLength": int(target)}
    is_percent = target.isdecimal() and int(target) <= 100
    if name == names.memory and is_percent:
        return {"targetMemoryUtilization": int(target)}
    if name == names.gpu and is_percent:
        return {"targetGPUUtilization": int(target)}
    return _lifted_own_metric(metric)


def _lifted_own_metric(metric: Object) -> dict[str, Any]:
    """Return the ``metric`` field of a metric of the user."""
    if metric["type"] == "External":
        source = metric["external"]
        name, target = source["metric"]["name"], source["target"]["averageValue"]
        return {"metric": {"name": name, "external": True, "target": target}}
    source = metric["pods"]
    return {"metric": {"name": source["metric"]["name"], "target": source["target"]["averageValue"]}}
