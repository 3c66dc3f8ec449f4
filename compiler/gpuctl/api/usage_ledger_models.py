"""The ledger of usage, idle GPUs and snapshots, as ``/gpu-aggregation`` returns them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuctl.api.usage_models import UsageCursorPage, UsageEnvelope, UsagePage, UsageValue


class LedgerRow(UsageValue):
    """The GPU-seconds of a group: `allocated` is `busy` + `held_idle` + `held_unobserved`, `capacity` is
    `allocated` + `free` + `unusable` + `unsized`."""

    time: str = Field(description="Start of the step, UTC.", examples=["2025-11-01T00:00:00Z"])
    end_time: str = Field(
        description="End of the step; the first and the last step end at the range.", examples=["2025-12-01T00:00:00Z"]
    )
    known_seconds: float = Field(
        description="Seconds of the step for which usage is known. All amounts cover only these.", examples=[2592000.0]
    )
    known_from: str = Field(
        description="Start of the known usage within the step, UTC.", examples=["2025-11-01T00:00:00Z"]
    )
    known_until: str = Field(
        description="Last moment of the step for which usage is known, UTC.", examples=["2025-12-01T00:00:00Z"]
    )
    provisional: bool = Field(
        description="True if amounts may still change: an hour has just ended, or measurements are missing.",
        examples=[False],
    )
    cluster: str = Field(examples=["cluster-1"])
    level: Literal["cluster", "namespace", "label", "annotation", "workload", "node", "model"] = Field(
        examples=["label"]
    )
    key: str = Field(description="The key of a label; for a workload its namespace, kind and name.", examples=["team"])
    value: str = Field(
        description="The value of the label; for a workload its uid; else a name.", examples=["ai-research"]
    )
    namespace: str = Field(
        default="", description='The namespace of a workload; "" for other groups.', examples=["ml-training"]
    )
    kind: str = Field(default="", examples=["Job"])
    name: str = Field(default="", examples=["bert"])
    capacity_gpu_seconds: float | None = Field(
        description="GPU-seconds available in the step; null for groups that own no GPUs.", examples=[331776000.0]
    )
    allocated_gpu_seconds: float = Field(description="GPU-seconds allocated to pods.", examples=[165888000.0])
    busy_gpu_seconds: float = Field(description="Measured GPU-seconds times their utilization.", examples=[110000000.0])
    held_idle_gpu_seconds: float = Field(description="Measured GPU-seconds that were not used.", examples=[50000000.0])
    held_unobserved_gpu_seconds: float = Field(
        description="Held GPU-seconds that were not measured.", examples=[5888000.0]
    )
    free_gpu_seconds: float | None = Field(
        description="GPU-seconds not held, on nodes that take pods.", examples=[160000000.0]
    )
    unusable_gpu_seconds: float | None = Field(
        description="GPU-seconds not held, on nodes that take no pods.", examples=[5888000.0]
    )
    unsized_gpu_seconds: float | None = Field(
        description="GPU-seconds, allocated to pods with a share of unknown size or free, on nodes with such pods. "
        "Null for groups that own no GPUs.",
        examples=[0.0],
    )
    allowed_gpu_seconds: float | None = Field(
        description="Only for namespaces: GPU-seconds that its quotas allow; without a quota, those of the cluster.",
        examples=[82944000.0],
    )
    by_process_gpu_seconds: float = Field(
        description="Part of the measured GPU-seconds that comes from per-process metrics of shared cards.",
        examples=[36000.0],
    )
    beyond_held_gpu_seconds: float = Field(
        description="Utilization of shared cards beyond the share of their pods, GPU-seconds. Not part of `busy`.",
        examples=[1800.0],
    )
    avg_utilization: float | None = Field(
        description="Mean utilization of the measured GPU-seconds, percent.", examples=[68.5]
    )
    coverage: float | None = Field(description="Measured part of the allocated GPU-seconds, 0 to 1.", examples=[0.9645])
    closes: bool = Field(
        description="True if the parts add up. If not, this is an error of the service.", examples=[True]
    )
    cost: float | None = Field(
        default=None,
        description="With `costs`: the cost of the allocated GPU-seconds by the platform's prices; null if a model has "
        "no price, or if it is no longer recorded which models were held.",
        examples=[576.0],
    )
    currency: str | None = Field(default=None, description="The currency of `cost`.", examples=["CNY"])


class LedgerPage(UsagePage):
    """A page of ledger rows."""

    data: list[LedgerRow]


class LedgerRowsAfter(UsageCursorPage):
    """One page of ledger rows, in cursor order."""

    data: list[LedgerRow]


class LedgerAnswer(UsageEnvelope):
    """The ledger: the use of every GPU-second."""

    data: list[LedgerRow] | LedgerPage | LedgerRowsAfter


class HeldByWorkload(UsageValue):
    """The GPUs that a workload holds at the time of a snapshot."""

    uid: str = Field(examples=["abc-123"])
    name: str = Field(examples=["bert-training"])
    namespace: str = Field(examples=["ml-training"])
    kind: str = Field(examples=["PyTorchJob"])
    allocated_gpu: float = Field(examples=[8])
    utilization: float | None = Field(description="Mean utilization, percent; null if not measured.", examples=[85.3])


class HeldInNamespace(UsageValue):
    """The GPUs that a namespace holds at the time of a snapshot."""

    allocated_gpu: float = Field(examples=[32])
    utilization: float | None = Field(examples=[72.5])
    workload_count: int = Field(examples=[5])
    workloads: list[HeldByWorkload]


class AllocationDetails(UsageValue):
    """The holders of GPUs at the time of a snapshot; empty if they were not requested or are no longer kept."""

    namespaces: dict[str, HeldInNamespace] = Field(default_factory=dict, description="Namespace -> GPUs held in it.")
    annotations: dict[str, str] = Field(default_factory=dict, examples=[{}])


class _Snapshot(UsageValue):
    id: int = Field(examples=[12345])
    cluster_name: str = Field(examples=["cluster-1"])
    snapshot_time: str = Field(examples=["2025-11-05T14:25:00Z"])
    dimension_type: Literal["cluster"] = Field(examples=["cluster"])
    total_gpu_capacity: float | None = Field(examples=[128])
    allocated_gpu_count: float | None = Field(
        description="GPUs held in the namespaces that the caller may see; null if unknown.",
        examples=[96],
    )
    allocation_details: AllocationDetails
    created_at: str = Field(examples=["2025-11-05T14:25:01Z"])


class ListedSnapshot(_Snapshot):
    """The allocation of GPUs at one time."""


class LatestSnapshot(_Snapshot):
    """The latest known allocation of GPUs."""

    dimension_key: Literal[""] = Field(examples=[""])
    dimension_value: Literal[""] = Field(examples=[""])


class SnapshotPage(UsagePage):
    """A page of snapshots."""

    data: list[ListedSnapshot]


class IdleGpus(UsageValue):
    """A workload that holds GPUs and has been idle."""

    namespace: str = Field(examples=["ml-training"])
    workload_type: str = Field(description="The workload's kind.", examples=["Job"])
    workload_name: str = Field(examples=["bert-training-job"])
    owner_uid: str = Field(examples=["abc-def-123"])
    owner: str | None = Field(
        description="The owner: the first of its labels, then annotations, team, creator, project.",
        examples=["research"],
    )
    labels: dict[str, str] = Field(examples=[{"team": "research"}])
    annotations: dict[str, str] = Field(examples=[{"cost-center": "cc-001"}])
    gpu_count: float = Field(description="Number of GPUs that it holds now.", examples=[8])
    gpu_models: dict[str, float] = Field(description="GPUs by model.", examples=[{"A100-80G": 8}])
    pod_count: int = Field(description="Pods that hold these GPUs.", examples=[1])
    idle_since: str = Field(examples=["2025-11-05T02:00:00Z"])
    idle_hours: float = Field(description="Consecutive idle hours until now.", examples=[12.5])
    avg_utilization: float | None = Field(description="Mean utilization in the idle hours, percent.", examples=[0.8])
    idle_gpu_hours: float | None = Field(
        description="GPU-hours of the requested time that were measured and not used; null if none was measured.",
        examples=[96.2],
    )
    allocated_gpu_hours: float = Field(description="GPU-hours held in the requested time.", examples=[100.0])
    coverage: float | None = Field(description="Measured part of the held GPU-hours, 0 to 1.", examples=[0.98])
    idle_cost: float | None = Field(
        description="Cost of the idle GPU-hours by the platform's prices at their time; null if a price is not set, or "
        "if it held GPUs of several prices and not all were idle all the time.",
        examples=[1202.5],
    )
    pause: str | None = Field(
        description="The job that holds them, by its name for `gpuctl pause`; null if it cannot be paused, or not by "
        "the caller.",
        examples=["bert-training-job"],
    )


class HeldIdle(UsageValue):
    """GPUs that are allocated and idle."""

    cluster: str = Field(examples=["cluster-1"])
    start_time: str = Field(examples=["2025-11-04T15:00:00Z"])
    end_time: str = Field(examples=["2025-11-05T15:00:00Z"])
    known_until: str = Field(description="Time of the latest data on GPU holders.", examples=["2025-11-05T14:59:30Z"])
    idle_below: float = Field(description="Utilization below which an hour is idle, percent.", examples=[5.0])
    idle_after_hours: float = Field(description="Minimum number of idle hours of a listed workload.", examples=[1.0])
    currency: str | None = Field(examples=["CNY"])
    total_idle_gpu_hours: float | None = Field(
        description="Idle GPU-hours of all allocated GPUs; null for callers who may not see all namespaces.",
        examples=[412.7],
    )
    total_idle_cost: float | None = Field(
        description="Cost of these GPU-hours; null if a price is not set.", examples=[5158.75]
    )
    total: int = Field(description="Number of idle workloads, of all pages.", examples=[1])
    workloads: list[IdleGpus]


class WasteAnswer(UsageEnvelope):
    """Idle workloads that hold GPUs, ordered by held GPUs times idle time, largest first."""

    data: HeldIdle


class HeldModel(UsageValue):
    """GPU-seconds of one GPU model that a workload held."""

    namespace: str = Field(examples=["ml-training"])
    workload_type: str = Field(examples=["Job"])
    workload_name: str = Field(examples=["bert-training-job"])
    owner_uid: str = Field(examples=["abc-def-123"])
    model: str = Field(description="The GPU model.", examples=["A100-80G"])
    key: str = Field(description="The key of the label or annotation; empty without one.", examples=["team"])
    value: str = Field(
        description="Value of the label or annotation at that time; `__unset__` for pods without it; empty without a "
        "key.",
        examples=["ai-research"],
    )
    allocated_gpu_seconds: float = Field(description="GPU-seconds allocated to the workload.", examples=[28800.0])


class HeldModelPage(UsagePage):
    """A page of held GPU models."""

    data: list[HeldModel]


class HeldModelsAnswer(UsageEnvelope):
    """GPU-seconds by workload, GPU model and value of a label or annotation."""

    data: list[HeldModel] | HeldModelPage


class LatestAllocation(UsageEnvelope):
    """The latest snapshot."""

    data: LatestSnapshot


class AllocationHistory(UsageEnvelope):
    """Snapshots, earliest first."""

    data: list[ListedSnapshot] | SnapshotPage
