"""Usage as it is told: groups over a time, and who holds GPUs at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.reading.gpu_time import GpuHolder, GpuTime, KnownTime


@dataclass(frozen=True)
class UsageRange:
    """Which hours: those that begin at ``start`` or later, and before ``end``; seconds since 1970.

    :param zone: by whose days and months steps are counted, as ``Asia/Shanghai``.
    :param cluster: its name; "" is the default. ``namespace``: "" is all.
    """

    start: float
    end: float
    zone: str = "UTC"
    cluster: str = ""
    namespace: str = ""

    @property
    def seconds(self) -> float:
        """The length of the hours that it means: those that begin in it."""
        return float(_next_hour(self.end) - _next_hour(self.start))


def _next_hour(time: float) -> int:
    return -int(-time // 3600) * 3600


class GroupUse(NamedTuple):
    """A group over the whole time, and over each of :attr:`UsageView.times`: None where nothing is known of it."""

    holder: GpuHolder
    total: GpuTime
    steps: Sequence[GpuTime | None] = ()


@dataclass(frozen=True)
class UsageView:
    """What was asked about.

    :param times: the beginnings of steps, RFC 3339, each with its end; "" is one of which nothing is known.
    :param groups: those that are shown, in order; ``count``: how many there are.
    :param all_groups: of all of them together; ``whole``: the cluster, None where nothing is known of it
        and for those who may not see it.
    :param known: which part of the range is known; None if nothing is. ``known_steps``: of each of ``times``.
    :param step_capacities: likewise GPU-seconds of the cluster in each of the times; empty where groups have their own.
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
        """GPU-seconds of the cluster in one of the times; None where that is not known."""
        return self.step_capacities[number] if self.step_capacities else None

    def known_in(self, number: int) -> KnownTime | None:
        """Return which part of one of the times is known; None if that was not asked."""
        return self.known_steps[number] if self.known_steps else None

    @property
    def capacity(self) -> float | None:
        """GPU-seconds of the cluster; None where that is not known."""
        return None if self.whole is None else self.whole.capacity


class CurrentHolder(NamedTuple):
    """A workload that holds GPUs.

    :param use: percent at the moment of the snapshot; None where nothing measured it.
    :param recent: in the last hours; None where nothing is known of it.
    """

    holder: GpuHolder
    gpus: float
    use: float | None
    recent: GpuTime | None


class CurrentHolders(NamedTuple):
    """Who holds GPUs at a moment, RFC 3339; ``capacity`` and ``allocated`` are GPUs, None where not known."""

    time: str
    cluster: str
    capacity: float | None
    allocated: float | None
    workloads: Sequence[CurrentHolder]


class IdleHolder(NamedTuple):
    """A workload that holds GPUs and has not used them for a while.

    :param owner: whose it is, as far as labels say; None where they do not.
    :param gpus: that it holds now; ``models``: of which models.
    :param since: RFC 3339; ``idle_hours``: for how long.
    :param use: percent, in that time.
    :param idle_gpu_hours: in the time that is asked about; None where that is not known. Likewise ``cost``.
    :param pause: how `gpuctl pause` calls it; "" where that cannot pause it, or it is not known.
    """

    holder: GpuHolder
    owner: str | None
    gpus: float
    models: Mapping[str, float]
    since: str
    idle_hours: float
    use: float | None
    idle_gpu_hours: float | None
    coverage: float | None
    cost: float | None
    pause: str


@dataclass(frozen=True)
class IdleGpuReport:
    """What is held and idle.

    :param known_until: RFC 3339.
    :param currency: "" where none is set.
    :param total_idle: GPU-hours of all GPUs in the time that is asked about; None where not all may be seen.
    :param total_cost: what they cost; None where that is not known.
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
