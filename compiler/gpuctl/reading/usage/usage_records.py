"""Usage as reports show it: groups over a period, current holders, and idle holders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.objects.timestamps import next_hour
from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, KnownTime


@dataclass(frozen=True)
class UsageRange:
    """A range of hours: those that begin in [``start``, ``end``), seconds since 1970.

    :param zone: time zone of day and month steps, such as ``Asia/Shanghai``.
    :param cluster: name of the cluster; "" for the default one.
    :param namespace: "" for all namespaces.
    """

    start: float
    end: float
    zone: str = "UTC"
    cluster: str = ""
    namespace: str = ""

    @property
    def seconds(self) -> float:
        """Return the length of the hours that begin in the range, seconds."""
        return float(next_hour(self.end) - next_hour(self.start))


class GroupUse(NamedTuple):
    """A group over the whole period and in each of :attr:`UsageView.times`; None for a step without data."""

    holder: GpuHolder
    total: GpuTime
    steps: Sequence[GpuTime | None] = ()


@dataclass(frozen=True)
class UsageView:
    """The answer to a usage query.

    :param asked: the range of the query.
    :param times: start and end of each step, RFC 3339; "" if nothing is known of the step.
    :param groups: the shown groups, in order.
    :param count: number of all groups.
    :param all_groups: sum of all groups.
    :param whole: usage of the cluster; None if unknown or if the user may not see it.
    :param known: the part of the range with data; None without data.
    :param known_steps: the same for each of ``times``.
    :param step_capacities: GPU-seconds of the cluster in each step; empty if groups have their own capacity.
    """

    level: str
    key: str
    asked: UsageRange
    step: str
    times: Sequence[tuple[str, str]]
    groups: Sequence[GroupUse]
    count: int
    all_groups: GpuTime
    whole: GpuTime | None
    known: KnownTime | None = None
    known_steps: Sequence[KnownTime | None] = ()
    step_capacities: Sequence[float | None] = ()

    def capacity_in(self, number: int) -> float | None:
        """Return the GPU-seconds of the cluster in a step; None if unknown."""
        return self.step_capacities[number] if self.step_capacities else None

    def known_in(self, number: int) -> KnownTime | None:
        """Return the part of a step with data; None if unknown."""
        return self.known_steps[number] if self.known_steps else None

    @property
    def capacity(self) -> float | None:
        """Return the GPU-seconds of the cluster; None if unknown."""
        return None if self.whole is None else self.whole.capacity


class CurrentHolder(NamedTuple):
    """A workload that holds GPUs.

    :param use: utilization at the snapshot, percent; None if not measured.
    :param recent: usage in the last hours; None if unknown.
    """

    holder: GpuHolder
    gpus: float
    use: float | None
    recent: GpuTime | None


class CurrentHolders(NamedTuple):
    """The workloads that hold GPUs at ``time`` (RFC 3339). ``capacity`` and ``allocated`` are GPUs; None if unknown."""

    time: str
    cluster: str
    capacity: float | None
    allocated: float | None
    workloads: Sequence[CurrentHolder]


class IdleHolder(NamedTuple):
    """A workload that holds GPUs and has been idle.

    :param owner: owner from labels; None if no label names one.
    :param gpus: number of GPUs it holds now.
    :param models: GPU model -> number of GPUs.
    :param idle_since: start of the idle time, RFC 3339; ``idle_hours``: its length.
    :param mean_use: utilization in the idle time, percent; None if not measured.
    :param idle_gpu_hours: idle GPU-hours in the range of the query; None if unknown.
    :param coverage: measured share of the allocated time, 0 to 1; None if unknown.
    :param cost: cost of ``idle_gpu_hours``; None if unknown.
    :param pause: name for `gpuctl pause`; "" if the job cannot be paused, or if that is unknown.
    """

    holder: GpuHolder
    owner: str | None
    gpus: float
    models: Mapping[str, float]
    idle_since: str
    idle_hours: float
    mean_use: float | None
    idle_gpu_hours: float | None
    coverage: float | None
    cost: float | None
    pause: str


@dataclass(frozen=True)
class IdleGpuReport:
    """Workloads that hold idle GPUs, and the sums over the range of the query.

    :param known_until: end of the data, RFC 3339.
    :param currency: "" if none is set.
    :param total_idle: idle GPU-hours of all GPUs; None if the user may not see all workloads.
    :param total_cost: cost of ``total_idle``; None if unknown.
    """

    cluster: str
    start: str
    end: str
    known_until: str
    below: float
    currency: str
    total_idle: float | None
    total_cost: float | None
    workloads: Sequence[IdleHolder]
