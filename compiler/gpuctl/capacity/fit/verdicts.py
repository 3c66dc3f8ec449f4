"""The answer for a job: the verdict on its pods, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gpuctl.capacity.fit.partial_starts import held_while_waiting
from gpuctl.capacity.fit.shortage import ResourceBalance
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.scheduler_model import PlacedPod, Units
from gpuctl.language.sentences import clauses, say

Verdict = Literal["fits", "preempts", "fits-when-empty", "never", "unknown"]
STARTS: frozenset[Verdict] = frozenset({"fits", "preempts"})
"""Verdicts with which all pods of a job start now."""
LACKING: frozenset[Verdict] = frozenset({"never", "fits-when-empty"})
"""Verdicts with which a job lacks room now."""
VERDICTS: tuple[Verdict, ...] = ("fits", "preempts", "fits-when-empty", "never", "unknown")

_UNITS = {"cpu": ("cpuCores", 1000), "memory": ("memoryBytes", 1), "ephemeral-storage": ("ephemeralStorageBytes", 1)}


class Victim(NamedTuple):
    """A pod that would be evicted, and its node."""

    pod: PlacedPod
    node: str


class EndingWorkload(NamedTuple):
    """A workload and the latest time (RFC 3339) at which it has ended. ``job`` is ``Job/NAME``.

    ``at`` is None in the one entry for all jobs that the caller may not see.
    """

    namespace: str
    job: str
    at: str | None


class Opening(NamedTuple):
    """The latest time (RFC 3339) at which a job fits: when the workloads in ``after``, sorted by their end, have ended.

    ``now`` is the time of the snapshot, by the API server's clock.
    """

    now: str
    at: str
    after: list[EndingWorkload]


@dataclass(frozen=True)
class Fit:
    """The answer for one job.

    - ``starts``: the number of its pods that would start now; ``victims`` are evicted for them, even if not all start.
    - ``certain``: the answer holds for every order of pods and every choice of the scheduler. Otherwise it holds for
      the jobs created in their order.
    - ``depends``: the verdict may differ in another order.
    - ``opening``: when the job will fit; None if unknown.
    - ``queue_wait``: the reason without its verb, for a job that waits in a queue: the queue, and what it lacks there.
    - ``admitted``: Kueue admits the job now; None if it is in no queue, or if that is unknown.
    - ``component``: equal for all jobs that may influence each other's placement.
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
    queue_wait: str = ""

    def with_clauses(self, *texts: str) -> Fit:
        """Return the answer with further clauses of its reason."""
        waits = clauses(self.queue_wait, *texts) if self.queue_wait else ""
        return replace(self, reason=clauses(self.reason, *texts), queue_wait=waits)

    def as_unknown(self, reason: str) -> Fit:
        """Return the answer with the verdict ``unknown``."""
        return replace(
            self, verdict="unknown", reason=reason, starts=0, victims=[], certain=False, change=None, opening=None
        )

    @property
    def likelihood(self) -> float | None:
        """1 if no order and no choice of the scheduler changes the verdict; None (unknown) otherwise."""
        return None if self.depends else 1.0

    @property
    def held(self) -> Units:
        """The resources that the started pods hold while the job waits for room for its other pods."""
        return {} if self.verdict in STARTS else held_while_waiting(self.demand, self.starts)


def with_remarks(answer: Fit) -> Fit:
    """Append the job's remarks to the reason of an answer."""
    remarks = answer.demand.remarks
    if not remarks or answer.verdict == "unknown":
        return answer
    return answer.with_clauses(*remarks)


def agreeing_answers(least: Sequence[Fit], most: Sequence[Fit], drivers: Sequence[str]) -> list[Fit]:
    """Return the answers that hold wherever new volumes are reachable from: from one node only, or from all nodes.

    :param least: the answers with one node only, for the same jobs as ``most``.
    :param drivers: claims with their provisioners, for the message.
    """
    return [_agreed(one, other, drivers) for one, other in zip(least, most, strict=True)]


def _agreed(one: Fit, other: Fit, drivers: Sequence[str]) -> Fit:
    if one.verdict != other.verdict:
        why = say(
            "the nodes that can reach a new volume are unknown until it is provisioned: {drivers}",
            drivers=list(drivers),
        )
        return one.as_unknown(why)
    told = [(answer.starts, {id(victim.pod) for victim in answer.victims}) for answer in (one, other)]
    certain = one.certain and other.certain and told[0] == told[1]
    return replace(one, certain=certain)


def with_unit_names(amounts: Units) -> dict[str, float | int]:
    """Return amounts with their units in the keys: ``cpuCores``, ``memoryBytes``, ``nvidia.com/gpu``."""
    result: dict[str, float | int] = {}
    for name, amount in amounts.items():
        key, size = _UNITS.get(name, (name, 1))
        result[key] = amount / size if amount % size else amount // size
    return result


def from_unit_names(amounts: Mapping[str, float | int]) -> Units:
    """Return amounts in the scheduler's units: the inverse of :func:`with_unit_names`."""
    names = {key: (name, size) for name, (key, size) in _UNITS.items()}
    result: Units = {}
    for key, amount in amounts.items():
        name, size = names.get(key, (key, 1))
        result[name] = round(amount * size)
    return result
