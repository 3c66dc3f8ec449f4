"""Jobs as the REST API has them: the fields of the command line's JSON that it names, with its own id."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from gpuctl_server.mirror.job_board import ListedJob


class JobItem(BaseModel):
    """An item of ``GET /jobs``."""

    jobId: str = Field(examples=["qwen2-7b-sft-4k2p9"])  # noqa: N815 - as the API has it
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    pool: str | None = Field(examples=["training-pool"])
    status: str = Field(examples=["running"])
    reason: str | None = Field(description="More about the status, if there is anything.", examples=[None])
    gpu: int = Field(description="GPUs of all its pods together.", examples=[4])
    gpuType: str | None = Field(examples=["a100-80g"])  # noqa: N815
    createdAt: str | None = Field(examples=["2024-06-01T10:00:00Z"])  # noqa: N815
    startedAt: str | None = Field(examples=["2024-06-01T10:05:00Z"])  # noqa: N815
    progress: int | None = Field(description="Percent, where a training's log says it.", examples=[65])


class JobPage(BaseModel):
    """``GET /jobs``: ``total`` of all pages, ``items`` of this one."""

    total: int = Field(examples=[42])
    items: list[JobItem]


def job_item(item: ListedJob) -> dict[str, Any]:
    """An item of ``GET /jobs``."""
    row = item.row
    return {
        "jobId": item.id,
        "name": row.identity.name,
        "namespace": row.identity.namespace,
        "kind": row.identity.kind,
        "pool": row.pool,
        "status": row.status.phase,
        "reason": row.status.reason or None,
        "gpu": row.gpu,
        "gpuType": row.gpu_type,
        "createdAt": row.created_at,
        "startedAt": row.started_at,
        "progress": None,
    }
