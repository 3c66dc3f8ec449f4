"""Lowers ``kind: compute`` to a Deployment and a Service."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.deployment import deployment
from gpuctl.backend.device_claims import claim_templates
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.service_objects import service_objects
from gpuctl.frontend.document import Document
from gpuctl.language.compute_document import ComputeDocument
from gpuctl.objects.api_resources import Object


def lower(context: Context, document: Document, model: ComputeDocument) -> Iterator[Object]:
    """Yield the objects of a compute service."""
    yield from claim_templates(context, document, model, model.job.name)
    yield from service_objects(context, document, model, model.service)
    yield deployment(context, document, model, model.service, replicas=model.service.replicas)
