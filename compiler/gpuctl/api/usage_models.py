"""Usage by hours and steps, as ``/gpu-aggregation`` returns it: in an envelope, with names such as ``stat_hour``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class UsageValue(BaseModel):
    """An object in a response."""

    model_config = ConfigDict(extra="forbid")


class UsageProblem(UsageValue):
    """An error."""

    code: int = Field(description="The HTTP status.", examples=[400])
    message: str = Field(description="The kind of error.", examples=["Invalid request parameters"])
    error: str = Field(description="What went wrong.", examples=["the query parameter start_time is required"])


class _Hour(UsageValue):
    id: int = Field(description="Id of the row. It does not change when the hour is computed again.", examples=[1])
    cluster_name: str = Field(examples=["cluster-1"])


class _KnownTime(UsageValue):
    stat_hour: str = Field(description="Start of the hour or step, UTC.", examples=["2025-11-05T14:00:00Z"])
    end_time: str = Field(
        default="",
        description="End of a step that is not an hour, UTC; the first and the last step end at the range.",
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


class _Utilization(UsageValue):
    avg_utilization: float | None = Field(
        description="Mean utilization of the measured GPUs over the measured time, percent; null if none was measured.",
        examples=[68.5],
    )
    max_utilization: float | None = Field(
        description="Highest one-minute average utilization, percent.", examples=[95.2]
    )
    min_utilization: float | None = Field(examples=[45.3])


class _Percentiles(UsageValue):
    p50_utilization: float | None = Field(
        description="Median of the one-minute averages, rounded to a whole percent.", examples=[70.0]
    )
    p95_utilization: float | None = Field(examples=[89.0])


class _Computation(UsageValue):
    coverage: float | None = Field(
        description="Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated.",
        examples=[0.9987],
    )
    created_at: str = Field(examples=["2025-11-05T15:00:01Z"])
    updated_at: str = Field(description="Time of the last computation.", examples=["2025-11-05T15:00:01Z"])


class ClusterHour(_Computation, _Percentiles, _Utilization, _KnownTime, _Hour):
    """The usage of a cluster in an hour or step."""

    total_gpu_capacity: float | None = Field(description="Average number of GPUs.", examples=[128])
    allocated_gpu_count: float | None = Field(description="Average number of held GPUs.", examples=[96.5])
    allocation_rate: float | None = Field(description="Held part of the capacity, percent.", examples=[75.39])
    sample_count: int = Field(description="Number of five-minute intervals with a measurement.", examples=[12])


class NamespaceHour(_Computation, _Utilization, _KnownTime, _Hour):
    """The usage of a namespace in an hour or step."""

    namespace: str = Field(examples=["ml-training"])
    total_gpu_capacity: float | None = Field(
        description="Average GPUs that its quota allowed; without a quota, those of the cluster; null if unknown.",
        examples=[128],
    )
    allocated_gpu_count: float | None = Field(description="Average number of held GPUs.", examples=[32.5])
    allocation_rate: float | None = Field(
        description="Held part of the capacity, percent; more than 100 if a quota was reduced below the held GPUs.",
        examples=[25.39],
    )
    active_workload_count: int = Field(description="Number of workloads that held GPUs.", examples=[5])


class LabelHour(_Computation, _Utilization, _KnownTime, _Hour):
    """The usage of a value of a label or annotation in an hour or step."""

    dimension_type: Literal["label", "annotation"] = Field(examples=["label"])
    dimension_key: str = Field(examples=["team"])
    dimension_value: str = Field(
        description="`__unset__` stands for workloads without the label, so that the values add up to the cluster.",
        examples=["ai-research"],
    )
    allocated_gpu_count: float | None = Field(description="Average number of held GPUs.", examples=[64.0])
    active_workload_count: int = Field(description="Number of workloads that held GPUs.", examples=[8])


class WorkloadHour(_Computation, _Percentiles, _Utilization, _KnownTime, _Hour):
    """The usage of a workload in an hour or step."""

    namespace: str = Field(examples=["ml-training"])
    workload_name: str = Field(examples=["bert-training-job"])
    workload_type: str = Field(description="The workload's kind.", examples=["Job"])
    allocated_gpu_count: float | None = Field(description="Average number of held GPUs.", examples=[8.0])
    requested_gpu_count: float | None = Field(
        description="GPUs at its maximum number of pods, in any part of the hour.", examples=[8.0]
    )
    avg_gpu_memory_used: float | None = Field(description="Average used memory per GPU, GiB.", examples=[28.5])
    max_gpu_memory_used: float | None = Field(examples=[31.2])
    avg_gpu_memory_total: float | None = Field(examples=[32.0])
    avg_replica_count: float | None = Field(
        description="Average number of pods that held GPUs, over the whole hour.", examples=[1.0]
    )
    max_replica_count: int = Field(examples=[1])
    min_replica_count: int = Field(description="Minimum number of pods while the workload had any.", examples=[1])
    workload_status: Literal["Pending", "Running", "Finished"] | None = Field(
        description="Status at the end of the hour, from its pods.", examples=["Running"]
    )
    sample_count: int = Field(description="Number of measurements used.", examples=[3600])
    owner_uid: str = Field(description="Uid of the topmost owner of its pods.", examples=["abc-def-123"])
    owner_name: str = Field(examples=["bert-training"])
    labels: dict[str, str] = Field(examples=[{"team": "research", "project": "nlp", "priority": "high"}])
    annotations: dict[str, str] = Field(examples=[{"cost-center": "cc-001", "project-id": "proj-123"}])


class UsagePage(UsageValue):
    """The fields of a page of rows."""

    total: int = Field(description="Number of rows of all pages.", examples=[150])
    page: int = Field(examples=[1])
    page_size: int = Field(examples=[20])
    total_pages: int = Field(examples=[8])


class UsageCursorPage(UsageValue):
    """The fields of a page in cursor order."""

    page_size: int = Field(examples=[20])
    next_cursor: str | None = Field(
        description="The `cursor` of the next page; null after the last row.", examples=["WyJhIl0"]
    )


class ClusterHourPage(UsagePage):
    """A page of cluster hours."""

    data: list[ClusterHour]


class ClusterHoursAfter(UsageCursorPage):
    """One page of cluster hours, in cursor order."""

    data: list[ClusterHour]


class NamespaceHourPage(UsagePage):
    """A page of namespace hours."""

    data: list[NamespaceHour]


class NamespaceHoursAfter(UsageCursorPage):
    """One page of namespace hours, in cursor order."""

    data: list[NamespaceHour]


class LabelHourPage(UsagePage):
    """A page of label hours."""

    data: list[LabelHour]


class LabelHoursAfter(UsageCursorPage):
    """One page of label hours, in cursor order."""

    data: list[LabelHour]


class WorkloadHourPage(UsagePage):
    """A page of workload hours."""

    data: list[WorkloadHour]


class WorkloadHoursAfter(UsageCursorPage):
    """One page of workload hours, in cursor order."""

    data: list[WorkloadHour]


class UsageEnvelope(UsageValue):
    """The fields of a successful response."""

    code: Literal[200] = Field(description="The HTTP status.", examples=[200])
    message: str = Field(description="`success`, or a remark on the response.", examples=["success"])


class UsageNames(UsageEnvelope):
    """Names, sorted."""

    data: list[str] = Field(examples=[["ml-training", "inference"]])


class ClusterUsage(UsageEnvelope):
    """Hours of the cluster: all of them, or one page if a page is requested."""

    data: list[ClusterHour] | ClusterHourPage | ClusterHoursAfter


class NamespaceUsage(UsageEnvelope):
    """Usage of namespaces: all rows, or one page if pages are requested."""

    data: list[NamespaceHour] | NamespaceHourPage | NamespaceHoursAfter


class LabelUsage(UsageEnvelope):
    """Usage by the values of a label or annotation: all rows, or one page if pages are requested."""

    data: list[LabelHour] | LabelHourPage | LabelHoursAfter


class WorkloadUsage(UsageEnvelope):
    """One page of workload hours."""

    data: WorkloadHourPage | WorkloadHoursAfter
