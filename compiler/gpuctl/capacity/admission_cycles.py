"""Kueue's admission of jobs that are created one after another, in cycles of the first job of every ClusterQueue.

Source: Kueue 0.15, ``pkg/scheduler/scheduler.go``, ``pkg/cache/queue/cluster_queue.go``. Of jobs created within one
second the first in order comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from gpuctl.capacity.cohorts import FlavorResource
from gpuctl.capacity.flavor_assignment import FlavorAssignment, FlavorMode, LastTried, assign_flavors
from gpuctl.capacity.queue_preemption import QuotaHolders, QuotaVictim, release_quota, reserve_quota
from gpuctl.capacity.queue_quota import QuotaNode, quota_trees
from gpuctl.capacity.queue_state import QueuedJob, QueueState

_LATER = 1 << 40
"""Added to the number of a cycle: what is admitted in a run is admitted after all that is admitted already."""
_TERMINATION_CYCLES = 8
"""So many cycles the pods of preempted jobs last. There is one cycle before the next job comes."""


class _Entry(NamedTuple):
    job: QueuedJob
    choice: FlavorAssignment
    victims: list[QuotaVictim]


class AdmissionRun:
    """Jobs that come into the queues of a world, which stays as it is.

    By the jobs' numbers: ``admitted`` has those that have got quota, with their flavors by pod set, ``preempted`` those
    that have lost it, and ``stopped`` whom each has preempted, though it may have lost its quota to others since.
    """

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self.nodes = quota_trees(state.cluster_queues, state.cohorts)
        self._ties = count()
        self._holders = QuotaHolders(state, self.nodes)
        self._clock = 0
        self._active: dict[str, list[tuple[int, str, int, QueuedJob]]] = {}
        self._parked: dict[str, list[QueuedJob]] = {}
        self._sticky: dict[str, QueuedJob] = {}
        self._tried: dict[int, LastTried] = {}
        self._searches: set[tuple[int, frozenset[tuple[tuple[int, int], int]]]] = set()
        self._leaving: list[tuple[int, QueuedJob]] = []
        self.admitted: dict[int, list[dict[str, str]]] = {}
        self.stopped: dict[int, list[QuotaVictim]] = {}
        self.preempted: dict[int, QuotaVictim] = {}
        for job in state.holding:
            own = replace(job)
            self._holders.add(own)
            if own.evicted:
                self._leaving.append((_TERMINATION_CYCLES, own))

    def go(self, batches: Sequence[Sequence[QueuedJob]], parked: Sequence[QueuedJob]) -> None:
        """Let batches of jobs come, and Kueue admit until nothing changes; ``parked`` have been tried before."""
        for job in parked:
            self._park(replace(job))
        for batch in batches:
            for job in batch:
                self._push(replace(job))
            self._cycle()
        # Every job may be tried, preempted and tried again; a circle has to end all the same.
        for _ in range(8 * (sum(map(len, batches)) + len(parked) + len(self._state.holding) + 1)):
            if self._cycle():
                continue
            if not self._leaving:
                return
            # Nothing happens until the next pods are gone.
            self._clock = max(self._clock, min(clock for clock, _ in self._leaving))

    def is_admitted(self, number: int) -> bool:
        """Whether a job has its quota in the end."""
        return number in self.admitted

    @property
    def end(self) -> object:
        """Equal for runs that end alike."""
        admitted = sorted((number, str(flavors)) for number, flavors in self.admitted.items())
        lost = sorted((number, victim.job.number) for number, found in self.stopped.items() for victim in found)
        return tuple(admitted), tuple(lost), frozenset(self.preempted)

    def lost_to(self, number: int) -> list[int]:
        """Whom a job has stopped, and whom these have stopped in their turn to get quota again."""
        found: dict[int, None] = {}
        left = [number]
        while left:
            new = [item.job.number for item in self.stopped.get(left.pop(), ()) if item.job.number not in found]
            found.update(dict.fromkeys(new))
            left += new
        return list(found)

    def ahead(self, job: QueuedJob) -> int:
        """How many jobs of its ClusterQueue wait that come before it."""
        waiting = [item[3] for item in self._active.get(job.queue, ())] + self._parked.get(job.queue, [])
        return sum((-other.priority, other.created) < (-job.priority, job.created) for other in waiting)

    def _push(self, job: QueuedJob) -> None:
        self._active.setdefault(job.queue, []).append((-job.priority, job.created, next(self._ties), job))

    def _park(self, job: QueuedJob) -> None:
        if self._state.rules[job.queue].is_strict:
            self._push(job)
        else:
            self._parked.setdefault(job.queue, []).append(job)

    def _unpark(self, queue: str) -> None:
        """Try those again that wait where quota was given back. Source: QueueInadmissibleWorkloads."""
        roots = self._state.roots
        for name in [name for name in self._parked if roots[name] == roots[queue]]:
            for job in self._parked.pop(name):
                self._push(job)

    def _heads(self) -> list[QueuedJob]:
        heads = []
        for name, waiting in self._active.items():
            if not waiting or not self._state.rules[name].is_active:
                continue
            sticky = self._sticky.get(name)
            first = min(waiting, key=lambda item: (item[3] is not sticky, *item[:3]))
            waiting.remove(first)
            heads.append(first[3])
        return heads

    def _cycle(self) -> bool:
        """One cycle; whether anything came of it. Source: schedule."""
        self._clock += 1
        left = self._let_leave()
        heads = self._heads()
        entries = [self._nominate(job) for job in heads]
        order = sorted(
            entries, key=lambda item: (item.choice.borrows, -item.job.priority, item.job.created, next(self._ties))
        )
        reserved: list[tuple[QuotaNode, dict[FlavorResource, int]]] = []
        gone: list[QuotaVictim] = []
        changed = left
        for entry in order:
            changed = self._handle(entry, reserved, gone) or changed
        for node, usage in reversed(reserved):
            release_quota(node, usage)
        return changed

    def _handle(
        self, entry: _Entry, reserved: list[tuple[QuotaNode, dict[FlavorResource, int]]], gone: list[QuotaVictim]
    ) -> bool:
        job, choice, victims = entry
        node, rules = self.nodes[job.queue], self._state.rules[job.queue]
        if not choice.is_possible:
            return self._requeue(job, choice)
        if not choice.fits and not victims:
            if rules.reclaim != "Any":
                kept = self._reservation(choice, node)
                reserve_quota(node, kept)
                reserved.append((node, kept))
            return self._requeue(job, choice)
        if any(victim.job is other.job for victim in victims for other in gone) or not self._still_fits(
            node, choice, [*gone, *victims]
        ):
            self._tried.pop(job.number, None)
            self._push(job)
            return False
        gone += victims
        if choice.fits:
            self._admit(job, choice)
            return True
        reserve_quota(node, choice.usage)
        reserved.append((node, choice.usage))
        return self._preempt(job, victims)

    def _nominate(self, job: QueuedJob) -> _Entry:
        """Source: getInitialAssignments."""

        known: dict[tuple[frozenset[FlavorResource], tuple[tuple[FlavorResource, int], ...]], list[QuotaVictim]] = {}

        def victims_for(needed: frozenset[FlavorResource], usage: dict[FlavorResource, int]) -> list[QuotaVictim]:
            key = needed, tuple(usage.items())
            if key not in known:
                known[key] = self._holders.victims(job, needed, usage)
            return known[key]

        def oracle(slot: FlavorResource, amount: int) -> tuple[FlavorMode, int]:
            """Source: SimulatePreemption."""
            victims = victims_for(frozenset((slot,)), {slot: amount})
            for victim in victims:
                self._holders.free(victim.job)
            far = node.borrowing(slot, amount)[0]
            for victim in victims:
                self._holders.use(victim.job)
            if not victims:
                return FlavorMode.NO_CANDIDATES, far
            own = any(victim.job.queue == job.queue for victim in victims)
            return FlavorMode.PREEMPT if own else FlavorMode.RECLAIM, far

        node = self.nodes[job.queue]
        choice = assign_flavors(job, self._state.rules[job.queue], node, oracle, self._tried.get(job.number, {}))
        victims = victims_for(choice.preempts, choice.usage) if choice.preempts else []
        return _Entry(job, choice, victims)

    def _still_fits(self, node: QuotaNode, choice: FlavorAssignment, victims: Sequence[QuotaVictim]) -> bool:
        for victim in victims:
            self._holders.free(victim.job)
        fits = all(amount <= max(0, node.available(slot)) for slot, amount in choice.usage.items())
        for victim in victims:
            self._holders.use(victim.job)
        return fits

    def _reservation(self, choice: FlavorAssignment, node: QuotaNode) -> dict[FlavorResource, int]:
        """What is kept for a job that may get quota back later. Source: quotaResourcesToReserve."""
        kept = {}
        for slot, amount in choice.usage.items():
            quota, used = node.own[slot], node.used.get(slot, 0)
            if not choice.borrows:
                kept[slot] = max(0, min(amount, quota.nominal - used))
            elif quota.borrowing_limit is None:
                kept[slot] = amount
            else:
                kept[slot] = min(amount, quota.nominal + quota.borrowing_limit - used)
        return kept

    def _requeue(self, job: QueuedJob, choice: FlavorAssignment) -> bool:
        """Put a job back that has got nothing; whether that lets another be the first of its ClusterQueue."""
        self._tried[job.number] = choice.tried
        search = job.number, frozenset(choice.tried.items())
        # With several pod sets the next flavors may lead back to the first ones, again and again.
        pending = any(stop != -1 for stop in choice.tried.values()) and search not in self._searches
        self._searches.add(search)
        if self._sticky.get(job.queue) is job:
            del self._sticky[job.queue]
        if pending:
            self._push(job)
        else:
            self._park(job)
        return pending or not self._state.rules[job.queue].is_strict

    def _admit(self, job: QueuedJob, choice: FlavorAssignment) -> None:
        job.held, job.since, job.evicted = choice.usage, _LATER + self._clock, False
        self._holders.add(job)
        self._searches.clear()
        if self._sticky.get(job.queue) is job:
            del self._sticky[job.queue]
        self.preempted.pop(job.number, None)
        self.admitted[job.number] = choice.flavors

    def _preempt(self, job: QueuedJob, victims: Sequence[QuotaVictim]) -> bool:
        """Stop others, and wait until they are gone; whether any of them was not stopped before."""
        self._tried.pop(job.number, None)
        if not self._state.rules[job.queue].is_strict:
            self._sticky[job.queue] = job
        self._push(job)
        mine = self.stopped.setdefault(job.number, [])
        new = [victim for victim in victims if not victim.job.evicted]
        for victim in new:
            victim.job.evicted = True
            self._leaving.append((self._clock + _TERMINATION_CYCLES, victim.job))
            mine.append(victim)
            self.preempted[victim.job.number] = victim
        return bool(new)

    def _let_leave(self) -> bool:
        """Give back the quota of jobs that are stopped and whose pods are gone; most of them wait again."""
        done = [job for clock, job in self._leaving if clock < self._clock]
        self._leaving = [item for item in self._leaving if item[0] >= self._clock]
        for job in done:
            self._holders.drop(job)
            self._searches.clear()
            job.held, job.evicted = None, False
            self.admitted.pop(job.number, None)
            if not job.leaves:
                self._push(job)
            self._unpark(job.queue)
        return bool(done)
