"""Jobs as answers."""

from __future__ import annotations

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class JobItem(ApiModel):
    """An item of ``GET /jobs``."""

    job_id: str = Field(examples=["qwen2-7b-sft-4k2p9"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    pool: str | None = Field(examples=["training-pool"])
    status: str = Field(examples=["running"])
    reason: str | None = Field(description="More about the status, if there is anything.", examples=[None])
    gpu: int = Field(description="GPUs of all its pods together.", examples=[4])
    gpu_type: str | None = Field(examples=["a100-80g"])
    created_at: str | None = Field(examples=["2024-06-01T10:00:00Z"])
    started_at: str | None = Field(examples=["2024-06-01T10:05:00Z"])
    applied_by: str | None = Field(description="Who applied it last, as far as it is known.", examples=["anna"])
    progress: int | None = Field(description="Percent, where a training's log says it.", examples=[65])
    object_name: str = Field(
        description="The name of its main object: with a hash if a GitOps controller applies the job.",
        examples=["qwen2-7b-sft"],
    )


class JobPage(ApiModel):
    """``GET /jobs``: ``total`` of all pages, ``items`` of this one."""

    total: int = Field(examples=[42])
    items: list[JobItem]


class JobResources(ApiModel):
    """What one pod asks for."""

    gpu: int = Field(examples=[4])
    gpu_type: str | None = Field(examples=["a100-80g"])
    cpu: float | None = Field(examples=[32])
    memory: str | None = Field(examples=["128Gi"])


class JobMetrics(ApiModel):
    """The newest measurements; null where nothing measures it."""

    gpu_utilization: float | None = Field(examples=[89.2])
    memory_usage: str | None = Field(examples=["68Gi/80Gi"])
    network_latency: str | None = Field(examples=["1.8ms"])
    throughput: str | None = Field(examples=["245 tokens/sec"])


class JobObjects(ApiModel):
    """What the job is in Kubernetes."""

    kind: str | None = Field(examples=["Job"])
    job_name: str | None = Field(examples=["qwen2-7b-sft"])
    pods: list[str] = Field(examples=[["qwen2-7b-sft-x7k2p"]])


class JobPod(ApiModel):
    """A pod of the job: a row of ``gpuctl get jobs -o json``, and how often its containers were restarted."""

    job_id: str = Field(description="The job's id.", examples=["qwen2-7b-sft-4k2p9"])
    pod: str = Field(description="The pod's name.", examples=["qwen2-7b-sft-x7k2p"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    status: str = Field(examples=["Running"])
    phase: str = Field(examples=["running"])
    ready: str = Field(examples=["1/1"])
    node: str | None = Field(examples=["node-1"])
    ip: str | None = Field(examples=["10.0.0.7"])
    created_at: str | None = Field(examples=["2024-06-01T10:00:00Z"])
    started_at: str | None = Field(examples=["2024-06-01T10:05:00Z"])
    pool: str | None = Field(examples=["training-pool"])
    gpu: int = Field(examples=[4])
    gpu_type: str | None = Field(examples=["a100-80g"])
    priority: str | None = Field(examples=["high"])
    applied_by: str | None = Field(description="Who applied the job last.", examples=["anna"])
    reason: str | None = Field(examples=[None])
    restarts: int = Field(examples=[0])


class JobDescription(ApiModel):
    """``GET /jobs/{jobId}``."""

    job_id: str = Field(examples=["qwen2-7b-sft-4k2p9"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    version: str | None = Field(examples=["v0.1"])
    description: str | None = Field(examples=["llama3"])
    yaml_content: str | None = Field(
        description="The document, without credentials; null where somebody made of its objects what none says.",
        examples=["kind: training\nversion: v0.1\n..."],
    )
    status: str = Field(examples=["running"])
    reason: str | None = Field(examples=[None])
    ready: str = Field(description="Pods that are ready, of those that there are to be.", examples=["4/4"])
    pool: str | None = Field(examples=["training-pool"])
    priority: str | None = Field(examples=["high"])
    applied_by: str | None = Field(description="Who applied it last, as far as it is known.", examples=["anna"])
    resources: JobResources
    metrics: JobMetrics
    created_at: str | None = Field(examples=["2024-06-01T10:00:00Z"])
    started_at: str | None = Field(examples=["2024-06-01T10:05:00Z"])
    k8s_resources: JobObjects = Field(alias="k8sResources")
    images: list[str] = Field(examples=[["registry.example.com/llama-factory-deepspeed:v0.8.0"]])
    pods: list[JobPod]
