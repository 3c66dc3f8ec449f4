"""Kueue's preemption without fair sharing: the jobs that lose their quota to another job.

Source: Kueue 0.19, ``pkg/scheduler/preemption/preemption.go`` (classicalPreemptions), and the packages ``classical``
and ``common`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from gpuctl.capacity.cohorts import FlavorResource
from gpuctl.capacity.queue_quota import QuotaNode
from gpuctl.capacity.queue_state import ClusterQueueRules, QueuedJob, QueueState


class QuotaVictim(NamedTuple):
    """A job that loses its quota. ``reclaimed``: because its ClusterQueue had borrowed it."""

    job: QueuedJob
    reclaimed: bool


class QuotaHolders:
    """The jobs that hold quota in one run. Reserving and releasing changes the usage of the nodes."""

    def __init__(self, state: QueueState, nodes: Mapping[str, QuotaNode]) -> None:
        self._rules = state.rules
        self._nodes = nodes
        self._by_queue: dict[str, list[QueuedJob]] = {}

    def add(self, job: QueuedJob) -> None:
        """Add a job that holds quota."""
        self._by_queue.setdefault(job.queue, []).append(job)
        self._use(job)

    def drop(self, job: QueuedJob) -> None:
        """Remove a job and release its quota."""
        self._by_queue[job.queue].remove(job)
        self._free(job)

    @contextmanager
    def without(self, victims: Iterable[QuotaVictim]) -> Iterator[None]:
        """Count the quota of some jobs as free for a block."""
        gone = list(victims)
        for victim in gone:
            self._free(victim.job)
        yield
        for victim in gone:
            self._use(victim.job)

    def victims(
        self, job: QueuedJob, needed: frozenset[FlavorResource], usage: Mapping[FlavorResource, int]
    ) -> list[QuotaVictim]:
        """Return the jobs to preempt for a usage of which the flavor resources ``needed`` are short; empty if
        preemption does not help.
        """
        node, found = self._nodes[job.queue], list[QuotaVictim]()

        def fits() -> bool:
            return all(amount <= max(0, node.available(slot)) for slot, amount in usage.items())

        try:
            # Jobs that are being preempted already come first.
            for victim in sorted(
                self._candidates(job, needed, usage),
                key=lambda item: (not item.job.evicted, not item.reclaimed, item.job.importance),
            ):
                if victim.reclaimed and self._nodes[victim.job.queue].borrows_none(needed):
                    continue
                self._free(victim.job)
                found.append(victim)
                if fits():
                    self._fill_back(found, fits)
                    return list(found)
            return []
        finally:
            for victim in found:
                self._use(victim.job)

    def _use(self, job: QueuedJob) -> None:
        reserve_quota(self._nodes[job.queue], job.held or {})

    def _free(self, job: QueuedJob) -> None:
        release_quota(self._nodes[job.queue], job.held or {})

    def _fill_back(self, found: list[QuotaVictim], fits: Callable[[], bool]) -> None:
        """Spare the victims that are not needed. Source: fillBackWorkloads."""
        for index in range(len(found) - 2, -1, -1):
            self._use(found[index].job)
            if fits():
                found[index] = found[-1]
                found.pop()
            else:
                self._free(found[index].job)

    def _candidates(
        self, job: QueuedJob, needed: frozenset[FlavorResource], usage: Mapping[FlavorResource, int]
    ) -> Iterator[QuotaVictim]:
        """Yield the possible victims: of its own ClusterQueue, and of those in its cohorts that borrow.

        A job within the quota of its ClusterQueue, or of a cohort below the one that both share, takes quota back. A
        job that borrows itself preempts only jobs of lower priority. Source: collectCandidatesForHierarchicalReclaim.
        """
        rules, node = self._rules[job.queue], self._nodes[job.queue]
        for other in self._of(job.queue, needed):
            if may_preempt(job, other, rules.preemption_policy):
                yield QuotaVictim(other, False)
        precedes, rest = node.fits_quota(usage)
        for cohort, queues in node.lenders():
            for queue in queues:
                for other in self._of(queue.name, needed) if not queue.borrows_none(needed) else ():
                    if may_preempt(job, other, rules.reclaim_policy) and (precedes or _is_below(job, other, rules)):
                        yield QuotaVictim(other, True)
            fits, rest = cohort.fits_quota(rest)
            precedes = precedes or fits

    def _of(self, queue: str, needed: frozenset[FlavorResource]) -> list[QueuedJob]:
        """Return the jobs of a ClusterQueue that may be preempted for some flavor resources."""
        jobs = self._by_queue.get(queue, []) if self._rules[queue].is_active else []
        return [job for job in jobs if not needed.isdisjoint(job.held or {})]


def reserve_quota(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
    """Add a usage to a ClusterQueue."""
    for slot, amount in usage.items():
        node.add(slot, amount)


def release_quota(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
    """Remove a usage from a ClusterQueue."""
    for slot, amount in usage.items():
        node.remove(slot, amount)


def may_preempt(job: QueuedJob, other: QueuedJob, policy: str) -> bool:
    """Return True if a policy lets a job preempt another. Source: SatisfiesPreemptionPolicy."""
    if policy in ("LowerPriority", "LowerOrNewerEqualPriority") and job.priority > other.priority:
        return True
    if policy == "LowerOrNewerEqualPriority":
        return job.priority == other.priority and job.created < other.created
    return policy == "Any"


def _is_below(job: QueuedJob, other: QueuedJob, rules: ClusterQueueRules) -> bool:
    """Return True if a job may be preempted even while the other one borrows. Source: classifyPreemptionVariant."""
    if not rules.borrows or other.priority >= job.priority:
        return False
    return rules.threshold is None or other.priority <= rules.threshold
