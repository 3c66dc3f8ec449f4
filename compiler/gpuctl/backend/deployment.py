"""The Deployment of ``inference`` and ``compute``."""

from __future__ import annotations

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import job_annotations, metadata, selector, workload_labels
from gpuctl.backend.pod import pod_template
from gpuctl.backend.service_objects import startup_seconds
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.service_block import ServiceBlock
from gpuctl.objects.api_resources import Object

PROGRESS_MARGIN = 600


def deployment(
    context: Context, document: Document, model: Job, block: ServiceBlock, *, replicas: int | None
) -> Object:
    """Return a Deployment, without replicas if an autoscaler sets them.

    With GPUs, or a volume of one node, an old pod is stopped before its successor is created: with one replica, no pod
    is ready during an update. The `preStop` hook of `drain` is in the container (`container_extras`).
    """
    spec: Object = {}
    if replicas is not None:
        spec["replicas"] = replicas
    # Longer than the startup may take; otherwise a Deployment that loads its model is reported as stuck.
    spec["progressDeadlineSeconds"] = startup_seconds(block) + PROGRESS_MARGIN
    spec["selector"] = {"matchLabels": selector(context, document, model)}
    if model.resources.gpu > 0 or model.storage.creates_claim_of_one_node:
        # The default surges first and waits for cards, or a volume, that only the old pods can free.
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    spec["template"] = pod_template(context, document, model)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(
            model.job.name,
            document.namespace,
            workload_labels(context, document, model),
            job_annotations(context, model),
        ),
        "spec": spec,
    }
