"""Quotas. Amounts are cores, bytes and counts; the use is null until the cluster has computed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, RootModel

from gpuctl.api.base_models import ApiModel
from gpuctl.api.json_values import number
from gpuctl.reading.quota_rows import QuotaState, ResourceLimit


class QuotaLimit(ApiModel):
    """One limit. `resource`: Kubernetes' key; `name`: the short name."""

    resource: str = Field(examples=["requests.nvidia.com/gpu"])
    name: str = Field(examples=["gpu"])
    vendor: str | None = Field(examples=["nvidia"])
    gpu_type: str | None = Field(
        description="The GPU type that is limited; null for all types together.", examples=["A100-80G"]
    )
    unit: str = Field(examples=["count"])
    total: int | float = Field(examples=[4])
    used: int | float | None = Field(examples=[2])
    free: int | float | None = Field(examples=[2])
    used_percent: float | None = Field(examples=[50.0])

    @classmethod
    def of(cls, limit: ResourceLimit) -> QuotaLimit:
        """Return the JSON model of a limit."""
        return cls(
            resource=limit.resource,
            name=limit.name,
            vendor=limit.vendor,
            gpu_type=limit.gpu_type,
            unit=limit.unit,
            total=number(limit.total),
            used=number(limit.used),
            free=number(limit.free),
            used_percent=limit.percent,
        )


class Quota(ApiModel):
    """The quota of a user, which is a namespace."""

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
        description="The requests of containers that set none.", examples=[{"cpu": "1"}]
    )
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])

    @classmethod
    def of(cls, quota: QuotaState) -> Quota:
        """Return the JSON model of a quota."""
        amounts = {}
        for name, total, used in (
            ("cpu", "cpu_total", "cpu_used"),
            ("memory", "memory_total_bytes", "memory_used_bytes"),
            ("gpu", "gpu_total", "gpu_used"),
            ("jobs", "max_jobs", "jobs_used"),
        ):
            amounts[total], amounts[used] = map(number, quota.amount(name))
        return cls(
            name=quota.name,
            namespace=quota.namespace,
            description=quota.description,
            status=quota.status,
            **amounts,
            resources=list(map(QuotaLimit.of, quota.limits)),
            default_request=quota.defaults,
            created_at=quota.created_at,
        )


class QuotaList(ApiModel):
    """The list of quotas."""

    items: list[Quota]
    total: int = Field(examples=[2])

    @classmethod
    def of(cls, quotas: Iterable[QuotaState]) -> QuotaList:
        """Return the JSON model of a list of quotas."""
        items = list(map(Quota.of, quotas))
        return cls(items=items, total=len(items))


class QuotaOrQuotas(RootModel[Quota | QuotaList]):
    """The quota of a user; with the name of a quota's document, those of all its users."""


def quota_answer(quotas: Sequence[QuotaState]) -> Quota | QuotaList:
    """Return the JSON of ``describe quota``: one quota, or a list if the name stands for several users."""
    return Quota.of(quotas[0]) if len(quotas) == 1 else QuotaList.of(quotas)
