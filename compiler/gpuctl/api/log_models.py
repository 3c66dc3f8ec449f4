"""Logs in the REST API. The fields are those of ``gpuctl logs -o json``."""

from __future__ import annotations

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class LogLineValue(ApiModel):
    """A line, with its pod and container."""

    pod: str = Field(examples=["qwen2-7b-sft-xxxxx-0"])
    container: str = Field(examples=["main"])
    timestamp: str = Field(examples=["2024-06-01T10:06:00.123456789Z"])
    text: str = Field(examples=["2024-06-01 10:06:00 [INFO] Starting training..."])


class LogProblemValue(ApiModel):
    """The reason why a log, or a part of it, is missing. ``pod`` is null if the reason concerns no particular pod."""

    pod: str | None = Field(examples=["qwen2-7b-sft-xxxxx-1"])
    message: str = Field(examples=["Pending: ImagePullBackOff: Back-off pulling image"])


class LogsValue(ApiModel):
    """The logs of a job's pods."""

    logs: list[str] = Field(
        description="The texts of the lines, ordered by time.",
        examples=[
            [
                "2024-06-01 10:06:00 [INFO] Starting training...",
                "2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87",
            ]
        ],
    )
    last_timestamp: str | None = Field(description="The time of the last line.", examples=["2024-06-01T10:06:30Z"])
    lines: list[LogLineValue] = Field(description="The same lines, with pod and container.")
    problems: list[LogProblemValue] = Field(description="Pods whose log could not be read, with the reason.")
