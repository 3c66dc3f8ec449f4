"""The ledger: accounts for every GPU-second of capacity, and lists sums that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.sums import CAPACITY_FIELDS, HELD_FIELDS, KEYED, Group, Level, RolledUp, Sums

WITH_CAPACITY = frozenset({Level.CLUSTER, Level.NODE, Level.MODEL})
"""Levels whose groups have GPUs of their own; the groups of other levels only hold GPUs."""
PARTS = (Level.NAMESPACE, Level.WORKLOAD, Level.NODE, Level.MODEL)
"""Levels whose groups add up to the cluster."""
HELD = (*HELD_FIELDS, "running_gpu_s", "pod_s", "samples")
TOLERANCE = 1e-6
"""Rounding error of floating point sums that is accepted, relative to the amount and in GPU-seconds."""


class Ledger(NamedTuple):
    """GPU-seconds of a group by what became of them.

    :param capacity: GPU-seconds available; for groups without GPUs of their own, GPU-seconds held.
    :param busy: measured GPU-seconds times utilization; ``held_idle``: the rest of the measured ones;
        ``held_unobserved``: held without a measurement.
    :param free: unallocated on ready nodes; ``unusable``: unallocated on nodes that do not accept pods.
    :param unsized: on nodes where a pod has a share of unknown size, not otherwise allocated.
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
        """Return the capacity that is not accounted for; negative if more is accounted for than existed."""
        return self.capacity - (
            self.busy + self.held_idle + self.held_unobserved + self.free + self.unusable + self.unsized
        )

    @property
    def closes(self) -> bool:
        """Return True if the capacity is accounted for and no part is negative."""
        least = -TOLERANCE * max(1.0, self.capacity)
        return abs(self.missing) <= -least and min(self) >= least


class Discrepancy(NamedTuple):
    """Contradicting sums of an hour or day.

    :param what: "ledger", or the field of Sums that does not add up.
    :param missing: difference, in the unit of ``what``; negative if there is too much.
    """

    group: Group
    what: str
    missing: float


def ledger(sums: Sums, level: Level = Level.CLUSTER) -> Ledger:
    """Return the ledger of a group of this level."""
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
    """Return the ledgers that do not close, and the levels whose groups do not add up to the cluster."""
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
