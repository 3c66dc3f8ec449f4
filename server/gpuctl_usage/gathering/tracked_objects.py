"""The pods and nodes whose intervals are open, with what is known about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from gpuctl_usage.facts import Capacity, Holding, WorkloadKey
from gpuctl_usage.gathering.object_facts import NamespaceFacts, NodeFacts, PodFacts, Texts


class Belonging(NamedTuple):
    """The top-level workload of a pod, with its collected labels and annotations.

    :param certain: True if all owners were found. An uncertain result does not replace a certain one.
    """

    workload: WorkloadKey
    labels: Texts = ()
    annotations: Texts = ()
    written: float | None = None
    certain: bool = True

    @classmethod
    def of(cls, holding: Holding) -> Belonging:
        """Return the workload of a holding as it was recorded."""
        return cls(holding.workload, tuple(sorted(holding.labels.items())), tuple(sorted(holding.annotations.items())))


class Dated(Protocol):
    """An object with the time of its last write."""

    @property
    def written(self) -> float | None: ...


class Changes(NamedTuple):
    """Holdings and capacities that changed, and the earliest time that they affect."""

    holdings: list[Holding]
    capacities: list[Capacity]
    since: float | None


class ChangeRecorder:
    """Collects changes until they are taken.

    :ivar capacity_ends: when the last closed capacity of each node ended.
    """

    def __init__(self) -> None:
        self.capacity_ends: dict[str, float] = {}
        self._holdings: dict[tuple[str, float], Holding] = {}
        self._capacities: dict[tuple[str, float], Capacity] = {}
        self._since: float | None = None

    def put_holding(self, holding: Holding, since: float) -> None:
        """Record a holding that changed. ``since``: the earliest time that the change affects."""
        self._holdings[holding.pod_uid, holding.start] = holding
        self._since = since if self._since is None else min(self._since, since)

    def put_capacity(self, capacity: Capacity, since: float) -> None:
        """Record a capacity that changed, as :meth:`put_holding`."""
        self._capacities[capacity.node, capacity.start] = capacity
        if capacity.end is not None:
            self.capacity_ends[capacity.node] = capacity.end
        self._since = since if self._since is None else min(self._since, since)

    def holdings_on(self, node: str) -> list[Holding]:
        """Return the recorded holdings of a node."""
        return [holding for holding in self._holdings.values() if holding.node == node]

    def take(self) -> Changes:
        """Return the changes since the last call."""
        changes = Changes(list(self._holdings.values()), list(self._capacities.values()), self._since)
        self._holdings, self._capacities, self._since = {}, {}, None
        return changes


@dataclass
class TrackedPod:
    """A pod with its open holding.

    :param node: the name of its node; "" if it has none yet.
    :param over: True after it has ended; ``unsized``: its share of a card has an unknown size; ``crowded``: the shares
        of its node exceed the cards.
    :param not_before: a new holding begins then at the earliest.
    :param is_recorded: True if an earlier collector has stored the end of its holdings.
    """

    facts: PodFacts | None = None
    belonging: Belonging | None = None
    open: Holding | None = None
    node: str = ""
    over: bool = False
    unsized: bool = False
    crowded: bool = False
    not_before: float = 0.0
    is_recorded: bool = False

    def belong(self, belonging: Belonging) -> None:
        """Update its workload."""
        if self.belonging is None and self.open is not None:
            # After a restart, the restored holding has the last known workload.
            self.belonging = belonging if belonging.certain else Belonging.of(self.open)
        elif self.belonging is None or belonging.certain:
            self.belonging = belonging


@dataclass
class TrackedNode:
    """A node with its open capacity, and the uids of its pods."""

    facts: NodeFacts | None = None
    open: Capacity | None = None
    pods: set[str] = field(default_factory=set)

    @property
    def gpus(self) -> float:
        """Return the GPUs of the open capacity."""
        return 0.0 if self.open is None else self.open.gpus

    def is_replaced_by(self, facts: NodeFacts, known_until: float) -> bool:
        """Return True if the node of an earlier collector was deleted since ``known_until``, and another one of its
        name created.
        """
        return self.facts is None and self.open is not None and facts.created > max(known_until, self.open.start)


def change_time(before: Dated | None, now: Dated) -> float | None:
    """Return when the change of an object was written; None if unknown: removing a field leaves no time in managed
    fields.
    """
    if before is not None and before.written is not None and now.written is not None and now.written <= before.written:
        return None
    return now.written


def texts_of(parts: Iterable[NamespaceFacts | PodFacts | Belonging | None], name: str) -> Mapping[str, str]:
    """Return the labels or annotations of a namespace, a pod and its workload together; later ones replace earlier
    ones.
    """
    return {key: value for part in parts if part is not None for key, value in getattr(part, name)}


def capacity_of(facts: NodeFacts, pods: Iterable[TrackedPod], offered: float, *, all_known: bool) -> float:
    """Return a node's allocatable GPUs, at least the ones held by pods: a failed card, or one whose device plugin
    restarts, is held until its pod ends.

    :param offered: GPUs that DRA drivers offer.
    :param all_known: False until all pods are listed: it is not known before which of them hold claimed GPUs.
    """
    held = claimed = 0.0
    for pod in pods:
        if pod.open is not None and pod.facts is not None and pod.facts.by_claim:
            claimed += pod.open.gpus
        elif pod.open is not None:
            held += pod.open.gpus
    own = facts.allocatable
    if own < facts.capacity:
        own = max(own, min(facts.capacity, held))
    # Claimed GPUs exist even if the ResourceSlices cannot be read.
    total = own + max(offered, claimed)
    return total if all_known else max(total, held + claimed)


def times_above(holdings: Iterable[Holding], gpus: float, earliest: float) -> list[tuple[float, float]]:
    """Return the times after ``earliest`` in which holdings together have more than a number of GPUs, in order."""
    once = {
        (item.pod_uid, item.start): (item.start, math.inf if item.end is None else item.end, item.gpus)
        for item in holdings
    }
    times = sorted({max(time, earliest) for start, end, _ in once.values() for time in (start, end)})
    return [
        (begin, following)
        for begin, following in pairwise(times)
        if sum(held for start, end, held in once.values() if start <= begin < end) > gpus
    ]
