"""Verdicts of queued jobs that are created one after another, and which of them hold in every order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import prod
from typing import NamedTuple

from gpuctl.capacity.admission_cycles import QueueRun
from gpuctl.capacity.cohorts import Slot
from gpuctl.capacity.flavor_assignment import FlavorMode, choose
from gpuctl.capacity.queue_preemption import free, may_preempt, use
from gpuctl.capacity.queue_quota import QuotaNode, forest
from gpuctl.capacity.queue_state import UNBORN, QueuedJob, QueueWorld

_FEW = 3
"""Of so many jobs every order is tried."""
_MANY = 1 << 10
"""So many choices of flavors are looked at for one job at most."""


class QueueOutcome(NamedTuple):
    """The jobs in their order of creation, and whether every other order has the same result.

    ``sure`` are the numbers of the jobs that are admitted in every order.
    """

    run: QueueRun
    is_all: bool
    sure: dict[int, bool]


def outcome(world: QueueWorld, coming: Sequence[QueuedJob], *, fresh: bool, ordered: bool = True) -> QueueOutcome:
    """Return what becomes of jobs that come into the queues of one root.

    :param fresh: those that wait already are tried again, too: quota has been given back.
    :param ordered: Kueue takes them by priority and time. Where it does not, nothing but who is ``sure`` holds.
    """
    waiting = sorted(world.waiting, key=lambda job: job.created)
    # Those that wait already, and are looked at first, or asked about: Kueue knows them before anybody else comes.
    again = waiting if fresh else []
    first = again or [job for job in waiting if job.is_untried and not world.rules[job.queue].is_strict]
    parked = [job for job in waiting if job not in first]
    known = [job for job in coming if not job.created.startswith(UNBORN)]
    new = [job for job in coming if job.created.startswith(UNBORN)]
    sure = _sure(world, [*waiting, *coming])
    run = QueueRun(world)
    run.go([[*first, *known], *([job] for job in new)], parked)
    movers = [*first, *coming]
    # Whatever comes first, all of them are admitted with the same flavors, or none is.
    settled = len(sure) == len(movers) + len(parked) and _is_plain(world, sure, movers)
    ranks = {(job.queue, job.priority, job.created) for job in (*waiting, *coming)}
    if settled or not ordered or len(new) + len(again) > _FEW or len(ranks) < len(waiting) + len(coming):
        return QueueOutcome(run, settled, sure)
    every = [run]
    for batches in _orders([*again, *new]):
        every.append(QueueRun(world))
        every[-1].go([[job for job in first if job not in again] + known, *batches], parked)
    # When the pods of preempted jobs are gone decides, too.
    steady = len(every) <= 2 or not any(one.stopped for one in every)
    for job in movers if steady else ():
        ends = {one.is_admitted(job.number) for one in every}
        if len(ends) == 1:
            sure[job.number] = ends.pop()
    return QueueOutcome(run, steady and len({one.end for one in every}) == 1, sure)


def _orders(jobs: Sequence[QueuedJob]) -> Iterator[list[list[QueuedJob]]]:
    """Yield every order in which jobs may be created and come, cut into batches in every way."""
    for chosen in permutations(jobs):
        order = [
            replace(job, created=f"{UNBORN}{rank:06d}") if job.created.startswith(UNBORN) else job
            for rank, job in enumerate(chosen)
        ]
        for cuts in product((False, True), repeat=max(0, len(order) - 1)):
            batches = [order[:1]]
            for job, cut in zip(order[1:], cuts, strict=True):
                if cut:
                    batches.append([])
                batches[-1].append(job)
            yield batches


def _is_plain(world: QueueWorld, sure: dict[int, bool], movers: Sequence[QueuedJob]) -> bool:
    """Whether there is one outcome: nobody is admitted, or nobody has a choice of flavors."""
    if not any(sure.values()):
        return True
    return all(
        sum(flavor not in pods.closed for flavor in group.flavors) < 2
        for job in movers
        for pods in job.pod_sets
        for group in world.rules[job.queue].groups
        if group.resources & pods.requests.keys()
    )


def is_hopeless(world: QueueWorld, job: QueuedJob) -> bool:
    """Whether a job is never admitted, not even when nobody else is there."""
    node = forest(world.cluster_queues, world.cohorts)[job.queue]
    return not _may_fit(world, node, job)


def _sure(world: QueueWorld, jobs: Sequence[QueuedJob]) -> dict[int, bool]:
    """The jobs that are admitted, or have to wait, whatever comes first."""
    if any(other.evicted for other in world.holding):
        return {}
    nodes = _nodes(world)
    if _all_fit(world, nodes, jobs):
        return {job.number: True for job in jobs}
    if any(_may_take(world, job, other) for job in jobs for other in world.holding):
        return {}
    # Nobody who holds quota now ever loses it, so there is never more than there is now.
    return {job.number: False for job in jobs if not _may_fit(world, nodes[job.queue], job)}


def _all_fit(world: QueueWorld, nodes: dict[str, QuotaNode], jobs: Sequence[QueuedJob]) -> bool:
    """Whether the first flavor that is for a job has room for it when all others have taken what they may, of each."""
    every = {job.number: _usage(world, job, None) for job in jobs}
    for job in jobs:
        use(nodes[job.queue], every[job.number])
    fits = True
    for job in jobs:
        node = nodes[job.queue]
        free(node, every[job.number])
        first = _usage(world, job, 1)
        covered = {slot.resource for slot in first} == job.requests.keys()
        fits = fits and covered and all(amount <= node.available(slot) for slot, amount in first.items())
        use(node, every[job.number])
    for job in jobs:
        free(nodes[job.queue], every[job.number])
    return fits


def _usage(world: QueueWorld, job: QueuedJob, most: int | None) -> dict[Slot, int]:
    """What a job takes if it takes all it asks for of each of the first flavors that are for it."""
    usage: dict[Slot, int] = {}
    for pods in job.pod_sets:
        for group in world.rules[job.queue].groups:
            for flavor in [name for name in group.flavors if name not in pods.closed][:most]:
                for resource, amount in pods.requests.items():
                    if resource in group.resources:
                        slot = Slot(flavor, resource)
                        usage[slot] = usage.get(slot, 0) + amount
    return usage


def _nodes(world: QueueWorld) -> dict[str, QuotaNode]:
    nodes = forest(world.cluster_queues, world.cohorts)
    for job in world.holding:
        use(nodes[job.queue], job.held or {})
    return nodes


def _may_fit(world: QueueWorld, node: QuotaNode, job: QueuedJob) -> bool:
    """Whether a job is admitted with some flavors when nobody is preempted.

    A search that fails at a later pod set goes on with the next flavors of those before, so that with several any of
    their flavors may be tried; of very many choices it is not looked at all: one may do.
    """
    rules = world.rules[job.queue]
    starts = [
        [((number, place), stop) for stop in range(-1, len(group.flavors) - 1)]
        for number, pods in enumerate(job.pod_sets if len(job.pod_sets) > 1 else ())
        for place, group in enumerate(rules.groups)
        if group.resources & pods.requests.keys()
    ]
    if prod(map(len, starts)) > _MANY:
        return True
    return any(
        choose(job, rules, node, lambda slot, amount: (FlavorMode.NO_CANDIDATES, 0), dict(tried)).fits
        for tried in product(*starts)
    )


def _may_take(world: QueueWorld, job: QueuedJob, other: QueuedJob) -> bool:
    rules = world.rules[job.queue]
    return may_preempt(job, other, rules.within if job.queue == other.queue else rules.reclaim)
