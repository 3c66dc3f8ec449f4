"""Whether a job finds room, as it is told: without the pods and nodes that the answer rests on."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.capacity.fit import Fit, Verdict
from gpuctl.capacity.shortage import Balance


class ToldDemand(NamedTuple):
    """As :class:`~gpuctl.capacity.demand.Demand`."""

    kind: str
    namespace: str
    name: str
    pods: int


class ToldPod(NamedTuple):
    """A pod that would be evicted."""

    namespace: str
    name: str
    owner: str
    priority: int


class ToldVictim(NamedTuple):
    """As :class:`~gpuctl.capacity.fit.Victim`."""

    pod: ToldPod
    node: str


class ToldFit(NamedTuple):
    """As :class:`~gpuctl.capacity.fit.Fit`."""

    demand: ToldDemand
    verdict: Verdict
    reason: str
    starts: int
    victims: list[ToldVictim]
    certain: bool
    balance: Balance
    change: str | None


def told_fit(answer: Fit) -> ToldFit:
    """An answer as it is told."""
    demand = answer.demand
    return ToldFit(
        ToldDemand(demand.kind, demand.namespace, demand.name, demand.pods),
        answer.verdict,
        answer.reason,
        answer.starts,
        [ToldVictim(ToldPod(pod.namespace, pod.name, pod.owner, pod.priority), node) for pod, node in answer.victims],
        answer.certain,
        answer.balance,
        answer.change,
    )
