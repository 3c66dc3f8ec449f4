"""Namespaces, with their quotas and pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.node_answers import HoldingPod
from gpuctl.api.quota_answers import Quota
from gpuctl.reading.namespace_rows import Namespace, NamespaceRow
from gpuctl.reading.quota_rows import QuotaState

QuotaForm = TypeVar("QuotaForm")
"""A quota: its name, or the quota itself."""


class NamespaceFields(ApiModel, Generic[QuotaForm]):
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

    @classmethod
    def of(cls, row: NamespaceRow) -> NamespaceItem:
        """Return the JSON model of a row of a list."""
        return cls(**_fields(row), quotas=list(row.quotas))


class NamespaceList(ApiModel):
    """The list of namespaces."""

    items: list[NamespaceItem]
    total: int = Field(examples=[2])

    @classmethod
    def of(cls, rows: Iterable[NamespaceRow]) -> NamespaceList:
        """Return the JSON model of a list of namespaces."""
        items = list(map(NamespaceItem.of, rows))
        return cls(items=items, total=len(items))


class NamespaceContents(NamespaceFields[QuotaForm], Generic[QuotaForm]):
    """A namespace with its pods."""

    labels: dict[str, str] | None = Field(examples=[{"team": "nlp"}])
    running_jobs: list[HoldingPod] = Field(description="Pods on nodes.")
    waiting_jobs: list[HoldingPod] = Field(description="Pods that wait for a node.")


class NamespaceAnswer(NamespaceContents[Quota]):
    """``gpuctl describe namespace -o json``."""

    @classmethod
    def of(cls, namespace: Namespace) -> NamespaceAnswer:
        """Return the JSON model of a namespace."""
        return cls(**_contents(namespace), quotas=list(map(Quota.of, namespace.quotas)))


class NamespaceQuota(Quota):
    """A quota of a namespace."""

    is_managed: bool = Field(description="False for a ResourceQuota that gpuctl has not created.", examples=[True])

    @classmethod
    def of(cls, quota: QuotaState) -> NamespaceQuota:
        """Return the JSON model of a quota."""
        return cls(**dict(Quota.of(quota)), is_managed=quota.is_ours)


class NamespaceDetail(NamespaceContents[NamespaceQuota]):
    """A namespace with its quotas and pods."""

    all_jobs: int = Field(description="Number of jobs, including finished ones.", examples=[4])

    @classmethod
    def of(cls, namespace: Namespace) -> NamespaceDetail:
        """Return the REST model of a namespace."""
        quotas = list(map(NamespaceQuota.of, namespace.quotas))
        return cls(**_contents(namespace), quotas=quotas, all_jobs=namespace.all_jobs)


def _fields(row: NamespaceRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "status": row.status,
        "jobs": row.jobs,
        "pods": row.pods,
        "gpu_used": row.gpu_used,
        "created_at": row.created_at,
    }


def _contents(namespace: Namespace) -> dict[str, Any]:
    return {
        **_fields(namespace.row),
        "labels": namespace.labels,
        "running_jobs": [HoldingPod.of(item) for item in namespace.holders if item.node],
        "waiting_jobs": [HoldingPod.of(item) for item in namespace.holders if not item.node],
    }
