"""Jobs as the REST API has them: the fields of the command line's JSON that it names, with its own id."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from gpuctl.answers.job_answers import job_facts_value
from gpuctl.language.masking import masked
from gpuctl.reading.job_facts import JobFacts
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service import Service

Metrics = dict[str, Any]


class JobItem(BaseModel):
    """An item of ``GET /jobs``."""

    jobId: str = Field(examples=["qwen2-7b-sft-4k2p9"])  # noqa: N815 - as the API has it
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    pool: str | None = Field(examples=["training-pool"])
    status: str = Field(examples=["running"])
    reason: str | None = Field(description="More about the status, if there is anything.", examples=[None])
    gpu: int = Field(description="GPUs of all its pods together.", examples=[4])
    gpuType: str | None = Field(examples=["a100-80g"])  # noqa: N815
    createdAt: str | None = Field(examples=["2024-06-01T10:00:00Z"])  # noqa: N815
    startedAt: str | None = Field(examples=["2024-06-01T10:05:00Z"])  # noqa: N815
    progress: int | None = Field(description="Percent, where a training's log says it.", examples=[65])


class JobPage(BaseModel):
    """``GET /jobs``: ``total`` of all pages, ``items`` of this one."""

    total: int = Field(examples=[42])
    items: list[JobItem]


class JobResources(BaseModel):
    """What one pod asks for."""

    gpu: int = Field(examples=[4])
    gpuType: str | None = Field(examples=["a100-80g"])  # noqa: N815
    cpu: float | None = Field(examples=[32])
    memory: str | None = Field(examples=["128Gi"])


class JobMetrics(BaseModel):
    """The newest measurements; null where nothing measures it."""

    gpuUtilization: float | None = Field(examples=[89.2])  # noqa: N815
    memoryUsage: str | None = Field(examples=["68Gi/80Gi"])  # noqa: N815
    networkLatency: str | None = Field(examples=["1.8ms"])  # noqa: N815
    throughput: str | None = Field(examples=["245 tokens/sec"])


class JobObjects(BaseModel):
    """What the job is in Kubernetes."""

    kind: str | None = Field(examples=["Job"])
    jobName: str | None = Field(examples=["qwen2-7b-sft"])  # noqa: N815
    pods: list[str] = Field(examples=[["qwen2-7b-sft-x7k2p"]])


class JobPod(BaseModel):
    """A pod of the job: a row of ``gpuctl get jobs -o json``, and how often its containers were restarted."""

    jobId: str = Field(description="The pod's name.", examples=["qwen2-7b-sft-x7k2p"])  # noqa: N815
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    status: str = Field(examples=["Running"])
    phase: str = Field(examples=["running"])
    ready: str = Field(examples=["1/1"])
    node: str | None = Field(examples=["node-1"])
    ip: str | None = Field(examples=["10.0.0.7"])
    createdAt: str | None = Field(examples=["2024-06-01T10:00:00Z"])  # noqa: N815
    startedAt: str | None = Field(examples=["2024-06-01T10:05:00Z"])  # noqa: N815
    pool: str | None = Field(examples=["training-pool"])
    gpu: int = Field(examples=[4])
    gpuType: str | None = Field(examples=["a100-80g"])  # noqa: N815
    priority: str | None = Field(examples=["high"])
    reason: str | None = Field(examples=[None])
    restarts: int = Field(examples=[0])


class JobDescription(BaseModel):
    """``GET /jobs/{jobId}``."""

    jobId: str = Field(examples=["qwen2-7b-sft-4k2p9"])  # noqa: N815
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    version: str | None = Field(examples=["v0.1"])
    description: str | None = Field(examples=["llama3"])
    yamlContent: str | None = Field(  # noqa: N815
        description="The document, without credentials; null where somebody made of its objects what none says.",
        examples=["kind: training\nversion: v0.1\n..."],
    )
    status: str = Field(examples=["running"])
    reason: str | None = Field(examples=[None])
    ready: str = Field(description="Pods that are ready, of those that there are to be.", examples=["4/4"])
    pool: str | None = Field(examples=["training-pool"])
    priority: str | None = Field(examples=["high"])
    resources: JobResources
    metrics: JobMetrics
    createdAt: str | None = Field(examples=["2024-06-01T10:00:00Z"])  # noqa: N815
    startedAt: str | None = Field(examples=["2024-06-01T10:05:00Z"])  # noqa: N815
    k8sResources: JobObjects  # noqa: N815
    images: list[str] = Field(examples=[["registry.example.com/llama-factory-deepspeed:v0.8.0"]])
    pods: list[JobPod]


def job_item(item: ListedJob, progress: int | None) -> dict[str, Any]:
    """An item of ``GET /jobs``; ``progress`` in percent."""
    row = item.row
    return {
        "jobId": item.id,
        "name": row.identity.name,
        "namespace": row.identity.namespace,
        "kind": row.identity.kind,
        "pool": row.pool,
        "status": row.status.phase,
        "reason": row.status.reason or None,
        "gpu": row.gpu,
        "gpuType": row.gpu_type,
        "createdAt": row.created_at,
        "startedAt": row.started_at,
        "progress": progress,
    }


def job_description(identity: str, facts: JobFacts, metrics: Metrics) -> dict[str, Any]:
    """``GET /jobs/{jobId}``, without credentials; ``identity`` is the jobId."""
    value = job_facts_value(facts)
    value |= {"jobId": identity, "status": value.pop("phase"), "metrics": metrics}
    value["resources"] = {key: value["resources"][key] for key in ("gpu", "gpuType", "cpu", "memory")}
    found: dict[str, Any] = masked(value)
    return found


def newest_metrics(service: Service, item: ListedJob) -> Metrics:
    """What was measured of a job last, for its description; null where nothing measures it. Does not wait."""
    return dict.fromkeys(JobMetrics.model_fields)
