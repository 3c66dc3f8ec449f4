"""Pools and nodes as answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpuctl.api.base_models import ApiModel

NodeStatus = Literal["active", "maintaining", "faulty"]
GpuStatus = Literal["used", "free", "faulty", "unknown"]


class JobOnNodes(ApiModel):
    """A job that holds room of a pool or node. `jobId` and `kind` are null for pods that are no job of gpuctl's."""

    job_id: str | None = Field(examples=["qwen2-7b-sft-k3x9q"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str | None = Field(examples=["training"])
    gpu: int = Field(description="GPUs that it holds there.", examples=[4])


class PoolItem(ApiModel):
    """A pool in a list. GPUs are null where pods may not be read."""

    name: str = Field(examples=["training-pool"])
    description: str | None = Field(examples=["Pool for training models"])
    gpu_total: int = Field(examples=[32])
    gpu_used: int | None = Field(description="GPUs that pods on its nodes request.", examples=[16])
    gpu_free: int | None = Field(description="GPUs that no pod requests.", examples=[16])
    gpu_unavailable: int | None = Field(description="Free GPUs of nodes that are cordoned or not ready.", examples=[0])
    gpu_type: list[str] = Field(examples=[["a100-80g", "a100-40g"]])
    status: Literal["active", "maintaining", "faulty", "empty"] = Field(examples=["active"])


class PoolList(ApiModel):
    """Pools."""

    total: int = Field(examples=[2])
    items: list[PoolItem]


class PoolQuota(ApiModel):
    """What a pool allows its jobs; null: anything."""

    max_jobs: int | None = Field(examples=[100])
    max_gpu_per_job: int | None = Field(examples=[8])


class PoolDetail(ApiModel):
    """A pool."""

    name: str = Field(examples=["training-pool"])
    description: str | None = Field(examples=["Pool for training models"])
    nodes: list[str] = Field(examples=[["node-1", "node-2", "node-3"]])
    gpu_total: int = Field(examples=[32])
    gpu_used: int | None = Field(examples=[16])
    gpu_free: int | None = Field(examples=[16])
    gpu_unavailable: int | None = Field(examples=[0])
    gpu_type: dict[str, int] = Field(description="Type -> GPUs.", examples=[{"a100-80g": 24, "a100-40g": 8}])
    status: Literal["active", "maintaining", "faulty", "empty"] = Field(examples=["active"])
    quota: PoolQuota
    jobs: list[JobOnNodes] | None = Field(description="Jobs in it, of those that may be seen.")
    missing_nodes: list[str] = Field(
        description="Nodes that its definition names and that are not in it.", examples=[["node-9"]]
    )
    waiting_jobs: list[JobOnNodes] | None = Field(description="Jobs of it that wait for room.")
    is_defined: bool = Field(description="Whether it has a definition, or only nodes.", examples=[True])


class NodeItem(ApiModel):
    """A node in a list."""

    node_name: str = Field(examples=["node-1"])
    status: NodeStatus = Field(examples=["active"])
    gpu_total: int = Field(examples=[8])
    gpu_used: int | None = Field(examples=[4])
    gpu_free: int | None = Field(examples=[4])
    bound_pools: list[str] = Field(examples=[["training-pool"]])
    cpu: str = Field(description="Cores that pods can have.", examples=["64"])
    memory: str = Field(description="Memory that pods can have.", examples=["256Gi"])
    gpu_type: str | None = Field(examples=["a100-80g"])
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])


class NodePage(ApiModel):
    """A page of nodes; `total` of all pages."""

    total: int = Field(examples=[5])
    items: list[NodeItem]


class NodeConditions(ApiModel):
    """A node as Kubernetes has it; conditions, taints and addresses in its own form."""

    conditions: list[dict[str, Any]] = Field(
        examples=[[{"type": "Ready", "status": "True", "lastHeartbeatTime": "2024-06-02T14:30:00Z"}]]
    )
    schedulable: bool = Field(examples=[True])
    taints: list[dict[str, Any]] = Field(examples=[[{"key": "gpu", "effect": "NoSchedule"}]])
    addresses: list[dict[str, Any]] = Field(examples=[[{"type": "InternalIP", "address": "10.0.0.7"}]])
    kernel_version: str | None = Field(examples=["5.4.0-1090-ubuntu"])
    os_image: str | None = Field(examples=["Ubuntu 20.04 LTS"])
    architecture: str | None = Field(examples=["amd64"])
    kubelet_version: str | None = Field(examples=["v1.30.2"])
    container_runtime_version: str | None = Field(examples=["containerd://1.7.18"])


class NodeResources(ApiModel):
    """What pods can have of a node, what of it they request, and the rest. Cores are numbers, memory quantities."""

    cpu_total: int | float = Field(examples=[64])
    cpu_used: int | float | None = Field(examples=[32])
    cpu_free: int | float | None = Field(examples=[32])
    memory_total: str = Field(examples=["256Gi"])
    memory_used: str | None = Field(examples=["128Gi"])
    memory_free: str | None = Field(examples=["128Gi"])
    gpu_total: int = Field(examples=[8])
    gpu_used: int | None = Field(examples=[4])
    gpu_free: int | None = Field(examples=[4])
    gpu_unhealthy: int = Field(examples=[0])


class NodeGpu(ApiModel):
    """A GPU of a node; `utilization` in percent, null where nothing measures it."""

    gpu_id: str = Field(examples=["gpu-0"])
    type: str | None = Field(examples=["a100-80g"])
    status: GpuStatus = Field(examples=["used"])
    utilization: float | None = Field(examples=[89.2])


class LabelPair(ApiModel):
    """A label."""

    key: str = Field(examples=["nvidia.com/gpu-type"])
    value: str = Field(examples=["a100-80g"])


class NodeDetail(ApiModel):
    """A node."""

    node_name: str = Field(examples=["node-1"])
    status: NodeStatus = Field(examples=["active"])
    gpu_type: str | None = Field(examples=["a100-80g"])
    k8s_status: NodeConditions = Field(alias="k8sStatus")
    resources: NodeResources
    gpu_detail: list[NodeGpu]
    labels: list[LabelPair]
    bound_pools: list[str] = Field(examples=[["training-pool"]])
    running_jobs: list[JobOnNodes] | None = Field(description="Jobs on it, of those that may be seen.")
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])
    last_updated_at: str | None = Field(examples=["2024-06-02T14:30:00Z"])


class MeasuredGpu(NodeGpu):
    """A GPU of a node, with the use of its memory."""

    memory_usage: str | None = Field(examples=["72Gi/80Gi"])


class GpusOfNode(ApiModel):
    """The GPUs of a node."""

    node_name: str = Field(examples=["node-1"])
    gpu_count: int = Field(examples=[8])
    gpus: list[MeasuredGpu]


class GpuPage(ApiModel):
    """A page of nodes that have GPUs; `total` of all pages."""

    total: int = Field(examples=[5])
    items: list[GpusOfNode]
