"""The answers to questions about jobs: those of the command line's ``-o json``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.quota_models import Quota


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


class DocumentCommit(ApiModel):
    """The commit that a document was applied from."""

    id: str = Field(examples=["9f2c1e07ab3d4c5e6f708192a3b4c5d6e7f80912"])
    dirty: bool = Field(description="Whether its files differed from it.", examples=[False])
    repository: str | None = Field(examples=["git.example.com/team-a/jobs"])


class JobDocument(ApiModel):
    """A document of a job as it was applied, without credentials."""

    revision: int = Field(examples=[3])
    kind: str = Field(examples=["inference"])
    created_at: str | None = Field(examples=["2024-06-01T10:00:00Z"])
    who: str | None = Field(examples=["ann"])
    commit: DocumentCommit | None
    gpuctl: str = Field(description="The version that applied it.", examples=["0.1.0"])
    cause: str = Field(description="`applied`, `rolled back`, or `found` in the cluster.", examples=["applied"])
    to: int | None = Field(description="The revision that was gone back to.", examples=[None])
    changes: list[dict[str, Any]] = Field(
        description="Of each field in which it differs from the one before `path`, `from` and `to`.",
        examples=[[{"path": "environment.image", "from": "app:v1", "to": "app:v2"}]],
    )
    masked: list[str] = Field(description="Fields whose values are not kept.", examples=[["environment.env.TOKEN"]])


class JobDocuments(ApiModel):
    """``gpuctl history -o json``: the newest first."""

    name: str = Field(examples=["chat"])
    namespace: str = Field(examples=["team-a"])
    items: list[JobDocument]
    total: int = Field(examples=[3])
    notes: list[str] = Field(description="What is marked as history, and was passed over.", examples=[[]])


class JobRevision(JobDocument):
    """A document of a job's history, whole."""

    document: dict[str, Any] = Field(examples=[{"kind": "inference", "version": "v0.1", "job": {"name": "chat"}}])


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


class FitVictim(ApiModel):
    """A pod that would be evicted. All those whom the caller may not see are one."""

    namespace: str = Field(examples=["team-b"])
    name: str = Field(examples=["llama3-pretrain-8c4fn"])
    job: str = Field(examples=["llama3-pretrain"])
    node: str | None = Field(description="Null where several on different nodes are told as one.", examples=["node-1"])
    priority: int | None = Field(description="Null where several are told as one.", examples=[1000])
    likelihood: float | None = Field(
        description="1 if this pod is evicted in any case; null if another pod may be evicted instead.",
        examples=[1.0],
    )


class FitEnding(ApiModel):
    """Work that ends."""

    namespace: str = Field(examples=["team-b"])
    job: str = Field(examples=["Job/llama3-pretrain"])
    ends_by: str | None = Field(
        description="When it has left its nodes at the latest; null where several are told as one.",
        examples=["2026-01-01T14:05:00Z"],
    )


class FitOpening(ApiModel):
    """When a job that finds no room now will find some."""

    by: str = Field(description="At the latest, by the API server's clock.", examples=["2026-01-01T14:05:00Z"])
    taken_at: str = Field(description="When the cluster was looked at.", examples=["2026-01-01T10:45:00Z"])
    after: list[FitEnding] = Field(description="What has to end before, the first to end first.")


class FitSuggestion(ApiModel):
    """A change of a document with which its job would fit now and evict nobody."""

    kind: str = Field(
        description="less memory, less cpu, fewer GPUs, another GPU type, another pool, more nodes of fewer GPUs, or "
        "fewer nodes.",
        examples=["fewer GPUs"],
    )
    changes: list[dict[str, Any]] = Field(
        description="What to write where: `path`, `from`, `to`; `file`, `line` and `column` of what stands there now.",
        examples=[
            [{"path": "resources.gpu", "from": 8, "to": 4, "file": "yamlContent", "line": 9, "column": 8}],
        ],
    )


