"""The answers to questions about jobs: those of the command line's ``-o json``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel


class WhyEvidence(ApiModel):
    """What speaks for a cause."""

    source: str = Field(examples=["event"])
    object: str = Field(examples=["pod/qwen2-7b-sft-x7k2p"])
    text: str = Field(examples=["0/6 nodes are available: 6 Insufficient nvidia.com/gpu."])
    time: str | None = Field(examples=["2024-06-01T10:00:05Z"])


class OtherCause(ApiModel):
    """A cause that comes after the first."""

    cause: str = Field(examples=["image-not-found"])
    message: str = Field(examples=["the image app:v9 cannot be pulled"])
    pod: str | None = Field(examples=["qwen2-7b-sft-x7k2p"])
    fix: str | None = Field(examples=["correct environment.image"])


class WhyAnswer(ApiModel):
    """``gpuctl why -o json``."""

    job: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    cause: str = Field(examples=["gpu-shortage"])
    message: str = Field(examples=["8 GPUs are asked for, and 2 of training-pool are free"])
    pod: str | None = Field(examples=["qwen2-7b-sft-x7k2p"])
    numbers: dict[str, Any] = Field(description="What the cause rests on; each has its own.", examples=[{"free": 2}])
    ruled_out: list[str] = Field(examples=[["the quota of team-a has room"]])
    fix: str | None = Field(examples=["ask for 2 GPUs, or wait"])
    evidence: list[WhyEvidence]
    also: list[OtherCause]
    notes: list[str] = Field(description="What could not be looked at.", examples=[[]])


class PodStage(ApiModel):
    """A stage that a pod has reached, and the seconds since the one before."""

    stage: str = Field(examples=["started"])
    time: str = Field(examples=["2024-06-01T10:05:00Z"])
    seconds: float = Field(examples=[12.5])


class PodTimeline(ApiModel):
    """The stages of a pod, in their order."""

    pod: str = Field(examples=["qwen2-7b-sft-x7k2p"])
    stages: list[PodStage]


class WorkloadCondition(ApiModel):
    """A condition of what runs the job."""

    type: str | None = Field(examples=["Complete"])
    status: str | None = Field(examples=["True"])
    reason: str | None = Field(examples=["CompletionsReached"])
    message: str | None = Field(examples=["Reached expected number of succeeded pods"])
    last_transition_time: str | None = Field(examples=["2024-06-01T12:00:00Z"])


class EventsAlike(ApiModel):
    """An event, or several of the same words."""

    type: str = Field(examples=["Warning"])
    reason: str = Field(examples=["FailedScheduling"])
    object: str = Field(examples=["pod/qwen2-7b-sft-x7k2p"])
    message: str = Field(examples=["0/6 nodes are available: 6 Insufficient nvidia.com/gpu."])
    count: int = Field(examples=[3])
    time: str = Field(examples=["2024-06-01T10:00:05Z"])


class JobTimeline(ApiModel):
    """What ``gpuctl describe job -o json`` has of a job's history."""

    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    events: list[EventsAlike] | None = Field(description="Null where they may not be read.")


class WaitItem(ApiModel):
    """What came of waiting for a job."""

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
