"""Facts about a cluster's past: GPU holdings, GPU capacity, quotas and measurements.

Times are seconds since 1970 (UTC). Intervals are half-open: [start, end). GPU counts may be fractions: a quarter of a
shared card is 0.25.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

UNSET = "__unset__"
"""Value of a label that a workload does not have. With it, the values of a label add up to the cluster."""
PROCESS_UTILIZATION, PROCESS_MEMORY = 1, 2
"""Flags of a measurement: its utilization, or its memory, is that of the pod's own processes, not of the whole card."""


class CapacityState(str, Enum):
    """State of a node that decides how its unallocated GPUs are counted."""

    READY = "ready"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"
    UNSIZED = "unsized"
    """A pod on the node holds a share of a card whose size is unknown, so the free part of the node is unknown as well.
    """


class EndReason(str, Enum):
    """Evidence for the end of a holding."""

    FINISHED = "finished"
    """The pod's containers report when they finished."""
    DELETED = "deleted"
    """The deletion of the pod or node was observed."""
    CHANGED = "changed"
    """The pod still holds its GPUs; a new interval continues with other labels or another state."""
    LAST_SEEN = "last-seen"
    """The object was missing after an outage of the collector; the end is when it was last seen."""


class SharedGpuMetrics(str, Enum):
    """Kind of the metrics that an exporter reports for pods that share a card."""

    DETECT = "detect"
    """Detected from the values."""
    COPIES = "copies"
    """Utilization of the whole card, the same for every pod."""
    PER_PROCESS = "per-process"
    """Utilization by each pod's own processes; the values of all pods add up to the card's."""


class UsageKeys(NamedTuple):
    """Label and annotation keys by which usage is grouped."""

    labels: Collection[str]
    annotations: Collection[str]


class WorkloadKey(NamedTuple):
    """Key of a pod's top-level workload: the last owner in its chain of owner references, or the pod itself if it has
    no owner.
    """

    namespace: str
    kind: str
    name: str
    uid: str


class Holding(NamedTuple):
    """GPUs that a pod holds on a node, from ``PodScheduled`` until its last container ends or the pod is deleted.

    :param labels: the collected label keys with their values: from the workload, else the pod, else the namespace.
        Likewise ``annotations``.
    :param started: when the pod's containers started; None before that.
    :param end: None while the pod holds the GPUs.
    """

    pod_uid: str
    namespace: str
    pod: str
    workload: WorkloadKey
    node: str
    gpus: float
    model: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    start: float
    started: float | None
    end: float | None
    ending: EndReason | None = None


class Capacity(NamedTuple):
    """GPUs of a node and the node's state in an interval."""

    node: str
    model: str
    gpus: float
    state: CapacityState
    start: float
    end: float | None


class GpuQuota(NamedTuple):
    """Maximum number of GPUs that a namespace's quotas allow, in an interval.

    :param end: None while the quota is in force.
    """

    namespace: str
    gpus: float
    start: float
    end: float | None


class GpuSeries(NamedTuple):
    """Measurements of one GPU for one pod.

    All arrays (type code ``d``) have the same length; index i of each belongs to measurement i. A measurement covers
    the time before it, so one taken on the full hour belongs to the hour that ends. The same GPU and pod may have
    several series, in any order and overlapping; measurements with equal times count once.

    :param pod: "" if the series names no pod: it describes the card.
    :param times: seconds since 1970.
    :param utilization: percent of the GPU, 0 to 100; never NaN.
    :param memory_used: GiB; NaN for a measurement without memory, None if no measurement has it. Likewise
        ``memory_total``.
    :param metric: name of the metric if its exporter can report per-process values; else "".
    :param process_flags: :data:`PROCESS_UTILIZATION` and :data:`PROCESS_MEMORY` of each measurement (type code ``b``);
        None if no measurement has a flag.
    """

    node: str
    gpu: str
    namespace: str
    pod: str
    times: array[float]
    utilization: array[float]
    memory_used: array[float] | None = None
    memory_total: array[float] | None = None
    metric: str = ""
    process_flags: array[int] | None = None


class WorkloadAllocation(NamedTuple):
    """GPUs that a workload holds at a moment.

    :param utilization: percent, mean of the workload's GPUs weighted by GPU count; None if they are not measured.
    """

    workload: WorkloadKey
    gpus: float
    utilization: float | None


class AllocationSnapshot(NamedTuple):
    """Allocation of a cluster's GPUs at a moment.

    :param capacity: GPUs in the cluster; ``allocated``: GPUs held by pods.
    """

    time: float
    capacity: float
    allocated: float
    workloads: tuple[WorkloadAllocation, ...]


class PeriodCapacity(NamedTuple):
    """The known part of an hour or day, with the GPU-seconds that the cluster had in it.

    :param is_day: True for a day. Only the number of known seconds of a day is kept: they are treated as its last
    seconds.
    """

    start: float
    end: float
    cap_gpu_s: float
    is_day: bool = False


class RetentionDays(NamedTuple):
    """Retention of the usage data, in days.

    :param details: allocation of each workload in snapshots; ``snapshots``: totals of snapshots.
    :param hours: hourly sums, holdings and capacities; ``days``: daily sums.
    """

    details: int
    snapshots: int
    hours: int
    days: int


def smallest(*values: float | None) -> float | None:
    """Return the smallest of the known values; None if no value is known."""
    return min((value for value in values if value is not None), default=None)


def largest(*values: float | None) -> float | None:
    """Return the largest of the known values; None if no value is known."""
    return max((value for value in values if value is not None), default=None)
