"""Quotas as answers. Amounts are cores, bytes and pieces; use is null until the cluster has counted it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, RootModel

from gpuctl.api.base_models import ApiModel


class QuotaLimit(ApiModel):
    """One limit: `resource` is Kubernetes' key, `name` the short one."""

    resource: str = Field(examples=["requests.nvidia.com/gpu"])
    name: str = Field(examples=["gpu"])
    vendor: str | None = Field(examples=["nvidia"])
    unit: str = Field(examples=["count"])
    total: int | float = Field(examples=[4])
    used: int | float | None = Field(examples=[2])
    free: int | float | None = Field(examples=[2])
    used_percent: float | None = Field(examples=[50.0])


class Quota(ApiModel):
    """The quota of a user, who is a namespace."""

    name: str = Field(examples=["team-resource-quota"])
    namespace: str = Field(examples=["elon-musk"])
    description: str | None = Field(examples=["Quotas of the team"])
    status: Literal["ok", "full"] = Field(examples=["ok"])
    cpu_total: int | float | None = Field(examples=[10])
    cpu_used: int | float | None = Field(examples=[4])
    memory_total_bytes: int | float | None = Field(examples=[21474836480])
    memory_used_bytes: int | float | None = Field(examples=[8589934592])
    gpu_total: int | float | None = Field(examples=[4])
    gpu_used: int | float | None = Field(examples=[2])
    max_jobs: int | float | None = Field(examples=[20])
    jobs_used: int | float | None = Field(examples=[3])
    resources: list[QuotaLimit]
    default_request: dict[str, str] = Field(
        description="What containers that request nothing count as.", examples=[{"cpu": "1"}]
    )
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])


class QuotaList(ApiModel):
    """Quotas."""

    total: int = Field(examples=[2])
    items: list[Quota]


class QuotaOrQuotas(RootModel[Quota | QuotaList]):
    """The quota of a user, or by the name of a quota's document those of all its users."""
