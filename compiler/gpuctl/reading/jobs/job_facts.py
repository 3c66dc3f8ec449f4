"""Facts about a job from its own objects: document, requests, images, restarts and progress."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuctl.backend.emitter import emit_object
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.kube.scope import Scope
from gpuctl.language.masking import masked
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import SERVICES, Object, annotations_of, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.role_jobs import has_role, pools_of
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.objects.workload_start import not_started
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.job_rows import (
    JobTableRow,
    PlatformKeys,
    gpus_of_spec,
    job_row,
    platform_keys,
    pod_row,
    with_claimed_gpus,
)
from gpuctl.reading.jobs.schedule_status import RunTimes, run_times
from gpuctl.reading.jobs.timeline import timeline
from gpuctl.reading.nodes.node_gpus import selected_gpu_type


@dataclass(frozen=True)
class JobFacts:
    """A job without the information from events, nodes and logs.

    :param run_times: of a scheduled training, else None.
    :param begun: start time of the first container, RFC 3339; None if no container has started.
    :param document: the job as a document; None if its objects cannot be converted back into one.
    """

    job: Job
    row: JobTableRow
    pods: list[JobTableRow]
    restarts: dict[str, int]
    begun: str | None
    document: dict[str, Any] | None
    description: str | None
    resources: dict[str, Any]
    roles: list[dict[str, Any]]
    images: list[str]
    run_times: RunTimes | None

    @property
    def text(self) -> str | None:
        """Return the document as YAML, with credentials masked."""
        return emit_object(masked(self.document)) if self.document is not None else None

    @property
    def started_at(self) -> str | None:
        """Return when the first container started; if the pods are gone, when the controller started the job."""
        return self.begun or (None if self.pods or self.row.state.phase == "pending" else self.row.started_at)

    @property
    def conditions(self) -> list[Object]:
        """Return the conditions of the workload."""
        return conditions_of(self.job)


def read_facts(scope: Scope, job: Job, keys: Records, settings: Settings) -> JobFacts:
    """Return the facts of a job, with its Services and autoscaler. Add a note if they may not be listed."""
    local = Scope(scope.session, job.identity.namespace)
    services = services_of(local, job, keys)
    scalers: list[Object] = []
    if job.workload is not None and job.workload["kind"] in SERVICES:
        why = "its target is unknown"
        scalers = local.all_if_allowed("HorizontalPodAutoscaler", labels=own_labels(job, keys), why=why) or []
    for note in local.notes:
        scope.note(note)
    names = with_claimed_gpus(platform_keys(settings, keys), scope, [job]).by_clock_of(scope.session)
    return job_facts(job, services, scaler_of(scalers, job), names, settings)


def job_facts(
    job: Job, services: Iterable[Object], scaler: Object | None, names: PlatformKeys, settings: Settings
) -> JobFacts:
    """Return the facts that objects contain.

    :param services: the job's Services.
    :param scaler: the autoscaler of the job's workload.
    """
    row = job_row(job, names)
    identity, workload = job.identity, job.workload
    # An autoscaler with another name was not created from the document.
    own = [scaler] if scaler is not None and scaler["metadata"]["name"] == identity.name else []
    templates = _templates(job)
    images = [item.get("image") for pod in templates for item in (pod.get("spec") or {}).get("containers") or []]
    stages = [stage for pod in job.pods for stage in timeline(pod, ())]
    return JobFacts(
        job,
        row,
        [pod_row(pod, identity, names, row.uid, workload) for pod in job.pods],
        {pod["metadata"]["name"]: _restarts(pod) for pod in job.pods},
        min((stage.time for stage in stages if stage.name == "started"), default=None),
        None if workload is None else _document(workload, [*services, *own], settings),
        annotations_of(workload).get(settings.label("description")) if workload is not None else None,
        _resources(next(iter(templates), {}), identity.namespace, names),
        _roles(job, names),
        list(dict.fromkeys(filter(None, images))),
        run_times(workload, time.time() + names.ahead) if workload and is_scheduled(workload) else None,
    )


def conditions_of(job: Job) -> list[Object]:
    """Return the conditions of a job's workload."""
    return list(((job.workload or {}).get("status") or {}).get("conditions") or [])


def own_labels(job: Job, keys: Records) -> str:
    """Return the label selector of a job's objects."""
    return f"app={job.identity.name},{keys.job_type}={job.identity.kind}"


def services_of(scope: Scope, job: Job, keys: Records) -> list[Object]:
    """Return the Services of a job. ``scope`` is limited to the job's namespace."""
    return scope.all_if_allowed("Service", labels=own_labels(job, keys), why=say("its addresses are unknown")) or []


def scaler_of(scalers: Iterable[Object], job: Job) -> Object | None:
    """Return the autoscaler that targets a job's workload, whatever its name."""
    if job.workload is None:
        return None
    wanted = (job.workload["kind"], job.workload["metadata"]["name"])
    for item in scalers:
        target = (item.get("spec") or {}).get("scaleTargetRef") or {}
        if (target.get("kind"), target.get("name")) == wanted:
            return item
    return None


def _templates(job: Job) -> list[Object]:
    """Return the pod templates, those with the most replicas first."""
    if job.workload is None:
        return job.pods[-1:]
    templates = pod_templates(not_started(job.workload))
    return [template for template, _ in sorted(templates, key=lambda item: -item[1])]


def _roles(job: Job, names: PlatformKeys) -> list[dict[str, Any]]:
    """Return name, number of pods and requests of each role of a training; empty for other jobs."""
    if job.workload is None or job.workload["kind"] != "JobSet":
        return []
    roles = [item["name"] for item in job.workload["spec"]["replicatedJobs"]]
    return [
        {
            "name": role,
            "pods": pods,
            "pool": next(iter(pools_of(template, names.keys.pool)), None),
            "resources": _resources(template, job.identity.namespace, names),
        }
        for role, (template, pods) in zip(roles, pod_templates(job.workload), strict=True)
        if has_role(template.get("spec") or {})
    ]


def _resources(template: Object, namespace: str, names: PlatformKeys) -> dict[str, Any]:
    """Return the requests of one pod in the terms of a document. ``memory`` is text in the form of the REST API."""
    spec = template.get("spec") or {}
    asked = pod_requests(spec) if spec else {}
    cpu, memory = asked.get("cpu"), asked.get("memory")
    return {
        "gpu": gpus_of_spec(spec, namespace, names),
        "gpuType": selected_gpu_type(spec, names.gpu_type),
        "cpu": None if cpu is None else int(cpu) if cpu.denominator == 1 else float(cpu),
        "memory": None if memory is None else format_amount("memory", memory),
        "memoryBytes": None if memory is None else int(memory),
    }


def _restarts(pod: Object) -> int:
    return sum(int(item.get("restartCount") or 0) for item in (pod.get("status") or {}).get("containerStatuses") or [])


def _document(workload: Object, companions: Iterable[Object], settings: Settings) -> dict[str, Any] | None:
    # Imported late: it loads the compiler.
    from gpuctl.backend.lift import lift

    try:
        documents = lift([workload, *companions], settings)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        # Lift understands what gpuctl lowers; a workload may have been changed into any form.
        return None
    wanted = labels_of(workload).get(settings.label("job-type"))
    return next((item for item in documents if item.get("kind") == wanted), None)
