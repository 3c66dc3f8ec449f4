"""Logs as answers. Fields are those of ``gpuctl logs -o json``."""

from __future__ import annotations

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class LogLineValue(ApiModel):
    """A line, and whose it is."""

    pod: str = Field(examples=["qwen2-7b-sft-xxxxx-0"])
    container: str = Field(examples=["main"])
    timestamp: str = Field(examples=["2024-06-01T10:06:00.123456789Z"])
    text: str = Field(examples=["2024-06-01 10:06:00 [INFO] Starting training..."])


class LogEvent(LogLineValue):
    """A line as an event: ``base64`` has its bytes if they are not UTF-8, ``ends`` is False for a piece of a line."""

    base64: str | None = None
    ends: bool = True


class LogProblemValue(ApiModel):
    """Why a log, or a part of it, is not shown. ``pod`` is null where it is not about a certain one."""

    pod: str | None = Field(examples=["qwen2-7b-sft-xxxxx-1"])
    message: str = Field(examples=["Pending: ImagePullBackOff: Back-off pulling image"])


class LogBeginning(ApiModel):
    """The first event of a log that is not followed: the pods that have one, and the pods that have none yet."""

    pods: list[str]
    missing: list[LogProblemValue]


class LogNotice(ApiModel):
    """An event about what happens beside the lines."""

    message: str


class LogClosing(ApiModel):
    """The last event: ``code`` is a WebSocket's (RFC 6455)."""

    code: int
    reason: str


class LogsValue(ApiModel):
    """What the pods of a job print."""

    logs: list[str] = Field(
        description="The texts of the lines, in the order of time.",
        examples=[
            [
                "2024-06-01 10:06:00 [INFO] Starting training...",
                "2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87",
            ]
        ],
    )
    last_timestamp: str | None = Field(
        description="When the last of them was written.", examples=["2024-06-01T10:06:30Z"]
    )
    lines: list[LogLineValue] = Field(description="The same lines, with whose they are.")
    problems: list[LogProblemValue] = Field(description="What is not shown, and why.")
