"""Pools: ``get`` and ``describe`` of pools, and the same paths of the REST API."""

from __future__ import annotations

from typing import Annotated, Generic

from pydantic import BeforeValidator, Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.node_answers import Holder, HoldingPod, JobOnNodes
from gpuctl.reading.nodes.pool_rows import PoolStatus


class PoolQuota(ApiModel):
    """The limits of a pool; null: no limit."""

    max_jobs: int | None = Field(examples=[100])
    max_gpu_per_job: int | None = Field(examples=[8])


class PoolCounts(ApiModel):
    """The GPUs of a pool; null if pods may not be read."""

    name: str = Field(examples=["training-pool"])
    description: str | None = Field(examples=["Pool for training models"])
    gpu_total: int = Field(examples=[32])
    gpu_used: int | None = Field(description="GPUs that pods on its nodes request.", examples=[16])
    gpu_free: int | None = Field(description="GPUs that no pod requests.", examples=[16])
    gpu_unavailable: int | None = Field(description="Free GPUs of nodes that are cordoned or not ready.", examples=[0])


class PoolItem(PoolCounts):
    """A pool of a list. GPUs are null if pods may not be read."""

    gpu_types: Annotated[list[str], BeforeValidator(list)] = Field(alias="gpuType", examples=[["a100-80g", "a100-40g"]])
    status: PoolStatus = Field(examples=["active"])


class PoolList(ApiModel):
    """Pools."""

    total: int = Field(examples=[2])
    items: list[PoolItem]


class PoolFields(PoolCounts, Generic[Holder]):
    """The fields of one pool that the command line and the REST API share."""

    gpu_types: dict[str, int] = Field(
        alias="gpuType", description="GPU type -> number of GPUs.", examples=[{"a100-80g": 24, "a100-40g": 8}]
    )
    status: PoolStatus = Field(examples=["active"])
    nodes: list[str] = Field(examples=[["node-1", "node-2", "node-3"]])
    quota: PoolQuota
    jobs: list[Holder] | None = Field(description="Jobs in it that the caller may see.")
    missing: list[str] = Field(
        alias="missingNodes",
        description="Nodes of its definition that are not in the pool.",
        examples=[["node-9"]],
    )
    waiting: list[Holder] | None = Field(alias="waitingJobs", description="Jobs of the pool that wait.")
    is_defined: bool = Field(description="True if it has a definition; false if it only has nodes.", examples=[True])


class PoolDetail(PoolFields[JobOnNodes]):
    """A pool."""

    pods: list[HoldingPod] | None = Field(None, description="The pods of `jobs`.")
    waiting_pods: list[HoldingPod] | None = Field(None, description="The pods of `waitingJobs`.")


class PoolReport(PoolFields[HoldingPod]):
    """A pool in ``gpuctl describe pool``; its jobs are listed as pods."""


class ListedPool(PoolItem):
    """A pool of ``gpuctl get pools -o json``; GPU types without their counts."""

    nodes: list[str]
    quota: PoolQuota
    jobs: list[HoldingPod] | None