class FitJob(ApiModel):
    """Whether a job finds room. Amounts have their units in the names: `cpuCores`, `memoryBytes`, `nvidia.com/gpu`."""

    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    verdict: str = Field(description="fits, preempts, fits-when-empty, never or unknown.", examples=["fits"])
    victims: list[FitVictim]
    victims_certain: bool = Field(description="Whether it is known that it is just these.", examples=[True])
    pods: int = Field(examples=[2])
    starting_pods: int = Field(examples=[2])
    held_by_starting_pods: dict[str, int | float] = Field(
        description="What the pods that start hold while the others of their job have no room.",
        examples=[{"nvidia.com/gpu": 24}],
    )
    need: dict[str, Any] = Field(
        description="Of all pods; in `perPod` of one.",
        examples=[{"nvidia.com/gpu": 8, "cpuCores": 16, "perPod": {"nvidia.com/gpu": 4, "cpuCores": 8}}],
    )
    free: dict[str, int | float] = Field(examples=[{"nvidia.com/gpu": 16, "cpuCores": 96.5}])
    largest_node: dict[str, Any] | None = Field(
        description="The node with the most room, by `name`, and what is free of it.",
        examples=[{"name": "node-2", "nvidia.com/gpu": 8}],
    )
    held_by: list[dict[str, Any]] = Field(
        description="Who holds what is short: `namespace`, `job`, `priority`, `pods`, and how much.",
        examples=[[{"namespace": "team-b", "job": "wide", "priority": 0, "pods": 2, "nvidia.com/gpu": 8}]],
    )
    reason: str = Field(examples=["both pods find room"])
    admitted: bool | None = Field(
        description="Whether its queue of Kueue gives it quota now; null without a queue, and where that is unknown.",
        examples=[None],
    )
    opening: FitOpening | None = Field(description="When it will find room, where that is known.")
    smallest_change: str | None = Field(examples=[None])
    certain: bool = Field(
        description="Whether verdict, pods and victims are these whatever the scheduler chooses.", examples=[True]
    )
    likelihood: float | None = Field(
        description="1 if no other order of pods changes the verdict; null if that is not known.",
        examples=[1.0],
    )
    suggestions: list[FitSuggestion] = Field(
        [], description="With `suggest`, of a job that does not fit: the smallest change of each kind."
    )


class FitAnswer(ApiModel):
    """``gpuctl fit -o json``."""

    jobs: list[FitJob]
    notes: list[str] = Field(description="What is not taken into account.", examples=[[]])


class NamespaceItem(ApiModel):
    """A namespace."""

    name: str = Field(examples=["team-a"])
    status: str | None = Field(examples=["Active"])
    jobs: int = Field(description="Jobs that have not ended.", examples=[3])
    pods: int = Field(examples=[5])
    gpu_used: int = Field(examples=[12])
    quotas: list[str] = Field(examples=[["team-resource-quota"]])
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])


class NamespaceQuota(Quota):
    """A quota of a namespace."""

    is_managed: bool = Field(description="False for a ResourceQuota that gpuctl did not make.", examples=[True])


class PodInNamespace(ApiModel):
    """A pod that holds room on a node, or waits for some."""

    pod: str = Field(examples=["qwen2-7b-sft-x7k2p"])
    name: str = Field(description="Of its job.", examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str | None = Field(examples=["training"])
    gpu: int = Field(examples=[4])
    node_name: str | None = Field(examples=["node-1"])


class NamespaceDetail(ApiModel):
    """A namespace with its quotas and pods."""

    name: str = Field(examples=["team-a"])
    status: str | None = Field(examples=["Active"])
    jobs: int = Field(description="Jobs that have not ended.", examples=[3])
    all_jobs: int = Field(description="Jobs, also those that have ended.", examples=[4])
    pods: int = Field(examples=[5])
    gpu_used: int = Field(examples=[12])
    quotas: list[NamespaceQuota]
    created_at: str | None = Field(examples=["2024-06-01T09:00:00Z"])
    labels: dict[str, str] | None = Field(examples=[{"team": "nlp"}])
    running_jobs: list[PodInNamespace] = Field(description="Pods on nodes.")
    waiting_jobs: list[PodInNamespace] = Field(description="Pods that wait for a node.")


class NamespaceList(ApiModel):
    """``gpuctl get namespaces -o json``."""

    total: int = Field(examples=[2])
    items: list[NamespaceItem]
