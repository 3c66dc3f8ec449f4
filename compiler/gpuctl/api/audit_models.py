"""Lines of the audit as answers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class AuditLine(ApiModel):
    """A write, or the attempt of one."""

    time: str = Field(examples=["2024-06-01T10:00:00.123Z"])
    caller: str = Field(description='Who asked; "" where nobody was recognised.', examples=["anna"])
    action: str = Field(examples=["DELETE /api/v1/jobs/{jobId}"])
    objects: list[str] = Field(
        description="The names of the objects that it changed.", examples=[["training/qwen2-7b-sft in team-a"]]
    )
    result: str = Field(
        description="The status, and the name of the error; `begun` while it goes on, `interrupted` without an end.",
        examples=["200"],
    )
    request_id: str = Field(examples=["4f1c2a9be0d35877"])


class AuditPage(ApiModel):
    """Lines of the audit, the newest first."""

    total: int = Field(examples=[1])
    items: list[AuditLine]
    source: Literal["file", "memory"] = Field(
        description="`file`: the setting `audit`; `memory`: the last lines of the replica that answers.",
        examples=["file"],
    )
    complete: bool = Field(
        description="Whether nothing is known to be missing: older lines, those of files that were rotated away, those "
        "of other replicas.",
        examples=[True],
    )
    left_out: int = Field(description="Lines that cannot be read.", examples=[0])
