"""Details of one job: ``describe job``, and the paths below ``/jobs/{jobId}``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from gpuctl.api.base_models import SharedModel
from gpuctl.api.job_cause_answers import JobCause, job_cause
from gpuctl.api.job_list_answers import JobFields, JobRow
from gpuctl.language.masking import masked
from gpuctl.language.notify_block import parse_notify
from gpuctl.objects.elastic_jobs import node_bounds, node_count
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.reading.jobs.describe_job import JobDetail, JobHistory
from gpuctl.reading.jobs.job_facts import JobFacts
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.schedule_status import end_time, run_phase
from gpuctl.reading.jobs.timeline import Stage


class JobResources(SharedModel):
    """The resource requests of one pod."""

    gpu: int = Field(examples=[4])
    gpu_type: str | None = Field(None, examples=["a100-80g"])
    cpu: int | float | None = Field(None, examples=[32])
    memory: str | None = Field(None, examples=["128Gi"])
    memory_bytes: int | None = Field(None, examples=[137438953472])


class JobRole(SharedModel):
    """A role of a training, and the resource requests of each of its pods."""

    name: str = Field(examples=["worker"])
    pods: int = Field(description="Number of pods.", examples=[3])
    pool: str | None = Field(None, description="The pool that its pods run in.", examples=["training-pool"])
    resources: JobResources


class JobMetrics(SharedModel):
    """The latest measurements; null if not measured."""

    gpu_utilization: float | None = Field(None, examples=[89.2])
    memory_usage: str | None = Field(None, examples=["68Gi/80Gi"])
    network_latency: str | None = Field(None, examples=["1.8ms"])
    throughput: str | None = Field(None, examples=["245 tokens/sec"])


class MetricPoint(BaseModel):
    """A value of a metric, and its time."""

    timestamp: str = Field(examples=["2024-06-01T10:05:00Z"])
    value: float = Field(examples=[75.2])


class JobObjects(SharedModel):
    """The Kubernetes objects of a job."""

    kind: str | None = Field(None, examples=["Job"])
    job_name: str | None = Field(None, examples=["qwen2-7b-sft"])
    pods: list[str] = Field(examples=[["qwen2-7b-sft-x7k2p"]])


class JobPod(JobRow):
    """A pod of the job: a row of ``gpuctl get jobs -o json``, and the number of restarts of its containers."""

    pod: str = Field(description="Name of the pod.", examples=["qwen2-7b-sft-x7k2p"])
    restarts: int = Field(examples=[0])


class ScheduledRun(SharedModel):
    """A run of a scheduled training: a Job."""

    name: str = Field(examples=["nightly-eval-29384640"])
    phase: str = Field(description="succeeded, failed, running or pending.", examples=["succeeded"])
    created_at: str | None = Field(None, examples=["2026-10-01T02:00:00Z"])
    ended_at: str | None = Field(None, examples=["2026-10-01T03:10:00Z"])


class JobSchedule(SharedModel):
    """The schedule of a training, and the runs that are kept, newest first."""

    cron: str = Field(examples=["0 2 * * *"])
    timezone: str | None = Field(None, examples=["Asia/Shanghai"])
    last_run_at: str | None = Field(
        None, description="Time of the last scheduled run.", examples=["2026-10-01T02:00:00Z"]
    )
    next_run_at: str | None = Field(
        None,
        description="Time of the next run; null if the schedule is suspended or never runs, or its cron "
        "expression or time zone is unknown here.",
        examples=["2026-10-02T02:00:00Z"],
    )
    runs: list[ScheduledRun] = Field(examples=[[]])


class ElasticNodes(SharedModel):
    """The number of nodes of an elastic training, and its range."""

    current: int = Field(description="Number of nodes that it should have now.", examples=[3])
    min: int = Field(examples=[2])
    max: int = Field(examples=[4])


class JobBasics(JobFields):
    """A job from its own objects, without events and nodes."""

    version: str | None = Field(None, examples=["v0.1"])
    description: str | None = Field(None, examples=["llama3"])
    yaml_content: str | None = Field(
        None,
        description="The document, without credentials; null if no document describes the changed objects.",
        examples=["kind: training\nversion: v0.1\n..."],
    )
    phase: str = Field(examples=["running"])
    ready: str = Field(description="Ready pods, of the pods that the job should have.", examples=["4/4"])
    priority: str | None = Field(None, examples=["high"])
    resources: JobResources = Field(description="Requests of one pod; of the largest role, if the job has roles.")
    roles: list[JobRole] | None = Field(
        None, description="The roles of a training; null for a job without roles.", examples=[None]
    )
    nodes: ElasticNodes | None = Field(
        None, description="Number of nodes of an elastic training; null for other jobs.", examples=[None]
    )
    metrics: JobMetrics | None = None
    k8s_resources: JobObjects = Field(alias="k8sResources")
    images: list[str] = Field(examples=[["registry.example.com/llama-factory-deepspeed:v0.8.0"]])
    schedule: JobSchedule | None = Field(None, description="Null for a job without a schedule.", examples=[None])
    pods: list[JobPod]

    def as_json(self) -> dict[str, Any]:
        """Return the job without credentials."""
        found: dict[str, Any] = masked(super().as_json())
        return found


class JobDescription(JobBasics):
    """A job, with its document and pods."""

    status: str = Field(description="Phase of the job.", examples=["running"])
    metrics: JobMetrics


class PodStage(SharedModel):
    """A stage that a pod has reached, and the seconds since the previous stage."""

    stage: str = Field(examples=["started"])
    time: str = Field(examples=["2024-06-01T10:05:00Z"])
    seconds: int | float = Field(examples=[12.5])


class PodTimeline(SharedModel):
    """The stages of a pod, in order."""

    pod: str = Field(examples=["qwen2-7b-sft-x7k2p"])
    stages: list[PodStage]


class WorkloadCondition(SharedModel):
    """A condition of the job's main object."""

    type: str | None = Field(None, examples=["Complete"])
    status: str | None = Field(None, examples=["True"])
    reason: str | None = Field(None, examples=["CompletionsReached"])
    message: str | None = Field(None, examples=["Reached expected number of succeeded pods"])
    last_transition_time: str | None = Field(None, examples=["2024-06-01T12:00:00Z"])


