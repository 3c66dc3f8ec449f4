"""``kind: pool`` (alias ``resource``): the nodes of a pool and their GPUs."""

from typing import Literal

from pydantic import Field, model_validator

from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    Count,
    DnsLabel,
    GpuProfile,
    LabelValue,
    ObjectName,
    PositiveCount,
    Text,
    empty_dict,
)
from gpuctl.language.placement_block import Placement
from gpuctl.language.sentences import Template, say
from gpuctl.language.workload import Version

SAME_MEANING = Template("a {kind} has `{first}:` and `{second}:`; they mean the same")


class NamedBlock(Block):
    """The name and description of a pool or quota."""

    name: DnsLabel = Field(description="Its name, a DNS label.", examples=["training-pool"])
    description: Text | None = Field(None, description="Free text; kept as an annotation.", examples=["A100 nodes"])


def check_header(kind: str, block: NamedBlock | None, metadata: NamedBlock | None) -> None:
    """Raise an error if a pool or quota has its name neither below its ``kind`` nor below ``metadata``."""
    if block is None and metadata is None:
        raise field_error(
            "GPU201",
            say("missing required block `{name}`", name=kind),
            say("add `{name}:` with a `name:`", name=kind),
            (),
        )


class PoolNode(Block):
    """One node of a pool."""

    gpu_type: LabelValue = Field(
        "",
        alias="gpu-type",
        description="GPU model of the node; empty for a CPU node.",
        examples=["A100-80G"],
    )
    gpu_count: Count | None = Field(
        None,
        alias="gpu-count",
        description="Number of GPUs of the node. With it gpuctl reports before submission that a job cannot fit.",
        examples=[8],
    )
    gpu_profiles: dict[GpuProfile, Count] | None = Field(
        None,
        alias="gpu-profiles",
        description="MIG profile -> number of slices of the node's divided cards. `gpu-count` is then the number of "
        "its other cards.",
        examples=[{"1g.10gb": 56}],
    )


class PoolQuotaBlock(Block):
    """Limits of a pool, checked by gpuctl before anything is submitted."""

    maxJobs: PositiveCount | None = Field(  # noqa: N815
        None, description="Maximum number of unfinished jobs in the pool.", examples=[100]
    )
    maxGpuPerJob: PositiveCount | None = Field(  # noqa: N815
        None, description="Maximum number of GPUs of one job, over all its pods.", examples=[8]
    )


class PoolDocument(Block):
    """A pool of nodes: becomes labels on the nodes and a ConfigMap that holds the definition."""

    exclusions = one_of("pool", "metadata", message=SAME_MEANING, replaces=False)

    kind: Literal["pool"] = Field(description="The kind of document; `resource` is an older name.")
    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    pool: NamedBlock | None = Field(None, description="Name and description.")
    metadata: NamedBlock | None = Field(None, description="The same as `pool:`.")
    nodes: dict[ObjectName, PoolNode] = Field(
        default_factory=empty_dict,
        description="The pool's nodes, by the name that `kubectl get nodes` shows.",
        examples=[{"node-1": {"gpu-type": "A100-80G", "gpu-count": 8}}],
    )
    quota: PoolQuotaBlock | None = Field(None, description="Limits of the pool.")
    placement: Placement | None = Field(
        None,
        description="Clusters of the document. Default: every cluster.",
        examples=[{"clusters": ["prod"]}],
    )

    @model_validator(mode="after")
    def _one_header(self) -> "PoolDocument":
        refuse_exclusions(self, kind=self.kind)
        check_header("pool", self.pool, self.metadata)
        return self

    @property
    def header(self) -> NamedBlock:
        """Name and description, from either of the two keys."""
        header = self.pool or self.metadata
        assert header is not None, "checked by _one_header"
        return header
