"""What is answered about a job: whether its pods find room, and what the answer rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gpuctl.capacity.demand import Demand
from gpuctl.capacity.partial_starts import held_while_waiting
from gpuctl.capacity.scheduler_model import PlacedPod, Units
from gpuctl.capacity.shortage import ResourceBalance

Verdict = Literal["fits", "preempts", "fits-when-empty", "never", "unknown"]
STARTS: frozenset[Verdict] = frozenset({"fits", "preempts"})
"""All pods of a job start now."""
LACKING: frozenset[Verdict] = frozenset({"never", "fits-when-empty"})
"""A job lacks room now."""
VERDICTS: tuple[Verdict, ...] = ("fits", "preempts", "fits-when-empty", "never", "unknown")

_UNITS = {"cpu": ("cpuCores", 1000), "memory": ("memoryBytes", 1), "ephemeral-storage": ("ephemeralStorageBytes", 1)}


class Victim(NamedTuple):
    """A pod that would be evicted, and its node."""

    pod: PlacedPod
    node: str


class EndingWorkload(NamedTuple):
    """Work that has ended at a time (RFC 3339), at the latest. ``job`` is ``Job/NAME``.

    ``at`` is None for all jobs together that the caller may not see.
    """

    namespace: str
    job: str
    at: str | None


class Opening(NamedTuple):
    """When a job finds room, at the latest (RFC 3339): ``after`` what runs now has ended, the first to end first.

    ``now`` is the time of the snapshot, by the API server's clock.
    """

    now: str
    at: str
    after: list[EndingWorkload]


@dataclass(frozen=True)
class Fit:
    """The answer for one job.

    ``starts`` is how many of its pods would run now. ``victims`` are evicted for these, also when they are not all.
    ``certain``: the answer holds for every choice of the scheduler and every order of pods; without it the answer is
    that for jobs in their order. ``depends``: the verdict may differ in another order. ``opening`` is when the job
    will fit, None if that is not known. ``admitted``: whether Kueue admits the job now; None if it is in no queue, or
    that is not known. ``component`` is one number for all
    jobs that may influence each other's placing.
    """

    demand: Demand
    verdict: Verdict
    reason: str
    starts: int
    victims: list[Victim]
    certain: bool
    balance: ResourceBalance
    change: str | None
    opening: Opening | None = None
    admitted: bool | None = None
    component: int | None = None
    depends: bool = False

    @property
    def likelihood(self) -> float | None:
        """1 where no order and no choice of the scheduler changes the verdict, else None: it is not known."""
        return None if self.depends else 1.0

    @property
    def held(self) -> Units:
        """What the pods that start hold for nothing while the others of their job have no room."""
        return held_while_waiting(self.demand, self.starts)


def with_remarks(answer: Fit) -> Fit:
    """The answer with what else is to be said of the job."""
    remarks = answer.demand.remarks
    if not remarks or answer.verdict == "unknown":
        return answer
    return replace(answer, reason="; ".join(filter(None, (answer.reason, *remarks))))


def agreeing_answers(least: Sequence[Fit], most: Sequence[Fit], drivers: Sequence[str]) -> list[Fit]:
    """What holds from wherever volumes are reached that are yet to be made: from one node alone, or from all of them.

    :param least: the answers when from one node alone, with the same jobs as ``most``.
    :param drivers: claims with what makes their volumes, for people.
    """
    return [_agreed(one, other, drivers) for one, other in zip(least, most, strict=True)]


def _agreed(one: Fit, other: Fit, drivers: Sequence[str]) -> Fit:
    if one.verdict != other.verdict:
        why = f"from which nodes the volume of a claim is reached is not known before it is made: {', '.join(drivers)}"
        return replace(
            one, verdict="unknown", reason=why, starts=0, victims=[], certain=False, change=None, opening=None
        )
    told = [(answer.starts, {id(victim.pod) for victim in answer.victims}) for answer in (one, other)]
    certain = one.certain and other.certain and told[0] == told[1]
    return replace(one, certain=certain)


def with_unit_names(amounts: Units) -> dict[str, float | int]:
    """Amounts with their units in the names: ``cpuCores``, ``memoryBytes``, ``nvidia.com/gpu``."""
    result: dict[str, float | int] = {}
    for name, amount in amounts.items():
        key, size = _UNITS.get(name, (name, 1))
        result[key] = amount / size if amount % size else amount // size
    return result


def from_unit_names(amounts: Mapping[str, float | int]) -> Units:
    """Return amounts in the scheduler's units: the inverse of :func:`named`."""
    names = {key: (name, size) for name, (key, size) in _UNITS.items()}
    result: Units = {}
    for key, amount in amounts.items():
        name, size = names.get(key, (key, 1))
        result[name] = round(amount * size)
    return result
