"""Lowers ``kind: inference`` to a Deployment or LeaderWorkerSet, a Service, and an autoscaler."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.autoscaler_objects import autoscaler
from gpuctl.backend.deployment import deployment
from gpuctl.backend.device_claims import claim_templates
from gpuctl.backend.leader_worker_set import leader_worker_set
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.service_objects import service_objects
from gpuctl.frontend.document import Document
from gpuctl.language.inference_document import InferenceDocument
from gpuctl.objects.api_resources import Object


def lower(context: Context, document: Document, model: InferenceDocument) -> Iterator[Object]:
    """Yield the objects of an inference."""
    yield from claim_templates(context, document, model, model.job.name)
    yield from service_objects(context, document, model, model.service)
    replicas = None if model.autoscaled else model.service.replicas
    if model.resources.nodes > 1:
        main = leader_worker_set(context, document, model, replicas=replicas)
    else:
        main = deployment(context, document, model, model.service, replicas=replicas)
    yield main
    if model.autoscaling is not None and model.autoscaled:
        yield autoscaler(context, document, model, model.autoscaling, main)