class EventsAlike(SharedModel):
    """An event, or several events with the same text."""

    type: str = Field(examples=["Warning"])
    reason: str = Field(examples=["FailedScheduling"])
    object: str = Field(examples=["pod/qwen2-7b-sft-x7k2p"])
    message: str = Field(examples=["0/6 nodes are available: 6 Insufficient nvidia.com/gpu."])
    count: int = Field(examples=[3])
    time: str = Field(examples=["2024-06-01T10:00:05Z"])


class JobTimeline(SharedModel):
    """``GET /jobs/{jobId}/timeline``: the history of a job's pods, conditions and events."""

    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    events: list[EventsAlike] | None = Field(None, description="Null if they may not be read.")

    def as_json(self) -> dict[str, Any]:
        """Return the timeline without credentials."""
        found: dict[str, Any] = masked(super().as_json())
        return found


class JobAddresses(SharedModel):
    """The addresses of a job's route and ports; of ports as ``host:port``."""

    route: str | None = Field(
        None,
        description="The URL of the job's route, from outside the cluster; null if it has none.",
        examples=["https://chat.example.com/v1"],
    )
    node_ports: list[str] = Field([], examples=[["10.0.0.7:30080"]])
    load_balancers: list[str] = Field([], examples=[["203.0.113.5:8000"]])
    cluster_dns: list[str] = Field([], examples=[["chat.team-a.svc:8000"]])
    pod_ips: list[str] = Field([], examples=[["10.244.0.7:8000"]])
    port_forward: str | None = Field(
        None,
        description="The command that forwards a local port; null if nothing listens.",
        examples=["gpuctl port-forward chat 8000 -n team-a"],
    )


class JobNotify(SharedModel):
    """Events of a job that the service reports, and the channels that it names."""

    events: list[str] = Field(examples=[["failed", "waiting 2h"]])
    channels: list[str] = Field(description="Empty: the platform's default channels.", examples=[["nlp-team"]])


class DescribedJob(JobBasics):
    """``gpuctl describe job -o json``, without GPU usage."""

    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    access: JobAddresses
    why: JobCause | None = Field(None, description="The cause that keeps the job waiting; null if none.")
    events: list[EventsAlike] | None = Field(None, description="Null if they may not be read.")
    notify: JobNotify | None = Field(None, description="Events that the service reports; null if none.")

    def as_json(self) -> dict[str, Any]:
        """Return the job without credentials."""
        # A cause masks itself, except for its fixes.
        why = None if self.why is None else self.why.as_json()
        return {**super().as_json(), "why": why}


class JobDetails(DescribedJob):
    """The full description of a job."""

    uid: str | None = Field(
        None,
        description="The uid of the job's main object; null if only pods are left.",
        examples=["4f0b7a52-6a54-4a7e-9d5b-6b0a8c0c1d2e"],
    )
    notes: list[str] = Field([], description="Notes about objects that could not be read.", examples=[[]])


