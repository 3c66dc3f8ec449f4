"""Names, labels and annotations of gpuctl's objects."""

from __future__ import annotations

import json

from gpuctl.backend.lowering_context import Context
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.quota_document import QuotaDocument
from gpuctl.objects.api_resources import QUEUE_LABEL, QUEUE_PRIORITY_LABEL, Object
from gpuctl.objects.label_names import (
    AFTER,
    CHECKPOINT,
    MANAGED_BY,
    MANAGER,
    NOTIFY,
    SCALES_TO_ZERO,
    SWEEP,
    SWEEP_VALUES,
    URL,
)
from gpuctl.objects.prerequisites import ADMISSION_GATES, GATE


def selector(context: Context, document: Document, model: Job) -> dict[str, str]:
    """Return the selector of a job's pods. Selectors are immutable, so it contains nothing that can change.

    With ``app`` alone, a training and an inference of one name would share endpoints.
    """
    return {"app": model.job.name, context.label("job-type"): document.kind}


def _identity(context: Context, document: Document, model: Job) -> dict[str, str]:
    name = model.job.name
    return {
        "app": name,
        "app.kubernetes.io/name": name,
        MANAGED_BY: MANAGER,
        context.label("job-type"): document.kind,
    }


def identity_labels(context: Context, document: Document, model: Job) -> dict[str, str]:
    """Return the labels of a job's other objects (Service, ConfigMap, autoscaler)."""
    return {**_identity(context, document, model), context.label("namespace"): document.namespace}


def job_labels(context: Context, document: Document, model: Job) -> dict[str, str]:
    """Return the labels of a job's pods: identity, priority, pool, and the user's own."""
    return {
        **_identity(context, document, model),
        context.label("priority"): model.job.priority,
        context.label("pool"): model.resources.pool,
        context.label("namespace"): document.namespace,
        **({context.label(SWEEP): model.job.sweep.name} if model.kind == "training" and model.job.sweep else {}),
        **model.job.labels,
    }


def workload_labels(context: Context, document: Document, model: Job) -> dict[str, str]:
    """Return the labels of a job's main object: those of its pods, and its queue.

    Kueue reads the queue from the object alone. Its webhooks suspend a Job or JobSet, and gate the pods of the other
    kinds; ``suspend: true`` in a file would stop an admitted job at the next apply.
    """
    labels = job_labels(context, document, model)
    queue = context.settings.queue_of_job(model)
    if queue is not None:
        labels[QUEUE_LABEL] = queue
    if names_queue_priority(context, model):
        labels[QUEUE_PRIORITY_LABEL] = context.settings.priorities[model.job.priority].class_name
    return labels


def names_queue_priority(context: Context, model: Job) -> bool:
    """Return True if a job's priority is a WorkloadPriorityClass, too. A class in `job.labels` takes precedence.

    If quotas are queues, jobs that name no queue are in that of their namespace; without one, Kueue ignores the label.
    """
    settings = context.settings
    may_wait = settings.has_quota_queues or settings.queue_of_job(model) is not None
    return settings.has_queue_priorities and may_wait and QUEUE_PRIORITY_LABEL not in model.job.labels


def placement_annotation(context: Context, model: Job | QuotaDocument) -> dict[str, str]:
    """Return the annotation with a document's clusters. It is not on the pods, so that changing it restarts nothing."""
    placed = model.placement
    return {} if placed is None else {context.label("placement"): ",".join(placed.clusters)}


def job_annotations(context: Context, model: Job) -> dict[str, str]:
    """Return the annotations of a job's main object, for settings without a Kubernetes field.

    They are not on the pods, so that a changed description restarts nothing.
    """
    annotations = placement_annotation(context, model)
    if model.job.description is not None:
        annotations[context.label("description")] = model.job.description
    if model.resources.share_block is not None:
        annotations[context.label("gpu-share")] = model.resources.share_block.text
    if model.job.checkpoint is not None:
        # On the running object: its progress is saved as this object says, even if a newer document differs.
        text = json.dumps(model.job.checkpoint.data(), ensure_ascii=False)
        annotations[context.label(CHECKPOINT)] = text
    if model.job.notify is not None:
        annotations[context.label(NOTIFY)] = json.dumps(model.job.notify.data())
    if model.kind == "training" and model.job.after:
        annotations[context.label(AFTER)] = json.dumps(model.job.prerequisites)
        # Also without a queue: Kueue's webhook may set the namespace's default queue.
        annotations[ADMISSION_GATES] = GATE
    if model.kind == "training" and model.job.sweep is not None:
        annotations[context.label(SWEEP_VALUES)] = json.dumps(model.job.sweep.values, ensure_ascii=False)
    service = getattr(model, "service", None)
    if service is not None and service.strategy is not None:
        annotations[context.label("strategy")] = service.strategy
    if service is not None and service.timeout is not None:
        annotations[context.label("timeout")] = service.timeout
    if service is not None and service.request_limit is not None:
        annotations[context.label("request-limit")] = str(service.request_limit)
    if service is not None and service.route is not None and context.settings.platform.routes is not None:
        # Commands that read a job show it without reading routes.
        scheme = "https" if context.settings.platform.routes.tls else "http"
        annotations[context.label(URL)] = f"{scheme}://{service.route.host}{service.route.path}"
    if model.kind == "inference" and model.autoscaled and model.autoscaling and model.autoscaling.minReplicas == 0:
        annotations[context.label(SCALES_TO_ZERO)] = "true"
    source = getattr(model, "model", None)
    for field in ("source", "name", "version", "format"):
        value = getattr(source, field, None)
        if value is not None:
            annotations[context.label(f"model-{field}")] = value
    annotations.update(model.job.annotations)
    return annotations


def metadata(
    name: str,
    namespace: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Object:
    """Return ``metadata`` in the usual order, without empty parts."""
    result: Object = {"name": name}
    if namespace is not None:
        result["namespace"] = namespace
    if labels:
        result["labels"] = labels
    if annotations:
        result["annotations"] = annotations
    return result
