"""The nodes of a pod: pool, GPU type and spot nodes, tolerations of their taints, closeness to other pods."""

from __future__ import annotations

from typing import Any

from gpuctl.backend.device_claims import selects_products
from gpuctl.backend.gpu_resources import gpu_scheduler
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.pod_topology import pod_affinity
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Object


def pod_placement(context: Context, document: Document, model: Job) -> Object:
    """Return the pod's node selection: pool, GPU type and spot nodes, and the tolerations for their taints."""
    pool_key, type_key = context.label("pool"), context.label("gpu-type")
    node_selector: dict[str, str] = {}
    terms: list[list[Object]] = [[]]
    if model.resources.pool == DEFAULT_POOL:
        terms = [
            [{"key": pool_key, "operator": "DoesNotExist"}],
            [{"key": pool_key, "operator": "In", "values": [DEFAULT_POOL]}],
        ]
    else:
        node_selector[pool_key] = model.resources.pool
    spot = context.settings.spot if model.resources.spot else None
    if spot is not None:
        node_selector.update(spot.labels)
    by_claim = selects_products(context.settings, document.gpu_types)
    named = () if by_claim else document.gpu_types
    types = {name: type_expressions(context, name) for name in named}
    if context.settings.gpu_types.keys() & types.keys():
        terms = [[*term, *expressions] for term in terms for expressions in types.values()]
    elif len(types) == 1:
        node_selector[type_key] = named[0]
    elif types:
        wanted = {"key": type_key, "operator": "In", "values": list(types)}
        terms = [[*term, wanted] for term in terms]
    placement: dict[str, Any] = {}
    if node_selector:
        placement["nodeSelector"] = node_selector
    closeness = pod_affinity(context, document, model)
    if any(terms):
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        affinity: Object = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        if len(types) > 1:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = _preferred(list(types.values()))
        placement["affinity"] = {"nodeAffinity": affinity, **closeness}
    elif closeness:
        placement["affinity"] = closeness
    gpu = context.settings.gpu_of(model.resources)
    if model.resources.gpu > 0 and gpu is not None:
        placement["tolerations"] = [_tolerated(gpu.taint)]
        if scheduler := gpu_scheduler(context, model, gpu):
            placement["schedulerName"] = scheduler
    if spot is not None and spot.taint is not None:
        placement["tolerations"] = [*placement.get("tolerations", []), _tolerated(spot.taint)]
    return placement


def type_expressions(context: Context, gpu_type: str) -> list[Object]:
    """Return the node expressions that select a GPU type: by the labels that the platform maps it to, or its own."""
    labels = context.settings.gpu_types.get(gpu_type, {context.label("gpu-type"): gpu_type})
    return [
        {"key": key, "operator": "In", "values": [value] if isinstance(value, str) else list(value)}
        for key, value in labels.items()
    ]


def _preferred(alternatives: list[list[Object]]) -> list[Object]:
    """Return weights from 100 down for all alternatives except the last."""
    steps = len(alternatives) - 1
    return [
        {"weight": 100 * (steps - place) // steps, "preference": {"matchExpressions": expressions}}
        for place, expressions in enumerate(alternatives[:-1])
    ]


def _tolerated(taint: str) -> Object:
    return {"key": taint, "operator": "Exists", "effect": "NoSchedule"}