def job_description(job_id: str, facts: JobFacts, metrics: JobMetrics, gpu_type: str | None) -> JobDescription:
    """Return a job in the form of ``GET /jobs/{jobId}``."""
    fields = _basics(facts)
    resources = fields["resources"].model_copy(update={"gpu_type": gpu_type})
    changed = {"job_id": job_id, "status": fields["phase"], "metrics": metrics, "resources": resources}
    return JobDescription(**{**fields, **changed})


def described_job(detail: JobDetail) -> DescribedJob:
    """Return a job in the form of ``describe job``."""
    return DescribedJob(**_details(detail))


def job_details(detail: JobDetail, notes: Iterable[str]) -> JobDetails:
    """Return a job in the form of ``GET /jobs/{jobId}/details``."""
    return JobDetails(**_details(detail), uid=uid_of(detail), notes=list(notes))


def job_timeline(history: JobHistory) -> JobTimeline:
    """Return the timeline of a job."""
    return JobTimeline(**_history(history))


def uid_of(detail: JobDetail) -> str | None:
    """Return the uid of a job's main object; None if only pods are left."""
    workload = detail.job.workload
    return None if workload is None else str(workload["metadata"]["uid"])


def _basics(facts: JobFacts) -> dict[str, Any]:
    """Return the fields of :class:`JobBasics`."""
    workload, row = facts.job.workload, facts.row
    return {
        **dict(JobFields.model_validate(row)),
        "version": (facts.document or {}).get("version"),
        "description": facts.description,
        "yaml_content": facts.text,
        "phase": row.phase,
        "ready": row.ready,
        "priority": row.priority,
        "resources": JobResources.model_validate(facts.resources),
        "roles": [JobRole.model_validate(role) for role in facts.roles] or None,
        "nodes": _nodes(facts.job),
        "started_at": facts.started_at,
        "k8s_resources": JobObjects(
            kind=workload["kind"] if workload is not None else None,
            job_name=workload["metadata"]["name"] if workload is not None else None,
            pods=[pod.pod for pod in facts.pods if pod.pod is not None],
        ),
        "images": facts.images,
        "schedule": _schedule(facts),
        "pods": [JobPod.taken_from(pod, restarts=facts.restarts[pod.pod or ""]) for pod in facts.pods],
    }


def _nodes(job: Job) -> ElasticNodes | None:
    workload = job.active or job.workload
    bounds = None if workload is None else node_bounds(workload)
    if workload is None or bounds is None:
        return None
    current = bounds.most if is_scheduled(workload) else node_count(workload)
    return ElasticNodes(current=current, min=bounds.least, max=bounds.most)


def _schedule(facts: JobFacts) -> JobSchedule | None:
    job, times = facts.job, facts.run_times
    if job.workload is None or times is None:
        return None
    spec = job.workload["spec"]
    runs = [
        ScheduledRun(
            name=run["metadata"]["name"],
            phase=run_phase(run),
            created_at=run["metadata"].get("creationTimestamp"),
            ended_at=end_time(run),
        )
        for run in reversed(job.runs)
    ]
    return JobSchedule(
        cron=spec["schedule"],
        timezone=spec.get("timeZone"),
        last_run_at=times.last,
        next_run_at=times.next,
        runs=runs,
    )


def _details(detail: JobDetail) -> dict[str, Any]:
    """Return the fields of :class:`DescribedJob`."""
    found = detail.access
    history = JobHistory(detail.timeline, detail.conditions, detail.events)
    return {
        **_basics(detail),
        **_history(history),
        "access": JobAddresses(
            route=found.route,
            node_ports=found.nodes,
            load_balancers=found.balancers,
            cluster_dns=found.services,
            pod_ips=found.pods,
            port_forward=found.port_forward,
        ),
        "why": job_cause(detail.answer) if detail.has_trouble else None,
        "notify": _notify(detail.notify),
    }


def _notify(annotation: str | None) -> JobNotify | None:
    notify = parse_notify(annotation)
    return None if notify is None else JobNotify(events=notify.events, channels=notify.channels)


def _history(history: JobHistory) -> dict[str, Any]:
    """Return the fields of :class:`JobTimeline`."""
    events = history.events
    return {
        "timeline": _timelines(history.timeline),
        "conditions": [WorkloadCondition.model_validate(item) for item in history.conditions],
        "events": None if events is None else [EventsAlike.taken_from(item, object=item.about) for item in events],
    }


def _timelines(stages: Mapping[str, Iterable[Stage]]) -> list[PodTimeline]:
    return [PodTimeline(pod=name, stages=list(map(_stage, found))) for name, found in stages.items()]


def _stage(stage: Stage) -> PodStage:
    seconds = int(stage.seconds) if stage.seconds == int(stage.seconds) else stage.seconds
    return PodStage(stage=stage.name, time=stage.time, seconds=seconds)
