"""Lowers ``kind: training`` to a Job, a JobSet, or a CronJob."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend import rendezvous
from gpuctl.backend.canonical_form import lowered_from
from gpuctl.backend.device_claims import claim_templates
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import job_annotations, job_labels, metadata, workload_labels
from gpuctl.backend.pod import pod_template
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_checks import longest_name
from gpuctl.frontend.role_views import role_documents
from gpuctl.language.array_block import Array
from gpuctl.language.names import RENDEZVOUS, shortened
from gpuctl.language.role_block import Role
from gpuctl.language.schedule_block import Schedule
from gpuctl.language.sentences import say
from gpuctl.language.training_document import TrainingDocument
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import parse_duration
from gpuctl.objects.elastic_jobs import COMPLETIONS_FOLLOW, MIN_PARALLELISM
from gpuctl.objects.hashed_names import CHANGEABLE, LOWERED_FROM, SUFFIX, hashed_name, spec_digest
from gpuctl.objects.label_names import SWEEP_SIZE


def lower(context: Context, document: Document, model: TrainingDocument) -> Iterator[Object]:
    """Yield the Job, JobSet or CronJob; on several nodes also a headless Service and, for DeepSpeed, a hostfile."""
    name = model.job.name
    # A CronJob is changed in place.
    if context.options.hashed and model.schedule is None:
        told = len(context.diagnostics)
        name = hashed_name(name, spec_digest(lower_as(context, document, model, name)))
        # Lowering again repeats its diagnostics.
        del context.diagnostics[told:]
        _check_length(context, document, model)
    for obj in lower_as(context, document, model, name):
        if context.options.hashed and obj["kind"] in CHANGEABLE:
            annotations = obj["metadata"].get("annotations", {})
            key = context.label(LOWERED_FROM)
            obj["metadata"]["annotations"] = {**annotations, key: lowered_from(context, document)}
        yield obj


def _check_length(context: Context, document: Document, model: TrainingDocument) -> None:
    longest, reason = longest_name(document, model, context.settings)
    length, left = len(model.job.name), longest - SUFFIX
    if length > left:
        context.report(
            document,
            "GPU217",
            say(
                "the name has {length} characters; a {kind} built for a GitOps controller can have {left} here: "
                "{longest}, because {reason}, less {suffix} for the hash in its objects' names",
                length=length,
                kind=document.kind,
                left=left,
                longest=longest,
                reason=reason,
                suffix=SUFFIX,
            ),
            ("job", "name"),
            say(
                "shorten it, for instance to `{shorter}`, or build with `--job-names plain`",
                shorter=shortened(model.job.name, left),
            ),
        )


def lower_as(context: Context, document: Document, model: TrainingDocument, name: str) -> Iterator[Object]:
    """Yield the objects of a training under a name; labels contain the job's own name."""
    yield from claim_templates(context, document, model, name)
    if any(map(rendezvous.needs_hostfile, model.parts)):
        yield rendezvous.hostfile(context, document, model, name)
    if model.is_jobset(context.settings.platform.training.backend):
        yield _job_set(context, document, model, name)
        return
    if model.resources.max_nodes > 1:
        yield rendezvous.headless_service(context, document, model, name)
    if (schedule := model.schedule_block) is not None:
        yield _cron_job(context, document, model, name, schedule)
        return
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(context, document, model, name),
        "spec": _job_spec(context, document, model, name),
    }


def _cron_job(context: Context, document: Document, model: TrainingDocument, name: str, schedule: Schedule) -> Object:
    """Return a CronJob. Its runs have the labels of the job; only they are in a queue."""
    run: Object = {"labels": workload_labels(context, document, model)}
    if elastic := _queue_range(context, model):
        run["annotations"] = elastic
    labels = job_labels(context, document, model)
    spec: Object = {
        "schedule": schedule.cron,
        "timeZone": schedule.timezone,
        "concurrencyPolicy": schedule.concurrency.capitalize(),
        "successfulJobsHistoryLimit": schedule.keep,
        "failedJobsHistoryLimit": schedule.keep,
    }
    if schedule.start_deadline is not None:
        spec["startingDeadlineSeconds"] = parse_duration(schedule.start_deadline)
    spec["jobTemplate"] = {"metadata": run, "spec": _job_spec(context, document, model, name)}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata(name, document.namespace, labels, job_annotations(context, model)),
        "spec": spec,
    }


def _metadata(context: Context, document: Document, model: TrainingDocument, name: str) -> Object:
    labels = workload_labels(context, document, model)
    annotations = {**job_annotations(context, model), **_queue_range(context, model)}
    if document.first is document:
        # On one job alone: a longer sweep then changes no other.
        annotations[context.label(SWEEP_SIZE)] = str(document.sweep_size)
    return metadata(name, document.namespace, labels, annotations)


def _queue_range(context: Context, model: TrainingDocument) -> dict[str, str]:
    """Return the annotations with which Kueue may start an elastic training with fewer nodes.

    Without a queue there are none: Kueue's webhook refuses to scale a running Job that has them.
    """
    bounds = model.resources.node_range
    if bounds is None or context.settings.queue_of_job(model) is None:
        return {}
    return {MIN_PARALLELISM: str(bounds.min), COMPLETIONS_FOLLOW: "true"}


