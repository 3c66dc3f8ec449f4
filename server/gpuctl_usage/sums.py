"""What is kept of an hour or a day: sums and histograms. Averages, rates and percentiles are made of them when read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpuctl_usage.facts import WorkloadKey


class Level(str, Enum):
    """By what the sums are grouped."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    LABEL = "label"
    ANNOTATION = "annotation"
    WORKLOAD = "workload"
    NODE = "node"
    MODEL = "model"


HELD_FIELDS = ("alloc_gpu_s", "obs_gpu_s", "util_gpu_s", "by_process_gpu_s", "beyond_gpu_s")
"""Fields of :class:`Sums` about held GPUs; :data:`CAPACITY_FIELDS`: fields about the capacity, held or not."""
CAPACITY_FIELDS = ("cap_gpu_s", "free_gpu_s", "unusable_gpu_s", "unsized_gpu_s")


@dataclass(slots=True)
class Sums:
    """Of one group over one hour or day; ``_s`` is seconds, or times seconds.

    :param alloc_gpu_s: GPU-seconds that were held; ``running_gpu_s``: while the containers ran.
    :param cap_gpu_s: GPU-seconds that there were; 0 where the group has no capacity of its own.
    :param obs_gpu_s: GPU-seconds of which a measurement says what they did; never more than ``alloc_gpu_s``.
    :param util_gpu_s: percent times GPU-seconds: divided by ``obs_gpu_s`` it is the mean utilisation.
    :param by_process_gpu_s: those of ``obs_gpu_s`` that are parts of a shared GPU of which the exporter tells what the
        processes of each pod used; ``beyond_gpu_s``: what these used of it beyond what their pods held.
    :param util_min: of the GPU-weighted means of each minute; None where nothing was measured. Likewise ``util_max``.
    :param histogram: percent, rounded to the nearest whole (0 to 100) -> minutes whose mean was that.
    :param memory_obs_gpu_s: GPU-seconds whose memory was measured; the two sums are GiB times GPU-seconds.
    :param memory_max: GiB of one GPU, the most in a sample.
    :param pod_s: pods that held GPUs, times seconds; ``pods_min`` and ``pods_max`` at any moment of the time in which
        there was one.
    :param workloads: how many held GPUs.
    :param samples: measurements that count; ``buckets``: pieces of five minutes in which something was measured.
    :param free_gpu_s: of ready nodes, held by nobody; ``unusable_gpu_s``: of others, held by nobody;
        ``unsized_gpu_s``: of nodes on which a pod has a share of unknown size, held by that pod or by nobody. Cluster,
        node and model have them.
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
    """Whom sums are about.

    :param key: of a label or annotation its key, of a workload ``namespace/kind/name``; else "".
    :param value: namespace, value of the label (or :data:`~gpuctl_usage.facts.UNSET`), uid of the workload, node or
        model.
    """

    level: Level
    key: str = ""
    value: str = ""


class LabeledWorkload(NamedTuple):
    """A workload that held GPUs, and as what it did: its labels and annotations, by key."""

    workload: WorkloadKey
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]


@dataclass
class RolledUp:
    """An hour or a day of a cluster: the sums of every group that held GPUs or has some.

    :param start: seconds since 1970, at a whole hour (UTC); ``seconds`` how much of it there has been: less than the
        whole while it runs.
    :param digest: of everything that it is made of: the same digest, the same sums.
    :param dropped: measurements that do not count: of pods that held no GPU of that node at that time.
    :param holders: of whom it is: how many workloads there were over several hours is no sum.
    :param missed: seconds at the beginning of an hour before collecting began; they are not part of ``seconds``.
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
        """The last known moment of an hour."""
        return self.start + self.missed + self.seconds
