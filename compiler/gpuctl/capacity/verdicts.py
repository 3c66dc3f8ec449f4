"""What is answered about a job: whether its pods find room, and what the answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.gangs import held_in_vain
from gpuctl.capacity.seats import PlacedPod, Units
from gpuctl.capacity.shortage import Balance

Verdict = Literal["fits", "preempts", "fits-when-empty", "never", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("fits", "preempts", "fits-when-empty", "never", "unknown")

_UNITS = {"cpu": ("cpuCores", 1000), "memory": ("memoryBytes", 1), "ephemeral-storage": ("ephemeralStorageBytes", 1)}


class Victim(NamedTuple):
    """A pod that would be evicted, and its node."""

    pod: PlacedPod
    node: str


@dataclass(frozen=True)
class Fit:
    """The answer for one job.

    ``starts`` is how many of its pods would run now. ``victims`` are evicted for these, also when they are not all.
    ``certain`` tells that all this is so whatever the scheduler chooses, and in whichever order pods of one priority
    come; without it, ``likelihood`` is the share of the orders and choices tried that give the verdict.
    """

    demand: Demand
    verdict: Verdict
    reason: str
    starts: int
    victims: list[Victim]
    certain: bool
    balance: Balance
    change: str | None
    likelihood: float = 1.0

    @property
    def held(self) -> Units:
        """What the pods that start hold for nothing while the others of their job have no room."""
        return held_in_vain(self.demand, self.starts)


def named(amounts: Units) -> dict[str, float | int]:
    """Amounts with their units in the names: ``cpuCores``, ``memoryBytes``, ``nvidia.com/gpu``."""
    result: dict[str, float | int] = {}
    for name, amount in amounts.items():
        key, size = _UNITS.get(name, (name, 1))
        result[key] = amount / size if amount % size else amount // size
    return result
