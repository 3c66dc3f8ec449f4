"""Namespaces, with their quotas and pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from pydantic import Field

from gpuctl.api.base_models import SharedModel
from gpuctl.api.node_answers import HoldingPod
from gpuctl.api.quota_answers import Quota
from gpuctl.reading.queues.namespace_rows import NamespaceRow

QuotaForm = TypeVar("QuotaForm")
"""A quota: its name, or the quota itself."""


class NamespaceFields(SharedModel, Generic[QuotaForm]):
    """Fields of every response about a namespace."""

    name: str = Field(examples=["team-a"])
    status: str | None = Field(examples=["Active"])
    jobs: int = Field(description="Unfinished jobs.", examples=[3])
    pods: int = Field(examples=[5])
    gpu_used: int = Field(examples=[12])
    quotas: list[QuotaForm]
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])


class NamespaceItem(NamespaceFields[str]):
    """A namespace."""

    quotas: list[str] = Field(examples=[["team-resource-quota"]])


class NamespaceList(SharedModel):
    """The list of namespaces."""

    items: list[NamespaceItem]
    total: int = Field(examples=[2])

    @classmethod
    def of(cls, rows: Iterable[NamespaceRow | NamespaceItem]) -> NamespaceList:
        """Return the JSON model of a list of namespaces."""
        items = list(map(NamespaceItem.model_validate, rows))
        return cls(items=items, total=len(items))


class NamespaceContents(NamespaceFields[QuotaForm], Generic[QuotaForm]):
    """A namespace with its pods."""

    labels: dict[str, str] | None = Field(examples=[{"team": "nlp"}])
    running_jobs: list[HoldingPod] = Field(description="Pods on nodes.")
    waiting_jobs: list[HoldingPod] = Field(description="Pods that wait for a node.")


class NamespaceAnswer(NamespaceContents[Quota]):
    """``gpuctl describe namespace -o json``."""


class NamespaceQuota(Quota):
    """A quota of a namespace."""

    is_managed: bool = Field(description="False for a ResourceQuota that gpuctl has not created.", examples=[True])

    @property
    def is_ours(self) -> bool:
        """Return True if gpuctl has created it."""
        return self.is_managed


class NamespaceDetail(NamespaceContents[NamespaceQuota]):
    """A namespace with its quotas and pods."""

    all_jobs: int = Field(description="Number of jobs, including finished ones.", examples=[4])
