"""Whether a job finds room, as it is told: without the pods and nodes that the answer rests on."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.capacity.fit import Fit, Verdict
from gpuctl.capacity.seats import Units


class ToldDemand(NamedTuple):
    """As :class:`~gpuctl.capacity.demand.Demand`."""

    kind: str
    namespace: str
    name: str
    pods: int


class ToldPod(NamedTuple):
    """A pod that would be evicted; all of those whom the caller may not see are one, without a priority."""

    namespace: str
    name: str
    owner: str
    priority: int | None


class ToldVictim(NamedTuple):
    """As :class:`~gpuctl.capacity.fit.Victim`; what differs among those who may not be seen is None."""

    pod: ToldPod
    node: str | None


class ToldHolder(NamedTuple):
    """As :class:`~gpuctl.capacity.shortage.Holder`; all of those whom the caller may not see are one."""

    namespace: str
    owner: str
    priority: int | None
    pods: int | None
    amount: int


class ToldBalance(NamedTuple):
    """As :class:`~gpuctl.capacity.shortage.Balance`."""

    per_pod: Units
    need: Units
    free: Units
    largest: tuple[str, Units] | None
    scarce: str
    held_by: list[ToldHolder]


class ToldEnding(NamedTuple):
    """As :class:`~gpuctl.capacity.verdicts.Ending`; all of those whom the caller may not see are one."""

    namespace: str
    job: str
    at: str | None


class ToldOpening(NamedTuple):
    """As :class:`~gpuctl.capacity.verdicts.Opening`."""

    now: str
    at: str
    after: list[ToldEnding]


class ToldFit(NamedTuple):
    """As :class:`~gpuctl.capacity.fit.Fit`."""

    demand: ToldDemand
    verdict: Verdict
    reason: str
    starts: int
    victims: list[ToldVictim]
    certain: bool
    balance: ToldBalance
    change: str | None
    likelihood: float | None
    held: Units
    opening: ToldOpening | None
    admitted: bool | None


def told_fit(answer: Fit) -> ToldFit:
    """An answer as it is told."""
    demand, opening = answer.demand, answer.opening
    return ToldFit(
        ToldDemand(demand.kind, demand.namespace, demand.name, demand.pods),
        answer.verdict,
        answer.reason,
        answer.starts,
        [ToldVictim(ToldPod(pod.namespace, pod.name, pod.owner, pod.priority), node) for pod, node in answer.victims],
        answer.certain,
        ToldBalance(*answer.balance[:-1], [ToldHolder(*holder) for holder in answer.balance.held_by]),
        answer.change,
        answer.likelihood,
        answer.held,
        None if opening is None else ToldOpening(*opening[:-1], [ToldEnding(*ending) for ending in opening.after]),
        answer.admitted,
    )
