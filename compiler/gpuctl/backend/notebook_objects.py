"""Lowers ``kind: notebook`` to a StatefulSet and a Service."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.device_claims import claim_templates
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.notebook_activity import limit_annotations
from gpuctl.backend.object_metadata import job_annotations, metadata, selector, workload_labels
from gpuctl.backend.pod import pod_template
from gpuctl.backend.service_objects import service_objects
from gpuctl.frontend.document import Document
from gpuctl.language.notebook_document import NotebookDocument
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import service_name


def lower(context: Context, document: Document, model: NotebookDocument) -> Iterator[Object]:
    """Yield the objects of a notebook. A StatefulSet keeps the name of its one pod."""
    yield from claim_templates(context, document, model, model.job.name)
    yield from service_objects(context, document, model, model.service)
    yield {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(
            model.job.name,
            document.namespace,
            workload_labels(context, document, model),
            {**job_annotations(context, model), **limit_annotations(context, model)},
        ),
        "spec": {
            "replicas": 1,
            "serviceName": service_name(model.job.name),
            "podManagementPolicy": "OrderedReady",
            "selector": {"matchLabels": selector(context, document, model)},
            "template": pod_template(context, document, model),
        },
    }
