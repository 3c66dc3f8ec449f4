"""What is known of a cluster's past: who held GPUs from when to when, which GPUs were there, and what they did.

Times are seconds since 1970, UTC; everything is half-open: from ``start`` on, before ``end``. GPUs may be fractions: a
quarter of a shared card is 0.25.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

HOUR = 3600
DAY = 24 * HOUR
UNSET = "__unset__"
"""The value of a label that a workload does not have: with it, the values of a label add up to the cluster."""
PROCESS_UTILIZATION, PROCESS_MEMORY = 1, 2
"""Of a measurement: its utilisation, or its memory, is that of the pod's own processes, and not that of the card."""


class CapacityState(str, Enum):
    """Whether what is free on a node could be used."""

    READY = "ready"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"
    UNSIZED = "unsized"
    """A pod on it has a share of a card whose size is unknown: how much of the node is free is unknown, too."""


class EndReason(str, Enum):
    """How it is known that something ended."""

    FINISHED = "finished"
    """Its containers said when."""
    DELETED = "deleted"
    """It was seen to go."""
    CHANGED = "changed"
    """It goes on, in an interval of its own: with other labels, or another state."""
    LAST_SEEN = "last-seen"
    """It was gone after an outage, and this is when it was last seen."""


class SharedGpuMetrics(str, Enum):
    """What exporters tell of pods that share a card."""

    DETECT = "detect"
    """What their values say."""
    COPIES = "copies"
    """The use of the card, of every pod the same."""
    PER_PROCESS = "per-process"
    """The use by each pod's own processes: together they are the card's."""


class WorkloadKey(NamedTuple):
    """The top workload of a pod: its owner that has none, as far as there are any; of a bare pod the pod itself."""

    namespace: str
    kind: str
    name: str
    uid: str


class Holding(NamedTuple):
    """A pod holds GPUs of a node: from ``PodScheduled`` to the end of its last container, or until it was deleted.

    :param labels: of allowed keys, of the workload, else the pod, else the namespace; likewise ``annotations``.
    :param started: when its containers began to run; None while they do not.
    :param end: None while it lasts.
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
    """A node has GPUs, and a state."""

    node: str
    model: str
    gpus: float
    state: CapacityState
    start: float
    end: float | None


class GpuQuota(NamedTuple):
    """A namespace may hold so many GPUs at most, as its ResourceQuotas say.

    :param end: None while it is in force.
    """

    namespace: str
    gpus: float
    start: float
    end: float | None


class GpuSeries(NamedTuple):
    """What one GPU did for one pod, as its exporter measured it again and again.

    The arrays (type code ``d``) are of one length: a measurement is what stands at one place of all of them. It speaks
    of the time before it, so one on the full hour is of the hour that ends. The same GPU and pod may come in several
    series, in any order and overlapping: what was measured at one time counts once.

    :param pod: "" where no pod is named: then it is of the card.
    :param times: seconds since 1970.
    :param utilization: percent of the GPU, 0 to 100; always a number: where nothing was measured, there is no
        measurement.
    :param memory_used: GiB, NaN where it was not measured; None where it was never measured. Likewise ``memory_total``.
    :param metric: what has it from an exporter that may tell pods of one GPU apart; "" where none does.
    :param apart: of each measurement :data:`PROCESS_UTILIZATION` and :data:`PROCESS_MEMORY`, as far as it is so (type
        code ``b``); None where none is.
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
    """What a workload holds at a moment.

    :param utilization: percent, the GPU-weighted mean of its GPUs; None where nothing measures them.
    """

    workload: WorkloadKey
    gpus: float
    utilization: float | None


class AllocationSnapshot(NamedTuple):
    """Who holds GPUs at a moment.

    :param capacity: GPUs that there are; ``allocated``: those of them that are held.
    """

    time: float
    capacity: float
    allocated: float
    workloads: tuple[WorkloadAllocation, ...]


class PeriodCapacity(NamedTuple):
    """An hour or a day, as far as it is known, and the GPU-seconds that the cluster had in it.

    :param is_day: of how many seconds of a day something is known is all that it says of them: it is as if they were
        its last ones.
    """

    start: float
    end: float
    cap_gpu_s: float
    is_day: bool = False


class RetentionDays(NamedTuple):
    """For how many days things are kept.

    :param details: of snapshots, what each workload held; ``snapshots``: their totals.
    :param hours: hours that are rolled up, and who held GPUs then; ``days``: days, which stay when their hours go.
    """

    details: int
    snapshots: int
    hours: int
    days: int
