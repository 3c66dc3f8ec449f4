"""Audit lines in the REST API."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class AuditLine(ApiModel):
    """A change, or an attempted one."""

    time: str = Field(examples=["2024-06-01T10:00:00.123Z"])
    caller: str = Field(description='The caller; "" if it was not authenticated.', examples=["anna"])
    action: str = Field(examples=["DELETE /api/v1/jobs/{jobId}"])
    objects: list[str] = Field(
        description="The names of the changed objects.", examples=[["training/qwen2-7b-sft in team-a"]]
    )
    result: str = Field(
        description="HTTP status and name of the error; `begun` while it runs, `interrupted` if it never ended.",
        examples=["200"],
    )
    request_id: str = Field(examples=["4f1c2a9be0d35877"])


class AuditPage(ApiModel):
    """Audit lines, newest first."""

    total: int = Field(examples=[1])
    items: list[AuditLine]
    source: Literal["file", "memory"] = Field(
        description="`file`: the file of the setting `audit`; `memory`: the last lines of the replica that responds.",
        examples=["file"],
    )
    complete: bool = Field(
        description="False if lines may be missing: older ones, those of rotated files, or those of other replicas.",
        examples=[True],
    )
    left_out: int = Field(description="Number of lines that cannot be parsed.", examples=[0])
