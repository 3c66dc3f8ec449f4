"""The answers to questions about jobs: those of the command line's ``-o json``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpuctl_server.models.shapes import Answer


class WhyEvidence(Answer):
    """What speaks for a cause."""

    source: str = Field(examples=["event"])
    object: str = Field(examples=["pod/qwen2-7b-sft-x7k2p"])
    text: str
    time: str | None


class OtherCause(Answer):
    """A cause that comes after the first."""

    cause: str
    message: str
    pod: str | None
    fix: str | None


class WhyAnswer(Answer):
    """``gpuctl why -o json``."""

    job: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    cause: str = Field(examples=["gpu-shortage"])
    message: str
    pod: str | None
    numbers: dict[str, Any]
    ruled_out: list[str]
    fix: str | None
    evidence: list[WhyEvidence]
    also: list[OtherCause]
    notes: list[str] = Field(description="What could not be looked at.")


class PodStage(Answer):
    """A stage that a pod has reached, and the seconds since the one before."""

    stage: str = Field(examples=["started"])
    time: str = Field(examples=["2024-06-01T10:05:00Z"])
    seconds: float


class PodTimeline(Answer):
    """The stages of a pod, in their order."""

    pod: str
    stages: list[PodStage]


class WorkloadCondition(Answer):
    """A condition of what runs the job."""

    type: str | None
    status: str | None
    reason: str | None
    message: str | None
    last_transition_time: str | None


class EventsAlike(Answer):
    """An event, or several of the same words."""

    type: str
    reason: str
    object: str
    message: str
    count: int
    time: str


class JobTimeline(Answer):
    """What ``gpuctl describe job -o json`` has of a job's history."""

    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    events: list[EventsAlike] | None = Field(description="Null where they may not be read.")


class WaitItem(Answer):
    """What came of waiting for a job."""

    name: str
    namespace: str | None
    kind: str | None
    condition: str = Field(examples=["done"])
    met: bool
    message: str
    status: str | None
    reason: str | None


class WaitAnswer(Answer):
    """``gpuctl wait -o json``."""

    items: list[WaitItem]


class FitJob(Answer):
    """Whether a job finds room."""

    name: str
    namespace: str
    kind: str
    verdict: str = Field(description="fits, preempts, fits-when-empty, never or unknown.", examples=["fits"])
    victims: list[dict[str, Any]]
    victims_certain: bool
    pods: int
    starting_pods: int
    need: dict[str, Any]
    free: dict[str, Any]
    largest_node: dict[str, Any] | None
    held_by: list[dict[str, Any]]
    reason: str
    smallest_change: str | None


class FitAnswer(Answer):
    """``gpuctl fit -o json``."""

    jobs: list[FitJob]
    notes: list[str] = Field(description="What is not taken into account.")


class NamespaceItem(Answer):
    """A namespace."""

    name: str = Field(examples=["team-a"])
    status: str | None = Field(examples=["Active"])
    jobs: int = Field(description="Jobs that have not ended.")
    pods: int
    gpu_used: int
    quotas: list[str]
    created_at: str | None


class NamespaceList(Answer):
    """``gpuctl get namespaces -o json``."""

    total: int
    items: list[NamespaceItem]
