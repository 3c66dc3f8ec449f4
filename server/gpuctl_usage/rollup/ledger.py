"""The ledger: what became of every GPU-second that there was, and where the sums do not agree with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.sums import CAPACITY_FIELDS, HELD_FIELDS, Group, Level, RolledUp, Sums

WITH_CAPACITY = frozenset({Level.CLUSTER, Level.NODE, Level.MODEL})
"""What has GPUs; the others only hold some."""
PARTS = (Level.NAMESPACE, Level.WORKLOAD, Level.NODE, Level.MODEL)
"""Into what every cluster is divided: the groups of each of them add up to it."""
KEYED = frozenset({Level.LABEL, Level.ANNOTATION})
"""Each key of these divides it too."""
HELD = (*HELD_FIELDS, "running_gpu_s", "pod_s", "samples")
TOLERANCE = 1e-6
"""What additions of floating point numbers may lose, as a part of the amount and in GPU-seconds."""


class Ledger(NamedTuple):
    """GPU-seconds. ``capacity`` is what there was: of what has no GPUs of its own, what it held.

    :param busy: observed, times how much of them was used; ``held_idle``: observed and not used;
        ``held_unobserved``: nobody knows.
    :param free: could have been used, and nobody held them; ``unusable``: on nodes that take no pods, held by nobody.
    :param unsized: held by pods whose share of a card is of unknown size, or by nobody.
    """

    capacity: float
    busy: float
    held_idle: float
    held_unobserved: float
    free: float
    unusable: float
    unsized: float = 0.0

    @property
    def missing(self) -> float:
        """What is missing in the ledger; negative when more became of the GPUs than there was of them."""
        return self.capacity - (
            self.busy + self.held_idle + self.held_unobserved + self.free + self.unusable + self.unsized
        )

    @property
    def closes(self) -> bool:
        """Whether the capacity is accounted for, and no part of it is less than nothing."""
        least = -TOLERANCE * max(1.0, self.capacity)
        return abs(self.missing) <= -least and min(self) >= least


class Discrepancy(NamedTuple):
    """Sums of an hour or day that cannot all be right.

    :param missing: in the unit of what does not add up, by ``what``; negative when there is too much.
    """

    group: Group
    what: str
    missing: float


def ledger(sums: Sums, level: Level = Level.CLUSTER) -> Ledger:
    """What became of the GPUs of a group of this level."""
    busy = sums.util_gpu_s / 100
    return Ledger(
        capacity=sums.cap_gpu_s if level in WITH_CAPACITY else sums.alloc_gpu_s,
        busy=busy,
        held_idle=sums.obs_gpu_s - busy,
        held_unobserved=sums.alloc_gpu_s - sums.obs_gpu_s,
        free=sums.free_gpu_s,
        unusable=sums.unusable_gpu_s,
        unsized=sums.unsized_gpu_s,
    )


def discrepancies(rolled: RolledUp) -> list[Discrepancy]:
    """Ledgers that do not close, and divisions of the cluster that do not add up to it."""
    found = []
    for group, sums in rolled.sums.items():
        account = ledger(sums, group.level)
        if not account.closes:
            found.append(Discrepancy(group, "ledger", account.missing))
    return [*found, *_divisions(rolled)]


def _divisions(rolled: RolledUp) -> Iterator[Discrepancy]:
    parts: dict[Group, list[Sums]] = {Group(level): [] for level in PARTS}
    for group, sums in rolled.sums.items():
        if group.level is not Level.CLUSTER:
            by = group.key if group.level in KEYED else ""
            parts.setdefault(Group(group.level, by), []).append(sums)
    cluster = rolled.sums.get(CLUSTER, Sums())
    for division, of_parts in parts.items():
        for what in (*HELD, *(CAPACITY_FIELDS if division.level in WITH_CAPACITY else ())):
            whole: float = getattr(cluster, what)
            missing = whole - sum(getattr(part, what) for part in of_parts)
            if abs(missing) > TOLERANCE * max(1.0, whole):
                yield Discrepancy(division, what, missing)
