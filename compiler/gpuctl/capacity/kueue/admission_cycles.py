"""A simulation of Kueue's admission cycles for jobs created one after another.

Each cycle takes the first job of every ClusterQueue. Source: Kueue 0.19, ``pkg/scheduler/scheduler.go``,
``pkg/cache/queue/cluster_queue.go``. Of jobs created within one second the first in order comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.flavor_assignment import FlavorAssignment, FlavorMode, assign_flavors
from gpuctl.capacity.kueue.queue_preemption import QuotaHolders, release_quota, reserve_quota
from gpuctl.capacity.kueue.queue_quota import QuotaNode, quota_trees
from gpuctl.capacity.kueue.queue_state import QueuedJob, QueueState

_LATER = 1 << 40
"""Added to the number of an admission, so that jobs admitted in a run sort after all that were admitted before."""


class _Entry(NamedTuple):
    job: QueuedJob
    choice: FlavorAssignment
    victims: list[QueuedJob]


class AdmissionRun:
    """The admission of new jobs, starting from a state of the queues, which does not change.

    By job number: ``admitted``: the flavors by pod set of jobs that have quota in the end. ``preempted``: the jobs that
    have lost quota. ``stopped``: the victims of each job, even if it has lost its own quota since.
    """

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self.nodes = quota_trees(state.cluster_queues, state.cohorts)
        self._numbers = count(_LATER)
        self._holders = QuotaHolders(state, self.nodes)
        self._active: dict[str, list[tuple[int, str, int, QueuedJob]]] = {}
        self._parked: dict[str, list[QueuedJob]] = {}
        self._preempting: dict[str, QueuedJob] = {}
        self._leaving: list[QueuedJob] = []
        self.admitted: dict[int, list[dict[str, str]]] = {}
        self.stopped: dict[int, list[QueuedJob]] = {}
        self.preempted: dict[int, QueuedJob] = {}
        for job in state.holding:
            own = replace(job)
            self._holders.add(own)
            self._leaving += [own] if own.evicted else []

    def admit(self, batches: Sequence[Sequence[QueuedJob]], parked: Sequence[QueuedJob]) -> None:
        """Create batches of jobs and run cycles until nothing changes.

        The pods of preempted jobs take longer to end than the cycles that follow: their quota is released when no cycle
        changes anything.

        :param parked: jobs that Kueue has tried before without success.
        """
        for job in parked:
            self._park(replace(job))
        for batch in batches:
            for job in batch:
                self._push(replace(job))
            self._cycle()
        # Every job may be tried, preempted and tried again; the limit also ends endless cycles.
        for _ in range(8 * (sum(map(len, batches)) + len(parked) + len(self._state.holding) + 1)):
            if not self._cycle() and not self._release_ended():
                return

    def is_admitted(self, number: int) -> bool:
        """Return True if a job has quota in the end."""
        return number in self.admitted

    def preempted_by(self, number: int) -> list[int]:
        """Return the jobs that a job has preempted, and those that these have preempted in turn."""
        found: dict[int, None] = {}
        left = [number]
        while left:
            new = [item.number for item in self.stopped.get(left.pop(), ()) if item.number not in found]
            found.update(dict.fromkeys(new))
            left += new
        return list(found)

    def jobs_ahead_of(self, job: QueuedJob) -> int:
        """Return how many waiting jobs of its ClusterQueue come before a job."""
        waiting = [item[3] for item in self._active.get(job.queue, ())] + self._parked.get(job.queue, [])
        return sum((-other.priority, other.created) < (-job.priority, job.created) for other in waiting)

    def _push(self, job: QueuedJob) -> None:
        self._active.setdefault(job.queue, []).append((-job.priority, job.created, next(self._numbers), job))

    def _park(self, job: QueuedJob) -> None:
        self._end_preempting(job)
        if self._state.rules[job.queue].is_strict:
            self._push(job)
        else:
            self._parked.setdefault(job.queue, []).append(job)

    def _heads(self) -> list[QueuedJob]:
        """Take the first job of every ClusterQueue: one that waits for the end of others before all others."""
        heads = []
        for name, waiting in self._active.items():
            if waiting and self._state.rules[name].is_active:
                preempting = self._preempting.get(name)
                first = min(waiting, key=lambda item: (item[3] is not preempting, *item[:3]))
                waiting.remove(first)
                heads.append(first[3])
        return heads

    def _end_preempting(self, job: QueuedJob) -> None:
        if self._preempting.get(job.queue) is job:
            del self._preempting[job.queue]

    def _cycle(self) -> bool:
        """Run one cycle; return True if anything changed. Source: schedule."""
        entries = [self._nominate(job) for job in self._heads()]
        entries.sort(key=lambda item: (item.choice.borrows, -item.job.priority, item.job.created))
        reserved: list[tuple[QuotaNode, dict[FlavorResource, int]]] = []
        gone: list[QueuedJob] = []
        changed = [self._handle(entry, reserved, gone) for entry in entries]
        for node, usage in reversed(reserved):
            release_quota(node, usage)
        return any(changed)

    def _handle(
        self, entry: _Entry, reserved: list[tuple[QuotaNode, dict[FlavorResource, int]]], gone: list[QueuedJob]
    ) -> bool:
        """Admit a job, preempt jobs for it, or requeue it; return True if that can change what comes next."""
        job, choice, victims = entry
        node, rules = self.nodes[job.queue], self._state.rules[job.queue]
        if not choice.fits and not victims:
            if rules.reclaim_policy != "Any":
                kept = self._reservation(choice, node)
                reserve_quota(node, kept)
                reserved.append((node, kept))
            self._park(job)
            # Another job of its ClusterQueue may come first now.
            return not rules.is_strict
        if any(victim is other for victim in victims for other in gone) or not self._still_fits(
            node, choice, [*gone, *victims]
        ):
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
        """Source: getInitialAssignments, SimulatePreemption."""

        node = self.nodes[job.queue]

        def oracle(slot: FlavorResource, amount: int) -> tuple[FlavorMode, int]:
            victims = self._holders.victims(job, frozenset((slot,)), {slot: amount})
            with self._holders.without(victims):
                far = node.borrowing_distance(slot, amount)[0]
            if not victims:
                return FlavorMode.NO_CANDIDATES, far
            own = any(victim.queue == job.queue for victim in victims)
            return FlavorMode.PREEMPT if own else FlavorMode.RECLAIM, far

        choice = assign_flavors(job, self._state.rules[job.queue], node, oracle)
        victims = self._holders.victims(job, choice.preempts, choice.usage) if choice.preempts else []
        return _Entry(job, choice, victims)

    def _still_fits(self, node: QuotaNode, choice: FlavorAssignment, victims: Sequence[QueuedJob]) -> bool:
        with self._holders.without(victims):
            return all(amount <= max(0, node.available(slot)) for slot, amount in choice.usage.items())

    def _reservation(self, choice: FlavorAssignment, node: QuotaNode) -> dict[FlavorResource, int]:
        """Return the quota that other queues may not borrow before a job, which may not be able to reclaim it later.

        Source: quotaResourcesToReserve.
        """
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

    def _admit(self, job: QueuedJob, choice: FlavorAssignment) -> None:
        self._end_preempting(job)
        job.held, job.since, job.evicted = choice.usage, next(self._numbers), False
        self._holders.add(job)
        self.preempted.pop(job.number, None)
        self.admitted[job.number] = choice.flavors

    def _preempt(self, job: QueuedJob, victims: Sequence[QueuedJob]) -> bool:
        """Preempt jobs and wait for their end; return True if any of them is a new victim."""
        self._push(job)
        if not self._state.rules[job.queue].is_strict:
            self._preempting[job.queue] = job
        new = [victim for victim in victims if not victim.evicted]
        self.stopped.setdefault(job.number, []).extend(new)
        for victim in new:
            victim.evicted = True
            self._leaving.append(victim)
            self.preempted[victim.number] = victim
        return bool(new)

    def _release_ended(self) -> bool:
        """Release the quota of preempted jobs; most of them queue again. Source: QueueInadmissibleWorkloads."""
        done, self._leaving = self._leaving, []
        roots = self._state.roots
        for job in done:
            self._holders.drop(job)
            job.held, job.evicted = None, False
            self.admitted.pop(job.number, None)
            if not job.ends_after_eviction:
                self._push(job)
            for name in [name for name in self._parked if roots[name] == roots[job.queue]]:
                for parked in self._parked.pop(name):
                    self._push(parked)
        return bool(done)
