"""What is known of a cluster's past: who held GPUs from when to when, which GPUs were there, and what they did.

Times are seconds since 1970, UTC; everything is half-open: from ``start`` on, before ``end``. GPUs may be fractions: a
quarter of a shared card is 0.25.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

HOUR = 3600
DAY = 24 * HOUR
UNSET = "__unset__"
"""The value of a label that a workload does not have: with it, the values of a label add up to the cluster."""


class NodeState(str, Enum):
    """Whether what is free on a node could be used."""

    READY = "ready"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"


class Ending(str, Enum):
    """How it is known that something ended."""

    FINISHED = "finished"
    """Its containers said when."""
    DELETED = "deleted"
    """It was seen to go."""
    CHANGED = "changed"
    """It goes on, in an interval of its own: with other labels, or another state."""
    LAST_SEEN = "last-seen"
    """It was gone after an outage, and this is when it was last seen."""


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
    ending: Ending | None = None


class Capacity(NamedTuple):
    """A node has GPUs, and a state."""

    node: str
    model: str
    gpus: float
    state: NodeState
    start: float
    end: float | None


class Sample(NamedTuple):
    """What one GPU did for a pod at a moment, as its exporter measured it.

    :param utilization: percent, 0 to 100.
    :param memory_used: GiB; None where it is not measured. Likewise ``memory_total``.
    """

    time: float
    node: str
    gpu: str
    namespace: str
    pod: str
    utilization: float
    memory_used: float | None
    memory_total: float | None


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
