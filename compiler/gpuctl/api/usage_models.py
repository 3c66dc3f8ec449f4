"""Usage as ``/gpu-aggregation`` answers it: in an envelope, with names of the form ``stat_hour``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class UsageValue(BaseModel):
    """The envelope of an answer."""

    model_config = ConfigDict(extra="forbid")


class UsageProblem(UsageValue):
    """An error."""

    code: int = Field(description="The HTTP status.", examples=[400])
    message: str = Field(description="The kind of error.", examples=["Invalid request parameters"])
    error: str = Field(description="The error in words.", examples=["the query parameter start_time is required"])


class _Hour(UsageValue):
    id: int = Field(description="The id of the row. It does not change when the hour is computed again.", examples=[1])
    cluster_name: str = Field(examples=["cluster-1"])


class _Told(UsageValue):
    stat_hour: str = Field(description="Where the hour or step begins, UTC.", examples=["2025-11-05T14:00:00Z"])
    end_time: str = Field(
        default="",
        description="Where a step that is not an hour ends, UTC; the first and the last one are cut.",
        examples=["2025-11-05T15:00:00Z"],
    )
    known_seconds: float = Field(
        description="Seconds of the hour or step for which usage is known. All other figures cover only these: less "
        "than the whole if the step is still running, no collector ran, or its hours were pruned.",
        examples=[3600.0],
    )
    provisional: bool = Field(
        description="True if figures may still change: the hour has just ended, or measurements are missing.",
        examples=[False],
    )


class _Used(UsageValue):
    avg_utilization: float | None = Field(
        description="Percent; the mean of all GPUs that were measured, for as long as they were; null where none was.",
        examples=[68.5],
    )
    max_utilization: float | None = Field(
        description="Highest one-minute average utilization, percent.", examples=[95.2]
    )
    min_utilization: float | None = Field(examples=[45.3])


class _Spread(UsageValue):
    p50_utilization: float | None = Field(
        description="Median of the one-minute averages, rounded to a whole percent.", examples=[70.0]
    )
    p95_utilization: float | None = Field(examples=[89.0])


class _Last(UsageValue):
    coverage: float | None = Field(
        description="Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated.",
        examples=[0.9987],
    )
    created_at: str = Field(examples=["2025-11-05T15:00:01Z"])
    updated_at: str = Field(description="When it was computed last.", examples=["2025-11-05T15:00:01Z"])


class ClusterHour(_Last, _Spread, _Used, _Told, _Hour):
    """A cluster in an hour."""

    total_gpu_capacity: float | None = Field(description="GPUs that there were, on the average.", examples=[128])
    allocated_gpu_count: float | None = Field(description="GPUs that were held, on the average.", examples=[96.5])
    allocation_rate: float | None = Field(description="Percent of the capacity.", examples=[75.39])
    sample_count: int = Field(description="Pieces of five minutes in which something was measured.", examples=[12])


class NamespaceHour(_Last, _Used, _Told, _Hour):
    """A namespace in an hour."""

    namespace: str = Field(examples=["ml-training"])
    total_gpu_capacity: float | None = Field(
        description="GPUs of its quota on the average, of the cluster while it had none; null where neither is known.",
        examples=[128],
    )
    allocated_gpu_count: float | None = Field(description="GPUs that were held, on the average.", examples=[32.5])
    allocation_rate: float | None = Field(
        description="Percent of the capacity; more than 100 where a quota was lowered below what was held.",
        examples=[25.39],
    )
    active_workload_count: int = Field(description="Workloads that held GPUs.", examples=[5])


class LabelHour(_Last, _Used, _Told, _Hour):
    """A value of a label or annotation in an hour."""

    dimension_type: Literal["label", "annotation"] = Field(examples=["label"])
    dimension_key: str = Field(examples=["team"])
    dimension_value: str = Field(
        description="`__unset__` is what workloads without it held: with it the values add up to the cluster.",
        examples=["ai-research"],
    )
    allocated_gpu_count: float | None = Field(description="GPUs that were held, on the average.", examples=[64.0])
    active_workload_count: int = Field(description="Workloads that held GPUs.", examples=[8])


class WorkloadHour(_Last, _Spread, _Used, _Told, _Hour):
    """A workload in an hour."""

    namespace: str = Field(examples=["ml-training"])
    workload_name: str = Field(examples=["bert-training-job"])
    workload_type: str = Field(description="Its kind.", examples=["Job"])
    allocated_gpu_count: float | None = Field(description="GPUs that it held, on the average.", examples=[8.0])
    requested_gpu_count: float | None = Field(
        description="GPUs of as many pods as it had at most, whatever part of the hour it was there.", examples=[8.0]
    )
    avg_gpu_memory_used: float | None = Field(description="GiB of a GPU.", examples=[28.5])
    max_gpu_memory_used: float | None = Field(examples=[31.2])
    avg_gpu_memory_total: float | None = Field(examples=[32.0])
    avg_replica_count: float | None = Field(description="Pods that held GPUs, over the whole hour.", examples=[1.0])
    max_replica_count: int = Field(examples=[1])
    min_replica_count: int = Field(description="While there was any.", examples=[1])
    workload_status: Literal["Pending", "Running", "Finished"] | None = Field(
        description="At the end of the hour, as far as its pods tell.", examples=["Running"]
    )
    sample_count: int = Field(description="Measurements that count.", examples=[3600])
    owner_uid: str = Field(description="The uid of the topmost owner of its pods.", examples=["abc-def-123"])
    owner_name: str = Field(examples=["bert-training"])
    labels: dict[str, str] = Field(examples=[{"team": "research", "project": "nlp", "priority": "high"}])
    annotations: dict[str, str] = Field(examples=[{"cost-center": "cc-001", "project-id": "proj-123"}])


class _Page(UsageValue):
    total: int = Field(description="Rows of all pages.", examples=[150])
    page: int = Field(examples=[1])
    page_size: int = Field(examples=[20])
    total_pages: int = Field(examples=[8])


class _After(UsageValue):
    page_size: int = Field(examples=[20])
    next_cursor: str | None = Field(
        description="The `cursor` of the next page; null after the last row.", examples=["WyJhIl0"]
    )


class ClusterHourPage(_Page):
    """A page of rows."""

    data: list[ClusterHour]


class ClusterHoursAfter(_After):
    """Rows after others."""

    data: list[ClusterHour]


class NamespaceHourPage(_Page):
    """A page of rows."""

    data: list[NamespaceHour]


class NamespaceHoursAfter(_After):
    """Rows after others."""

    data: list[NamespaceHour]


class LabelHourPage(_Page):
    """A page of rows."""

    data: list[LabelHour]


class LabelHoursAfter(_After):
    """Rows after others."""

    data: list[LabelHour]


class WorkloadHourPage(_Page):
    """A page of rows."""

    data: list[WorkloadHour]


class WorkloadHoursAfter(_After):
    """Rows after others."""

    data: list[WorkloadHour]


class LedgerRow(UsageValue):
    """The GPU-seconds of a group: `allocated` is `busy` + `held_idle` + `held_unobserved`, `capacity` is
    `allocated` + `free` + `unusable` + `unsized`."""

    time: str = Field(description="Where the step begins, UTC.", examples=["2025-11-01T00:00:00Z"])
    end_time: str = Field(
        description="Where it ends; the first and the last are cut.", examples=["2025-12-01T00:00:00Z"]
    )
    known_seconds: float = Field(
        description="Seconds of the step for which usage is known. All amounts cover only these.", examples=[2592000.0]
    )
    known_from: str = Field(
        description="First moment of the step for which usage is known, UTC.", examples=["2025-11-01T00:00:00Z"]
    )
    known_until: str = Field(description="Last moment, UTC.", examples=["2025-12-01T00:00:00Z"])
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
    busy_gpu_seconds: float = Field(description="Measured, times their utilisation.", examples=[110000000.0])
    held_idle_gpu_seconds: float = Field(description="Measured, and not used.", examples=[50000000.0])
    held_unobserved_gpu_seconds: float = Field(description="Held, and not measured.", examples=[5888000.0])
    free_gpu_seconds: float | None = Field(
        description="Held by nobody, of nodes that take pods.", examples=[160000000.0]
    )
    unusable_gpu_seconds: float | None = Field(
        description="Held by nobody, of nodes that take no pods.", examples=[5888000.0]
    )
    unsized_gpu_seconds: float | None = Field(
        description="On nodes where a pod has a share of a card whose size is unknown: GPU-seconds that are held by "
        "such pods or free. Null for groups that own no GPUs.",
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
        description="Use of shared cards beyond the share of their pods. Not part of `busy`.", examples=[1800.0]
    )
    avg_utilization: float | None = Field(description="Percent, of what was measured.", examples=[68.5])
    coverage: float | None = Field(description="Measured part of the allocated GPU-seconds, 0 to 1.", examples=[0.9645])
    closes: bool = Field(
        description="True if the parts add up. A ledger that does not is an error of the service.", examples=[True]
    )


class HeldByWorkload(UsageValue):
    """The GPUs of a workload at a moment."""

    uid: str = Field(examples=["abc-123"])
    name: str = Field(examples=["bert-training"])
    namespace: str = Field(examples=["ml-training"])
    kind: str = Field(examples=["PyTorchJob"])
    allocated_gpu: float = Field(examples=[8])
    utilization: float | None = Field(description="Percent; null where it was not measured.", examples=[85.3])


class HeldInNamespace(UsageValue):
    """The GPUs of a namespace at a moment."""

    allocated_gpu: float = Field(examples=[32])
    utilization: float | None = Field(examples=[72.5])
    workload_count: int = Field(examples=[5])
    workloads: list[HeldByWorkload]


class AllocationDetails(UsageValue):
    """Who held GPUs at a moment; nothing where that was left out, or is not known any more."""

    namespaces: dict[str, HeldInNamespace] = Field(
        default_factory=dict, description="Namespace -> what was held in it."
    )
    annotations: dict[str, str] = Field(default_factory=dict, examples=[{}])


class _Snapshot(UsageValue):
    id: int = Field(examples=[12345])
    cluster_name: str = Field(examples=["cluster-1"])
    snapshot_time: str = Field(examples=["2025-11-05T14:25:00Z"])
    dimension_type: Literal["cluster"] = Field(examples=["cluster"])
    total_gpu_capacity: float | None = Field(examples=[128])
    allocated_gpu_count: float | None = Field(
        description="For somebody who sees certain namespaces, what was held in those; null where it is not known.",
        examples=[96],
    )
    allocation_details: AllocationDetails
    created_at: str = Field(examples=["2025-11-05T14:25:01Z"])


class ListedSnapshot(_Snapshot):
    """Who held GPUs at a moment."""


class LatestSnapshot(_Snapshot):
    """Who held GPUs at the last moment that is known."""

    dimension_key: Literal[""] = Field(examples=[""])
    dimension_value: Literal[""] = Field(examples=[""])


class SnapshotPage(_Page):
    """A page of snapshots."""

    data: list[ListedSnapshot]


class _Envelope(UsageValue):
    code: Literal[200] = Field(description="The HTTP status.", examples=[200])
    message: str = Field(description="`success`, or what has to be said about it.", examples=["success"])


class UsageNames(_Envelope):
    """Names, in order."""

    data: list[str] = Field(examples=[["ml-training", "inference"]])


class ClusterUsage(_Envelope):
    """Hours of the cluster: all, or a page of them where pages are asked for."""

    data: list[ClusterHour] | ClusterHourPage | ClusterHoursAfter


class NamespaceUsage(_Envelope):
    """Hours of namespaces."""

    data: list[NamespaceHour] | NamespaceHourPage | NamespaceHoursAfter


class LabelUsage(_Envelope):
    """Hours of the values of a label or annotation."""

    data: list[LabelHour] | LabelHourPage | LabelHoursAfter


class WorkloadUsage(_Envelope):
    """Hours of workloads, a page of them."""

    data: WorkloadHourPage | WorkloadHoursAfter


class LedgerPage(_Page):
    """A page of rows."""

    data: list[LedgerRow]


class LedgerRowsAfter(_After):
    """Rows after others."""

    data: list[LedgerRow]


class LedgerAnswer(_Envelope):
    """The ledger: the use of every GPU-second."""

    data: list[LedgerRow] | LedgerPage | LedgerRowsAfter


class IdleGpus(UsageValue):
    """A workload that holds GPUs and has not used them for a while."""

    namespace: str = Field(examples=["ml-training"])
    workload_type: str = Field(description="Its kind.", examples=["Job"])
    workload_name: str = Field(examples=["bert-training-job"])
    owner_uid: str = Field(examples=["abc-def-123"])
    owner: str | None = Field(
        description="Whose it is: the first that it has of the labels, then the annotations, team, creator, project, "
        "app.",
        examples=["research"],
    )
    labels: dict[str, str] = Field(examples=[{"team": "research"}])
    annotations: dict[str, str] = Field(examples=[{"cost-center": "cc-001"}])
    gpu_count: float = Field(description="GPUs that it holds now.", examples=[8])
    gpu_models: dict[str, float] = Field(description="GPUs by model.", examples=[{"A100-80G": 8}])
    pod_count: int = Field(description="Pods that hold them.", examples=[1])
    idle_since: str = Field(examples=["2025-11-05T02:00:00Z"])
    idle_hours: float = Field(description="For how long, without a break.", examples=[12.5])
    avg_utilization: float | None = Field(description="Percent, in that time.", examples=[0.8])
    idle_gpu_hours: float | None = Field(
        description="Held, measured and not used in the time that is asked about; null where nothing was measured.",
        examples=[96.2],
    )
    allocated_gpu_hours: float = Field(description="Held in that time.", examples=[100.0])
    coverage: float | None = Field(description="Measured part of it, 0 to 1.", examples=[0.98])
    idle_cost: float | None = Field(
        description="Cost of the idle GPU-hours by the platform's prices at their time; null if a price is not set.",
        examples=[1202.5],
    )
    pause: str | None = Field(
        description="The job that holds them, as `gpuctl pause` calls it in the namespace; null where that cannot be "
        "paused, or not by whoever asks.",
        examples=["bert-training-job"],
    )


class HeldIdle(UsageValue):
    """GPUs that are allocated and idle."""

    cluster: str = Field(examples=["cluster-1"])
    start_time: str = Field(examples=["2025-11-04T15:00:00Z"])
    end_time: str = Field(examples=["2025-11-05T15:00:00Z"])
    known_until: str = Field(description="Until when it is known who holds GPUs.", examples=["2025-11-05T14:59:30Z"])
    idle_below: float = Field(description="Percent.", examples=[5.0])
    idle_after_hours: float = Field(description="For so long it has to be idle to be listed.", examples=[1.0])
    currency: str | None = Field(examples=["CNY"])
    total_idle_gpu_hours: float | None = Field(
        description="Total of all allocated GPUs; null for callers who may not see all namespaces.", examples=[412.7]
    )
    total_idle_cost: float | None = Field(description="Their cost; null under the same condition.", examples=[5158.75])
    workloads: list[IdleGpus]


class WasteAnswer(_Envelope):
    """Workloads that hold GPUs and do not use them, those with the most of them for longest first."""

    data: HeldIdle


class HeldModel(UsageValue):
    """GPU-seconds that a workload held of one GPU model."""

    namespace: str = Field(examples=["ml-training"])
    workload_type: str = Field(examples=["Job"])
    workload_name: str = Field(examples=["bert-training-job"])
    owner_uid: str = Field(examples=["abc-def-123"])
    model: str = Field(description="The GPU model.", examples=["A100-80G"])
    key: str = Field(description="The key of the label or annotation; empty without one.", examples=["team"])
    value: str = Field(
        description="Its value at that time, `__unset__` for pods without it; empty without a key.",
        examples=["ai-research"],
    )
    allocated_gpu_seconds: float = Field(description="GPU-seconds that it held.", examples=[28800.0])


class HeldModelPage(_Page):
    """A page of them."""

    data: list[HeldModel]


class HeldModelsAnswer(_Envelope):
    """GPU-seconds by workload, GPU model and value of a label or annotation."""

    data: list[HeldModel] | HeldModelPage


class LatestAllocation(_Envelope):
    """The last snapshot."""

    data: LatestSnapshot


class AllocationHistory(_Envelope):
    """Snapshots, the earliest first."""

    data: list[ListedSnapshot] | SnapshotPage
