"""``kind: compute`` to a Deployment and a Service."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.context import Context
from gpuctl.backend.deployment import deployment
from gpuctl.backend.service import service
from gpuctl.frontend.document import Document
from gpuctl.language.compute import Compute
from gpuctl.objects.api_resources import Object


def lower(context: Context, document: Document, model: Compute) -> Iterator[Object]:
    """The objects of a compute service."""
    yield service(context, document, model, model.service)
    yield deployment(context, document, model, model.service, replicas=model.service.replicas)
