"""The ``resources:`` block: the pool of a pod and its resources."""

from typing import Annotated

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import GpuMemory, Memory, PositiveQuantity, Share
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import one_of
from gpuctl.language.fields import Block, Boolean, Count, DnsLabel, GpuProfile, LabelValue, Nodes, RequiredLabelValue
from gpuctl.language.gpu_share_block import GpuShare
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.network_block import Network
from gpuctl.language.node_range import NodeRange
from gpuctl.language.sentences import Template
from gpuctl.language.topology_block import Topology

GpuType = LabelValue | Annotated[list[RequiredLabelValue], Field(min_length=1, max_length=10)]
"""A GPU type, or several in order of preference."""


class Resources(Block):
    """Resources of each pod. Requests equal limits, so that a job gets exactly what it requests."""

    exclusions = one_of(
        "gpu-profile",
        "gpu-share",
        message=Template("a MIG slice cannot be shared: `gpu-profile` and `gpu-share` both divide a card"),
        hint=Template("keep one of them"),
        at="gpu-profile",
    )

    pool: DnsLabel = Field(
        DEFAULT_POOL,
        description="Pool whose nodes the job runs on. `default` is every node that is in no pool.",
        examples=["training-pool"],
    )
    queue: DnsLabel | None = Field(
        None,
        description="Kueue LocalQueue of the job's namespace. Kueue starts the job when the queue has quota for it: a "
        "training or notebook as a whole, each pod of a service on its own. Default: for trainings the pool's "
        "(`training.queue` of the platform); other jobs start at once.",
        examples=["research"],
    )
    gpu: Count = Field(0, description="GPUs of each node's pod (for several nodes: per node).", examples=[4])
    gpu_type: GpuType | None = Field(
        None,
        alias="gpu-type",
        description="GPU model, as the pool's nodes declare it, or a list of them in order of preference: the pod runs "
        "on the first one with room, as far as the scheduler's other scores allow. Default: any of the pool.",
        examples=["A100-80G", ["H100-80G", "A100-80G"]],
    )
    gpu_memory: GpuMemory | None = Field(
        None,
        alias="gpu-memory",
        description="Least memory of each card, as its driver reports it: often a little less than in the product's "
        "name. Cards of 80 GB report 79.6Gi to 80Gi, so `>=79Gi` or `>=80G` selects them. Needs the platform's "
        "`gpu.allocation: dra`. Default: any.",
        examples=[">=40Gi"],
    )
    gpu_profile: GpuProfile | None = Field(
        None,
        alias="gpu-profile",
        description="MIG profile: each of the `gpu` is a slice of an NVIDIA card with this size, and not a whole card. "
        "It is checked against the profiles of the GPU type. The device plugin needs the MIG strategy `mixed`. "
        "Default: whole cards.",
        examples=["1g.10gb"],
    )
    gpu_share: Share | GpuShare | None = Field(
        None,
        alias="gpu-share",
        description="Part of each card: GPU memory (`2Gi`), a fraction of it (`0.5`, `50%`), or memory and cores. "
        "Enforced only where the platform names a sharing system (`gpu.sharing: hami` or `volcano`); otherwise the pod "
        "gets whole cards and a warning says so.",
        examples=["8Gi", "50%", {"memory": "8Gi", "cores": "30%"}],
    )
    gpu_vendor: DnsLabel | None = Field(
        None,
        alias="gpu-vendor",
        description="GPU vendor: `nvidia`, `amd`, `ascend` or another from the platform's table. Default: the "
        "platform's `gpu.default`, else `nvidia`.",
        examples=["amd"],
    )
    cpu: PositiveQuantity | None = Field(
        None,
        description="CPU cores: `8`, `0.5` or `500m`. Request and limit. Default: none; in a namespace with a quota, "
        "the platform's `quota.defaultRequest` as a request.",
        examples=["8"],
    )
    memory: Memory | None = Field(
        None, description="Memory: `32Gi`. Request and limit. Default: as of `cpu`.", examples=["32Gi"]
    )
    shm: Memory | None = Field(
        None,
        description="Size of /dev/shm. Default with GPUs: half of memory, at most 64Gi (the container default of 64 "
        "MiB is "
        "too small for NCCL and data loaders).",
        examples=["16Gi"],
    )
    spot: Boolean = Field(
        False,
        description="Run on the platform's spot nodes (`spot`), which are cheaper and may be taken away at any time.",
        examples=[True],
    )
    network: Network = Field(
        default_factory=Network.model_construct, description="Network of each pod.", examples=[{"rdma": True}]
    )

    @model_validator(mode="after")
    def _one_division(self) -> "Resources":
        refuse_exclusions(self)
        return self

    @property
    def share_block(self) -> GpuShare | None:
        """The share of a card, with the short form expanded."""
        return GpuShare(memory=self.gpu_share) if isinstance(self.gpu_share, str) else self.gpu_share

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types that it accepts, the preferred ones first; empty for any type."""
        if isinstance(self.gpu_type, list):
            return tuple(dict.fromkeys(self.gpu_type))
        return (self.gpu_type,) if self.gpu_type else ()


class InferenceResources(Resources):
    """Resources of an inference, whose replicas can span nodes."""

    nodes: Nodes = Field(
        1,
        description="Number of nodes of each replica, for models larger than one node. More than one starts that many "
        "pods for each replica with MASTER_ADDR, MASTER_PORT, NNODES and NODE_RANK; the pod with NODE_RANK 0 gets the "
        "requests. Needs the platform's `inference.backend: lws`.",
        examples=[2],
    )


class TrainingResources(Resources):
    """Resources of a training, which can span nodes."""

    nodes: Nodes | NodeRange = Field(
        1,
        description="Number of nodes. More than one starts that many pods with MASTER_ADDR, NODE_RANK and the PET_ "
        "variables that torchrun reads. `{min, max}` makes the training elastic: torchrun continues with the nodes "
        "that there are, and `gpuctl scale` changes their number.",
        examples=[2, {"min": 2, "max": 4}],
    )
    topology: DnsLabel | Topology | None = Field(
        None,
        description="Level of closeness of the nodes, as the platform names it (`topology.levels`), or `host`. `rack` "
        "is short for `{required: rack}`: all pods run in one rack. In a Kueue queue, Kueue chooses a rack with room "
        "for all; its flavors need a Topology with the label. Without a queue, the other pods follow the first one.",
        examples=["rack", {"preferred": "rack"}],
    )

    @property
    def max_nodes(self) -> int:
        """The number of nodes; of an elastic training, the greatest."""
        return self.nodes if isinstance(self.nodes, int) else self.nodes.max

    @property
    def node_range(self) -> NodeRange | None:
        """The range of nodes of an elastic training; None for a fixed number."""
        return None if isinstance(self.nodes, int) else self.nodes

    @property
    def topology_block(self) -> Topology | None:
        """The topology, with the short form expanded."""
        return Topology(required=self.topology) if isinstance(self.topology, str) else self.topology
