"""Stored form of an hour or day: sums and histograms.

Averages, rates and percentiles are computed when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpuctl_usage.facts import WorkloadKey


class Level(str, Enum):
    """The dimension by which sums are grouped."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    LABEL = "label"
    ANNOTATION = "annotation"
    WORKLOAD = "workload"
    NODE = "node"
    MODEL = "model"


KEYED = frozenset({Level.LABEL, Level.ANNOTATION})
"""Levels whose groups have a key."""
HELD_FIELDS = ("alloc_gpu_s", "obs_gpu_s", "util_gpu_s", "by_process_gpu_s", "beyond_gpu_s")
"""Fields of :class:`Sums` about held GPUs; :data:`CAPACITY_FIELDS`: fields about the capacity, held or not."""
CAPACITY_FIELDS = ("cap_gpu_s", "free_gpu_s", "unusable_gpu_s", "unsized_gpu_s")


@dataclass(slots=True)
class Sums:
    """Sums of one group over one hour or day. The suffix ``_s`` means seconds, or a quantity times seconds.

    :param alloc_gpu_s: GPU-seconds held by pods; ``running_gpu_s``: only while their containers ran.
    :param cap_gpu_s: GPU-seconds of capacity; 0 for groups that have no capacity of their own.
    :param obs_gpu_s: held GPU-seconds covered by measurements; never more than ``alloc_gpu_s``.
    :param util_gpu_s: percent times GPU-seconds; divided by ``obs_gpu_s`` it is the mean utilization.
    :param by_process_gpu_s: part of ``obs_gpu_s`` measured by per-process metrics of shared cards; ``beyond_gpu_s``:
        GPU-seconds that those processes used beyond the share that their pod held.
    :param util_min: lowest one-minute average utilization, percent, weighted by GPU; None if nothing was measured.
        ``util_max``: the highest.
    :param histogram: average utilization of a minute, rounded to whole percent (0 to 100) -> number of minutes.
    :param memory_obs_gpu_s: GPU-seconds with a memory measurement; ``memory_used_gpu_s`` and ``memory_total_gpu_s``:
        GiB times GPU-seconds.
    :param memory_max: highest memory of one GPU in a measurement, GiB.
    :param pod_s: number of pods that held GPUs, times seconds; ``pods_min`` and ``pods_max``: lowest and highest number
        at any moment with at least one pod.
    :param workloads: number of workloads that held GPUs.
    :param samples: number of measurements; ``buckets``: number of five-minute intervals with at least one measurement.
    :param free_gpu_s: unallocated GPU-seconds on ready nodes; ``unusable_gpu_s``: unallocated on other nodes;
        ``unsized_gpu_s``: not otherwise allocated on nodes where a pod has a share of unknown size. Only the levels
        cluster, node and model have these three.
    """

    alloc_gpu_s: float = 0.0
    running_gpu_s: float = 0.0
    cap_gpu_s: float = 0.0
    free_gpu_s: float = 0.0
    unusable_gpu_s: float = 0.0
    unsized_gpu_s: float = 0.0
    obs_gpu_s: float = 0.0
    util_gpu_s: float = 0.0
    by_process_gpu_s: float = 0.0
    beyond_gpu_s: float = 0.0
    util_min: float | None = None
    util_max: float | None = None
    histogram: dict[int, int] | None = None
    memory_obs_gpu_s: float = 0.0
    memory_used_gpu_s: float = 0.0
    memory_total_gpu_s: float = 0.0
    memory_max: float | None = None
    pod_s: float = 0.0
    pods_min: int = 0
    pods_max: int = 0
    workloads: int = 0
    samples: int = 0
    buckets: int = 0


@dataclass(frozen=True)
class Group:
    """The group that sums belong to.

    :param key: key of the label or annotation, or ``namespace/kind/name`` of the workload; else "".
    :param value: namespace, value of the label (or :data:`~gpuctl_usage.facts.UNSET`), uid of the workload, node or
        model.
    """

    level: Level
    key: str = ""
    value: str = ""


class LabeledWorkload(NamedTuple):
    """A workload that held GPUs, with the labels and annotations that it had, sorted by key."""

    workload: WorkloadKey
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]


@dataclass
class RolledUp:
    """An hour or day of a cluster: the sums of every group that held GPUs or has capacity.

    :param start: seconds since 1970, on a full hour (UTC); ``seconds``: covered length, less than the whole while the
        hour or day is running.
    :param digest: hash of the inputs: equal digests mean equal sums.
    :param dropped: measurements left out because their pod held no GPU on that node at that time.
    :param holders: workloads with their labels; needed to count the distinct workloads of several hours.
    :param missed: seconds at the beginning of an hour before collecting began; not part of ``seconds``.
    """

    start: int
    seconds: float
    sums: dict[Group, Sums]
    digest: str
    dropped: int = 0
    holders: frozenset[LabeledWorkload] = frozenset()
    missed: float = 0.0

    @property
    def known_until(self) -> float:
        """Return the end of the known part of an hour."""
        return self.start + self.missed + self.seconds
