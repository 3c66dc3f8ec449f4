"""Nodes and their GPUs: ``get`` and ``describe`` of nodes and GPU types, and the same paths of the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer

from gpuctl.api.base_models import ApiModel
from gpuctl.api.json_values import number
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.quantities import format_amount
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import GpuStatus, NodeDetails, NodeStatus


class HoldingPod(ApiModel):
    """A pod that runs on a node, or waits for one."""

    pod: str = Field(examples=["qwen2-7b-sft-x7k2p"])
    name: str = Field(description="Name of its job.", examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str | None = Field(description="Null for a pod that gpuctl does not manage.", examples=["training"])
    gpu: int = Field(examples=[4])
    node: str | None = Field(alias="nodeName", examples=["node-1"])


class JobOnNodes(ApiModel):
    """A job with pods in a pool or on a node. `jobId` and `kind` are null for pods that gpuctl does not manage."""

    job_id: str | None = Field(examples=["qwen2-7b-sft-k3x9q"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str | None = Field(examples=["training"])
    gpu: int = Field(description="GPUs that it holds in the pool or on the node.", examples=[4])


Holder = TypeVar("Holder", HoldingPod, JobOnNodes)


class NodeItem(ApiModel):
    """A node of a list."""

    name: str = Field(alias="nodeName", examples=["node-1"])
    status: NodeStatus = Field(examples=["active"])
    gpu_total: int = Field(examples=[8])
    gpu_used: int | None = Field(examples=[4])
    gpu_free: int | None = Field(examples=[4])
    bound_pools: list[str] = Field(examples=[["training-pool"]])
    cpu: str = Field(description="Allocatable CPU, cores.", examples=["64"])
    memory: str = Field(description="Allocatable memory.", examples=["256Gi"])
    gpu_type: str | None = Field(examples=["a100-80g"])
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])
    address: str | None = Field(None, description="Internal address of the node.", examples=["10.0.0.7"])
    kubernetes: str | None = Field(
        None, alias="k8sState", description="Its state in kubectl's words.", examples=["Ready,SchedulingDisabled"]
    )
    free_slices: dict[str, int] = Field(
        {},
        description="MIG profile -> slices that the driver (DRA) can still create on the node's cards, if it creates "
        "none of another profile. Omitted if there are none.",
        examples=[{"1g.10gb": 5}],
    )

    def as_json(self) -> dict[str, Any]:
        """Return the node as JSON; most nodes have no slices."""
        value = super().as_json()
        return value if self.free_slices else {key: item for key, item in value.items() if key != "freeSlices"}

    @property
    def pool(self) -> str:
        """Return the pool of the node."""
        return self.bound_pools[0]


class NodePage(ApiModel):
    """A page of nodes; `total` counts all pages."""

    total: int = Field(examples=[5])
    items: list[NodeItem]


class NodeConditions(ApiModel):
    """The status of a node in Kubernetes; conditions, taints and addresses in Kubernetes' form."""

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

    @classmethod
    def of(cls, node: NodeDetails) -> NodeConditions:
        """Return the Kubernetes status of a node."""
        status, spec = node.object.get("status") or {}, node.object.get("spec") or {}
        info = status.get("nodeInfo") or {}
        return cls(
            conditions=status.get("conditions") or [],
            schedulable=not node.is_cordoned,
            taints=spec.get("taints") or [],
            addresses=status.get("addresses") or [],
            kernel_version=info.get("kernelVersion"),
            os_image=info.get("osImage"),
            architecture=info.get("architecture"),
            kubelet_version=info.get("kubeletVersion"),
            container_runtime_version=info.get("containerRuntimeVersion"),
        )


class NodeResources(ApiModel):
    """The resources of a node: total, requested by pods, and free. Cores are numbers, memory is a quantity."""

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

    @classmethod
    def of(cls, node: NodeDetails) -> NodeResources:
        """Return the resources of a node."""
        cpu, memory = (_total_used_free(node, name) for name in ("cpu", "memory"))
        cores = [number(amount) for amount in cpu]
        sizes = [None if amount is None else format_amount("memory", amount) for amount in memory]
        return cls(
            cpu_total=cores[0] or 0,
            cpu_used=cores[1],
            cpu_free=cores[2],
            memory_total=sizes[0] or "0",
            memory_used=sizes[1],
            memory_free=sizes[2],
            gpu_total=node.gpu_total,
            gpu_used=node.gpu_used,
            gpu_free=node.gpu_free,
            gpu_unhealthy=node.broken_gpus,
        )


def _total_used_free(node: NodeDetails, resource: str) -> tuple[Fraction, Fraction | None, Fraction | None]:
    total, used = node.amount(resource)
    return total, used, None if used is None else max(Fraction(0), total - used)


class NodeAmount(ApiModel):
    """A resource of a node: cores, bytes or a count. `vendor` is null for resources other than GPUs."""

    resource: str = Field(examples=["nvidia.com/gpu"])
    vendor: str | None = Field(examples=["nvidia"])
    total: int | float = Field(description="Allocatable amount.", examples=[8])
    used: int | float | None = Field(
        description="Amount that pods request; null if pods may not be read.", examples=[4]
    )

    @classmethod
    def of(cls, node: NodeDetails, gpus: PlatformGpus) -> list[NodeAmount]:
        """Return the GPUs of a node by vendor, its cores and memory, and its other extended resources."""
        cards = [name for name in node.total if name in gpus.vendors]
        others = sorted(name for name in node.total if "/" in name and name not in cards)
        return [
            cls(resource=name, vendor=gpus.vendors.get(name), total=number(total) or 0, used=number(used))
            for name in (*cards, "cpu", "memory", *others)
            for total, used in [node.amount(name)]
        ]


