"""Verdicts of queued jobs that are created one after another, and which of them hold in every order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import prod
from typing import NamedTuple

from gpuctl.capacity.admission_cycles import AdmissionRun
from gpuctl.capacity.cohorts import FlavorResource
from gpuctl.capacity.flavor_assignment import FlavorMode, assign_flavors
from gpuctl.capacity.queue_preemption import may_preempt, release_quota, reserve_quota
from gpuctl.capacity.queue_quota import QuotaNode, quota_trees
from gpuctl.capacity.queue_state import NOT_CREATED, QueuedJob, QueueState

_FEW = 3
"""Of so many jobs every order is tried."""
_MANY = 1 << 10
"""So many choices of flavors are looked at for one job at most."""


class QueueOutcome(NamedTuple):
    """The jobs in their order of creation, and whether every other order has the same result.

    ``sure`` are the numbers of the jobs that are admitted in every order.
    """

    run: AdmissionRun
    holds_in_every_order: bool
    decided: dict[int, bool]


def simulate_admission(
    state: QueueState, coming: Sequence[QueuedJob], *, retries_waiting: bool, ordered: bool = True
) -> QueueOutcome:
    """Return what becomes of jobs that come into the queues of one root.

    :param fresh: those that wait already are tried again, too: quota has been given back.
    :param ordered: Kueue takes them by priority and time. Where it does not, nothing but who is ``sure`` holds.
    """
    waiting = sorted(state.waiting, key=lambda job: job.created)
    # Those that wait already, and are looked at first, or asked about: Kueue knows them before anybody else comes.
    again = waiting if retries_waiting else []
    first = again or [job for job in waiting if job.is_untried and not state.rules[job.queue].is_strict]
    parked = [job for job in waiting if job not in first]
    known = [job for job in coming if not job.created.startswith(NOT_CREATED)]
    new = [job for job in coming if job.created.startswith(NOT_CREATED)]
    decided = _decided(state, [*waiting, *coming])
    run = AdmissionRun(state)
    run.go([[*first, *known], *([job] for job in new)], parked)
    movers = [*first, *coming]
    # Whatever comes first, all of them are admitted with the same flavors, or none is.
    settled = len(decided) == len(movers) + len(parked) and _is_plain(state, decided, movers)
    ranks = {(job.queue, job.priority, job.created) for job in (*waiting, *coming)}
    if settled or not ordered or len(new) + len(again) > _FEW or len(ranks) < len(waiting) + len(coming):
        return QueueOutcome(run, settled, decided)
    every = [run]
    for batches in _orders([*again, *new]):
        every.append(AdmissionRun(state))
        every[-1].go([[job for job in first if job not in again] + known, *batches], parked)
    # When the pods of preempted jobs are gone decides, too.
    steady = len(every) <= 2 or not any(one.stopped for one in every)
    for job in movers if steady else ():
        ends = {one.is_admitted(job.number) for one in every}
        if len(ends) == 1:
            decided[job.number] = ends.pop()
    return QueueOutcome(run, steady and len({one.end for one in every}) == 1, decided)


def _orders(jobs: Sequence[QueuedJob]) -> Iterator[list[list[QueuedJob]]]:
    """Yield every order in which jobs may be created and come, cut into batches in every way."""
    for chosen in permutations(jobs):
        order = [
            replace(job, created=f"{NOT_CREATED}{rank:06d}") if job.created.startswith(NOT_CREATED) else job
            for rank, job in enumerate(chosen)
        ]
        for cuts in product((False, True), repeat=max(0, len(order) - 1)):
            batches = [order[:1]]
            for job, cut in zip(order[1:], cuts, strict=True):
                if cut:
                    batches.append([])
                batches[-1].append(job)
            yield batches


def _is_plain(state: QueueState, decided: dict[int, bool], movers: Sequence[QueuedJob]) -> bool:
    """Whether there is one outcome: nobody is admitted, or nobody has a choice of flavors."""
    if not any(decided.values()):
        return True
    return all(
        sum(flavor not in pods.excluded for flavor in group.flavors) < 2
        for job in movers
        for pods in job.pod_sets
        for group in state.rules[job.queue].groups
        if group.resources & pods.requests.keys()
    )


def is_never_admitted(state: QueueState, job: QueuedJob) -> bool:
    """Whether a job is never admitted, not even when nobody else is there."""
    node = quota_trees(state.cluster_queues, state.cohorts)[job.queue]
    return not _may_fit(state, node, job)


def _decided(state: QueueState, jobs: Sequence[QueuedJob]) -> dict[int, bool]:
    """The jobs that are admitted, or have to wait, whatever comes first."""
    if any(other.evicted for other in state.holding):
        return {}
    nodes = _nodes(state)
    if _all_fit(state, nodes, jobs):
        return {job.number: True for job in jobs}
    if any(_may_take(state, job, other) for job in jobs for other in state.holding):
        return {}
    # Nobody who holds quota now ever loses it, so there is never more than there is now.
    return {job.number: False for job in jobs if not _may_fit(state, nodes[job.queue], job)}


def _all_fit(state: QueueState, nodes: dict[str, QuotaNode], jobs: Sequence[QueuedJob]) -> bool:
    """Whether the first flavor that is for a job has room for it when all others have taken what they may, of each."""
    every = {job.number: _usage(state, job, None) for job in jobs}
    for job in jobs:
        reserve_quota(nodes[job.queue], every[job.number])
    fits = True
    for job in jobs:
        node = nodes[job.queue]
        release_quota(node, every[job.number])
        first = _usage(state, job, 1)
        covered = {slot.resource for slot in first} == job.requests.keys()
        fits = fits and covered and all(amount <= node.available(slot) for slot, amount in first.items())
        reserve_quota(node, every[job.number])
    for job in jobs:
        release_quota(nodes[job.queue], every[job.number])
    return fits


def _usage(state: QueueState, job: QueuedJob, most: int | None) -> dict[FlavorResource, int]:
    """What a job takes if it takes all it asks for of each of the first flavors that are for it."""
    usage: dict[FlavorResource, int] = {}
    for pods in job.pod_sets:
        for group in state.rules[job.queue].groups:
            for flavor in [name for name in group.flavors if name not in pods.excluded][:most]:
                for resource, amount in pods.requests.items():
                    if resource in group.resources:
                        slot = FlavorResource(flavor, resource)
                        usage[slot] = usage.get(slot, 0) + amount
    return usage


def _nodes(state: QueueState) -> dict[str, QuotaNode]:
    nodes = quota_trees(state.cluster_queues, state.cohorts)
    for job in state.holding:
        reserve_quota(nodes[job.queue], job.held or {})
    return nodes


def _may_fit(state: QueueState, node: QuotaNode, job: QueuedJob) -> bool:
    """Whether a job is admitted with some flavors when nobody is preempted.

    A search that fails at a later pod set goes on with the next flavors of those before, so that with several any of
    their flavors may be tried; of very many choices it is not looked at all: one may do.
    """
    rules = state.rules[job.queue]
    starts = [
        [((number, place), stop) for stop in range(-1, len(group.flavors) - 1)]
        for number, pods in enumerate(job.pod_sets if len(job.pod_sets) > 1 else ())
        for place, group in enumerate(rules.groups)
        if group.resources & pods.requests.keys()
    ]
    if prod(map(len, starts)) > _MANY:
        return True
    return any(
        assign_flavors(job, rules, node, lambda slot, amount: (FlavorMode.NO_CANDIDATES, 0), dict(tried)).fits
        for tried in product(*starts)
    )


def _may_take(state: QueueState, job: QueuedJob, other: QueuedJob) -> bool:
    rules = state.rules[job.queue]
    return may_preempt(job, other, rules.within if job.queue == other.queue else rules.reclaim)
