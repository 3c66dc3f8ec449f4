"""The answers to questions about jobs: those of the command line's ``-o json``."""

from __future__ import annotations

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class WaitItem(ApiModel):
    """The result of waiting for a job."""

    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str | None = Field(examples=["team-a"])
    kind: str | None = Field(examples=["training"])
    condition: str = Field(examples=["done"])
    met: bool = Field(examples=[True])
    message: str = Field(examples=["training/qwen2-7b-sft has succeeded"])
    status: str | None = Field(examples=["succeeded"])
    reason: str | None = Field(examples=[None])


class WaitAnswer(ApiModel):
    """``gpuctl wait -o json``."""

    items: list[WaitItem]