class NodeGpu(ApiModel):
    """A GPU of a node. `utilization` (percent) and `memoryUsage` are null if not measured."""

    name: str = Field(alias="gpuId", examples=["gpu-0"])
    type: str | None = Field(examples=["a100-80g"])
    status: GpuStatus = Field(examples=["used"])
    utilization: float | None = Field(None, examples=[89.2])
    memory: str | None = Field(None, alias="memoryUsage", examples=["72Gi/80Gi"])


class LabelPair(ApiModel):
    """A label."""

    key: str = Field(examples=["nvidia.com/gpu-type"])
    value: str = Field(examples=["a100-80g"])


def _label_mapping(labels: Mapping[str, str] | list[dict[str, str]]) -> Mapping[str, str]:
    return labels if isinstance(labels, Mapping) else {item["key"]: item["value"] for item in labels}


def _label_pairs(labels: Mapping[str, str]) -> list[LabelPair]:
    return [LabelPair(key=key, value=value) for key, value in labels.items()]


Labels = Annotated[
    dict[str, str], BeforeValidator(_label_mapping), PlainSerializer(_label_pairs, return_type=list[LabelPair])
]
"""Labels: a mapping in Python, a list of pairs in JSON."""


class NodeFields(ApiModel, Generic[Holder]):
    """The fields of one node that the command line and the REST API share."""

    node_name: str = Field(examples=["node-1"])
    status: NodeStatus = Field(examples=["active"])
    gpu_type: str | None = Field(examples=["a100-80g"])
    k8s_status: NodeConditions = Field(alias="k8sStatus")
    resources: NodeResources
    gpu_detail: list[NodeGpu]
    labels: Labels
    bound_pools: list[str] = Field(examples=[["training-pool"]])
    running_jobs: list[Holder] | None = Field(description="Jobs on it that the caller may see.")
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])
    last_updated_at: str | None = Field(examples=["2024-06-02T14:30:00Z"])
    gpu_labels: Labels = Field({}, description="Labels of the node that name a GPU type; jobs select by the first one.")
    amounts: list[NodeAmount] = Field([], description="All resources for pods: GPUs, cores, memory, other devices.")


class NodeDetail(NodeFields[JobOnNodes]):
    """A node."""

    pods: list[HoldingPod] | None = Field(None, description="The pods of `runningJobs`.")


class NodeReport(NodeFields[HoldingPod]):
    """A node in ``gpuctl describe node``; its jobs are listed as pods."""

    @classmethod
    def of(cls, node: NodeDetails, gpus: PlatformGpus) -> NodeReport:
        """Return a node with its pods."""
        conditions = (node.object.get("status") or {}).get("conditions") or []
        heartbeats = [item["lastHeartbeatTime"] for item in conditions if item.get("lastHeartbeatTime")]
        return cls(
            node_name=node.name,
            status=node.status,
            gpu_type=node.gpu_type,
            k8s_status=NodeConditions.of(node),
            resources=NodeResources.of(node),
            gpu_detail=node.gpus,
            labels=dict(sorted(labels_of(node.object).items())),
            bound_pools=node.bound_pools,
            running_jobs=node.holders,
            created_at=node.created_at,
            last_updated_at=max(heartbeats, default=None),
            gpu_labels=node.gpu_labels,
            amounts=NodeAmount.of(node, gpus),
        )

    @property
    def k8s_state(self) -> str:
        """Return the node's state in kubectl's words."""
        ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in self.k8s_status.conditions)
        return ("Ready" if ready else "NotReady") + ("" if self.k8s_status.schedulable else ",SchedulingDisabled")

    @property
    def address(self) -> str | None:
        """Return the node's address inside the cluster."""
        found = (item["address"] for item in self.k8s_status.addresses if item.get("type") == "InternalIP")
        return next(found, None)


class GpusOfNode(ApiModel):
    """The GPUs of a node."""

    name: str = Field(alias="nodeName", examples=["node-1"])
    gpu_count: int = Field(examples=[8])
    gpus: list[NodeGpu]


class GpuPage(ApiModel):
    """A page of nodes with GPUs; `total` counts all pages."""

    total: int = Field(examples=[5])
    items: list[GpusOfNode]


class GpuTypeItem(ApiModel):
    """A GPU type: the number of GPUs, and their nodes and pools. Use is null if pods may not be read."""

    name: str = Field(
        alias="gpuType", description="`unknown` for GPUs of nodes without a label for it.", examples=["a100-80g"]
    )
    vendors: list[str] = Field(examples=[["nvidia"]])
    total: int = Field(alias="gpuTotal", examples=[24])
    used: int | None = Field(alias="gpuUsed", description="GPUs that pods request.", examples=[16])
    free: int | None = Field(alias="gpuFree", description="GPUs that no pod requests.", examples=[8])
    nodes: list[str] = Field(examples=[["node-1", "node-2"]])
    pools: list[str] = Field(alias="boundPools", examples=[["training-pool"]])


class GpuTypeList(ApiModel):
    """The GPU types of the nodes."""

    total: int = Field(examples=[3])
    items: list[GpuTypeItem]
