"""Kueue's preemption without fair sharing: the jobs that lose their quota to another job.

Source: Kueue 0.19, ``pkg/scheduler/preemption/preemption.go`` (classicalPreemptions), and the packages ``classical``
and ``common`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.queue_quota import QuotaNode
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, QueuedJob, QueueState


class _Candidate(NamedTuple):
    """A possible victim. ``top``: the lowest cohort that both ClusterQueues share.

    Not ``also_borrowing``: it may only be preempted by a job that does not borrow.
    """

    victim: QueuedJob
    top: QuotaNode | None
    also_borrowing: bool


class QuotaHolders:
    """The jobs that hold quota in one run. Reserving and releasing changes the usage of the nodes."""

    def __init__(self, state: QueueState, nodes: Mapping[str, QuotaNode]) -> None:
        self._rules = state.rules
        self._nodes = nodes
        self._by_queue: dict[str, list[QueuedJob]] = {}

    def add(self, job: QueuedJob) -> None:
        """Add a job that holds quota."""
        self._by_queue.setdefault(job.queue, []).append(job)
        self.use(job)

    def drop(self, job: QueuedJob) -> None:
        """Remove a job and release its quota."""
        self._by_queue[job.queue].remove(job)
        self.free(job)

    def use(self, job: QueuedJob) -> None:
        """Count a job's quota as used."""
        reserve_quota(self._nodes[job.queue], job.held or {})

    def free(self, job: QueuedJob) -> None:
        """Count it as free."""
        release_quota(self._nodes[job.queue], job.held or {})

    @contextmanager
    def without(self, victims: Iterable[QueuedJob]) -> Iterator[None]:
        """Count the quota of some jobs as free for a block."""
        gone = list(victims)
        for victim in gone:
            self.free(victim)
        yield
        for victim in gone:
            self.use(victim)

    def of(self, queue: str) -> list[QueuedJob]:
        """Return the jobs of a ClusterQueue that may be preempted."""
        return self._by_queue.get(queue, []) if self._rules[queue].is_active else []

    def victims(
        self, job: QueuedJob, needed: frozenset[FlavorResource], usage: Mapping[FlavorResource, int]
    ) -> list[QueuedJob]:
        """Return the jobs to preempt for a usage of which the flavor resources ``needed`` are short; empty if
        preemption does not help.
        """
        rules, node = self._rules[job.queue], self._nodes[job.queue]
        if not rules.preempts:
            return []
        same = _ordered(self._same_queue(job, rules, needed))
        above, others = (_ordered(found) for found in self._others(job, rules, node, needed, usage))
        every = [*above, *others, *same]
        # Jobs that are being preempted already come first.
        every.sort(key=lambda item: not item.victim.evicted)
        under = all(node.used.get(slot, 0) < node.subtree.get(slot, 0) for slot in needed)
        if not (above or others) or (not rules.borrows and not under):
            attempts = [True]
        elif not rules.borrows and not above:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            found = self._attempt(job, every, needed, usage, borrowing=borrowing)
            if found:
                return found
        return []

    def _attempt(
        self,
        job: QueuedJob,
        candidates: Iterable[_Candidate],
        needed: frozenset[FlavorResource],
        usage: Mapping[FlavorResource, int],
        *,
        borrowing: bool,
    ) -> list[QueuedJob]:
        node, found = self._nodes[job.queue], list[QueuedJob]()

        def fits() -> bool:
            return all(
                (borrowing or not node.would_borrow(slot, amount)) and amount <= max(0, node.available(slot))
                for slot, amount in usage.items()
            )

        try:
            for candidate in candidates:
                if not self._is_valid(job, candidate, needed, borrowing=borrowing):
                    continue
                self.free(candidate.victim)
                found.append(candidate.victim)
                if fits():
                    self._fill_back(found, fits)
                    return list(found)
            return []
        finally:
            for victim in found:
                self.use(victim)

    def _fill_back(self, found: list[QueuedJob], fits: Callable[[], bool]) -> None:
        """Spare the victims that are not needed. Source: fillBackWorkloads."""
        for index in range(len(found) - 2, -1, -1):
            self.use(found[index])
            if fits():
                found[index] = found[-1]
                found.pop()
            else:
                self.free(found[index])

    def _is_valid(
        self, job: QueuedJob, candidate: _Candidate, needed: frozenset[FlavorResource], *, borrowing: bool
    ) -> bool:
        """Return True if preempting a job of another ClusterQueue still reclaims quota. Source: candidateIsValid."""
        victim = candidate.victim
        if victim.queue == job.queue:
            return True
        if borrowing and not candidate.also_borrowing:
            return False
        node = self._nodes[victim.queue]
        if node.borrows_none(needed):
            return False
        for cohort in node.ancestors():
            if cohort is candidate.top:
                break
            if cohort.borrows_none(needed):
                return False
        return True

    def _same_queue(
        self, job: QueuedJob, rules: ClusterQueueRules, needed: frozenset[FlavorResource]
    ) -> Iterator[_Candidate]:
        for other in self.of(job.queue):
            if _uses(other, needed) and may_preempt(job, other, rules.preemption_policy):
                yield _Candidate(other, None, True)

    def _others(
        self,
        job: QueuedJob,
        rules: ClusterQueueRules,
        node: QuotaNode,
        needed: frozenset[FlavorResource],
        usage: Mapping[FlavorResource, int],
    ) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return candidates of other ClusterQueues: those over which the cohort tree gives precedence, and those by
        priority.

        Source: collectCandidatesForHierarchicalReclaim.
        """
        above: list[_Candidate] = []
        others: list[_Candidate] = []
        if rules.reclaim_policy == "Never":
            return above, others
        precedes, rest = node.fits_quota(usage)
        before: QuotaNode | None = None
        for top in node.ancestors():
            for queue in _borrowing_queues(top, before, needed):
                if queue is node:
                    continue
                for other in self.of(queue.name):
                    if not _uses(other, needed) or not may_preempt(job, other, rules.reclaim_policy):
                        continue
                    if precedes:
                        above.append(_Candidate(other, top, True))
                    else:
                        others.append(_Candidate(other, top, _is_below(job, other, rules)))
            fits, rest = top.fits_quota(rest)
            precedes, before = precedes or fits, top
        return above, others


def reserve_quota(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
    """Add a usage to a ClusterQueue."""
    for slot, amount in usage.items():
        node.add(slot, amount)


def release_quota(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
    """Remove a usage from a ClusterQueue."""
    for slot, amount in usage.items():
        node.remove(slot, amount)


def _borrowing_queues(
    top: QuotaNode, skipped: QuotaNode | None, needed: frozenset[FlavorResource]
) -> Iterator[QuotaNode]:
    """Yield the ClusterQueues below a cohort that borrow. Source: collectCandidatesInSubtree."""
    for cohort in top.cohorts:
        if cohort is not skipped and not cohort.borrows_none(needed):
            yield from _borrowing_queues(cohort, skipped, needed)
    yield from (queue for queue in top.queues if not queue.borrows_none(needed))


def _ordered(found: Iterable[_Candidate]) -> list[_Candidate]:
    """Sort by ascending priority, then the latest admission first. Source: CandidatesOrdering."""
    return sorted(found, key=lambda item: item.victim.importance)


def _uses(job: QueuedJob, needed: frozenset[FlavorResource]) -> bool:
    return not needed.isdisjoint(job.held or {})


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