def _job_spec(context: Context, document: Document, model: TrainingDocument, name: str) -> Object:
    nodes, array = model.resources.max_nodes, model.array_block
    spec: Object = _array_spec(model, array) if array is not None else {"backoffLimit": model.job.retries}
    elastic = model.resources.node_range is not None
    if nodes > 1:
        spec = _indexed_spec(nodes)
    if elastic:
        # After a failure, each pod may have failed once. The end of pod 0 is that of the training: torchrun ends on
        # all nodes together, and a pod that only now finds room would train alone.
        spec["backoffLimit"] = model.job.retries * nodes
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    if nodes == 1 or elastic:
        # With a limit of 0, a preemption by a more urgent job would otherwise fail the training at once.
        condition = {"type": "DisruptionTarget", "status": "True"}
        spec["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
    if model.job.ttl is not None:
        spec["ttlSecondsAfterFinished"] = parse_duration(model.job.ttl)
    spec |= _suspension(context, model)
    spec["template"] = _template(context, document, model, name)
    return spec


def _suspension(context: Context, model: TrainingDocument) -> Object:
    """Return the field that holds back a training with prerequisites. In a queue, an admission gate does."""
    waits = bool(model.job.after) and context.settings.queue_of_job(model) is None
    return {"suspend": True} if waits else {}


def _array_spec(model: TrainingDocument, array: Array) -> Object:
    """Return the fields of a Job whose indexes run, fail and are retried independently of each other."""
    spec: Object = {"backoffLimitPerIndex": model.job.retries if array.retries is None else array.retries}
    if array.max_failed is not None:
        spec["maxFailedIndexes"] = array.max_failed
    spec["completionMode"] = "Indexed"
    spec["completions"] = array.size
    spec["parallelism"] = array.parallelism or array.size
    return spec


def _template(
    context: Context, document: Document, model: TrainingDocument, name: str, role: Role | None = None
) -> Object:
    nodes = model.resources.max_nodes
    pod: Object = {"restartPolicy": "Never"}
    if nodes > 1 and not model.is_jobset(context.settings.platform.training.backend):
        pod["subdomain"] = name
    if model.job.max_runtime is not None:
        # On the pod: a Job's own deadline also runs while the pod waits for GPUs.
        pod["activeDeadlineSeconds"] = parse_duration(model.job.max_runtime)
    job = rendezvous.REPLICATED_JOB if role is None else role.name
    env = rendezvous.environment(context, document, model, name, job)
    ports = []
    if role is not None:
        env += rendezvous.role_environment(context, model, name, role)
        ports += [_port(port.name, port.port) for port in role.ports]
    # A role may name the port itself.
    if nodes > 1 and all(port["containerPort"] != model.job.master_port for port in ports):
        ports.append(_port(RENDEZVOUS, model.job.master_port))
    volumes, mounts = (
        rendezvous.hostfile_volume(name, None if role is None else role.name)
        if rendezvous.needs_hostfile(model)
        else ([], [])
    )
    return pod_template(
        context,
        document,
        model,
        env=env,
        ports=ports,
        volumes=volumes,
        mounts=mounts,
        spec=pod,
        name=name,
    )


def _port(name: str, number: int) -> Object:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _job_set(context: Context, document: Document, model: TrainingDocument, name: str) -> Object:
    """Return a JobSet, which restarts all pods of the training together. A plain Job cannot."""
    spec: Object = {"failurePolicy": {"maxRestarts": model.job.retries}}
    if model.primary:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": list(model.primary)}
    if model.job.ttl is not None:
        spec["ttlSecondsAfterFinished"] = parse_duration(model.job.ttl)
    spec |= _suspension(context, model)
    if model.roles:
        spec["replicatedJobs"] = _role_jobs(context, document, model, name)
    else:
        job = {**_indexed_spec(model.resources.max_nodes), "template": _template(context, document, model, name)}
        spec["replicatedJobs"] = [{"name": rendezvous.REPLICATED_JOB, "replicas": 1, "template": {"spec": job}}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(context, document, model, name),
        "spec": spec,
    }


def _indexed_spec(nodes: int) -> Object:
    return {"backoffLimit": 0, "completionMode": "Indexed", "completions": nodes, "parallelism": nodes}


def _role_jobs(context: Context, document: Document, model: TrainingDocument, name: str) -> list[Object]:
    """Return the replicated Jobs of a JobSet, one for each role."""
    jobs = []
    told = len(context.diagnostics)
    for role, (view, part) in zip(model.roles, role_documents(document, model), strict=True):
        template = _template(context, view, part, name, role)
        job: Object = {"name": role.name, "replicas": 1}
        if role.dependsOn:
            job["dependsOn"] = [{"name": other, "status": "Ready"} for other in role.dependsOn]
        jobs.append({**job, "template": {"spec": {**_indexed_spec(role.nodes), "template": template}}})
    # A problem of what the roles share is reported once.
    context.diagnostics[told:] = list(dict.fromkeys(context.diagnostics[told:]))
    return jobs
