"""Quotas. Amounts are cores, bytes and counts; the use is null until the cluster has computed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field, RootModel, model_validator

from gpuctl.api.base_models import Amount, SharedModel
from gpuctl.reading.queues.quota_rows import QuotaState, TotalAndUsed, total_and_used


class QuotaLimit(SharedModel):
    """One limit. `resource`: Kubernetes' key; `name`: the short name."""

    resource: str = Field(examples=["requests.nvidia.com/gpu"])
    name: str = Field(examples=["gpu"])
    vendor: str | None = Field(examples=["nvidia"])
    gpu_type: str | None = Field(
        None, description="The GPU type that is limited; null for all types together.", examples=["A100-80G"]
    )
    unit: str = Field(examples=["count"])
    total: Amount = Field(examples=[4])
    used: Amount | None = Field(examples=[2])
    free: Amount | None = Field(examples=[2])
    percent: float | None = Field(alias="usedPercent", examples=[50.0])


class Quota(SharedModel):
    """The quota of a user, which is a namespace."""

    name: str = Field(examples=["team-resource-quota"])
    namespace: str = Field(examples=["elon-musk"])
    description: str | None = Field(examples=["Quotas of the team"])
    status: Literal["ok", "full"] = Field(examples=["ok"])
    cpu_total: Amount | None = Field(examples=[10])
    cpu_used: Amount | None = Field(examples=[4])
    memory_total_bytes: Amount | None = Field(examples=[21474836480])
    memory_used_bytes: Amount | None = Field(examples=[8589934592])
    gpu_total: Amount | None = Field(examples=[4])
    gpu_used: Amount | None = Field(examples=[2])
    max_jobs: Amount | None = Field(examples=[20])
    jobs_used: Amount | None = Field(examples=[3])
    limits: list[QuotaLimit] = Field(alias="resources")
    defaults: dict[str, str] = Field(
        alias="defaultRequest", description="The requests of containers that set none.", examples=[{"cpu": "1"}]
    )
    scopes: list[str] = Field(
        [],
        description="The scopes of the ResourceQuota, which limits only pods that are in all of them; [] if it limits "
        "all pods.",
        examples=[["PriorityClass in (high)"]],
    )
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])

    @model_validator(mode="before")
    @classmethod
    def _with_sums(cls, value: Any) -> Any:
        if not isinstance(value, QuotaState):
            return value
        fields = {**vars(value), "status": value.status, "is_managed": value.is_ours}
        for name, total, used in (
            ("cpu", "cpu_total", "cpu_used"),
            ("memory", "memory_total_bytes", "memory_used_bytes"),
            ("gpu", "gpu_total", "gpu_used"),
            ("jobs", "max_jobs", "jobs_used"),
        ):
            fields[total], fields[used] = value.amount(name)
        return fields

    @property
    def is_ours(self) -> bool:
        """Return True if gpuctl has created it: only such quotas are listed."""
        return True

    def amount(self, name: str) -> TotalAndUsed:
        """Return total and use of the limits with a name; (None, None) without such a limit."""
        return total_and_used(self.limits, name)


class QuotaList(SharedModel):
    """The list of quotas."""

    items: list[Quota]
    total: int = Field(examples=[2])

    @classmethod
    def of(cls, quotas: Iterable[QuotaState | Quota]) -> QuotaList:
        """Return the JSON model of a list of quotas."""
        items = list(map(Quota.model_validate, quotas))
        return cls(items=items, total=len(items))


class QuotaOrQuotas(RootModel[Quota | QuotaList]):
    """The quota of a user; with the name of a quota's document, those of all its users."""


def quota_answer(quotas: Sequence[QuotaState | Quota]) -> Quota | QuotaList:
    """Return the JSON of ``describe quota``: one quota, or a list if the name stands for several users."""
    return Quota.model_validate(quotas[0]) if len(quotas) == 1 else QuotaList.of(quotas)
