"""What becomes of jobs in their queues: in many of the orders in which they may come, in all where these are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, permutations, product
from math import prod
from typing import NamedTuple

from gpuctl.capacity.arrivals import RUNS, is_in_turn
from gpuctl.capacity.cohorts import Slot
from gpuctl.capacity.draws import Draws
from gpuctl.capacity.queue_cycles import Arrival, QueueRun
from gpuctl.capacity.queue_flavors import FlavorMode, choose
from gpuctl.capacity.queue_preemption import free, may_preempt, use
from gpuctl.capacity.queue_quota import QuotaNode, forest
from gpuctl.capacity.queue_world import UNBORN, QueuedJob, QueueWorld

_FEW = 3
"""Of so many jobs every order is tried."""
_BATCHES = (1, 1, 2, 4, 8, 1 << 20)
"""So many jobs become known at once at most, run by run."""
_RATES = (4, 12, 40)
"""So many jobs are created within a second."""
_PATIENCE = (0, 0, 3, 12)
_LONG = 64
_MANY = 1 << 10
"""So many choices of flavors are looked at for one job at most."""


class QueueOutcomes(NamedTuple):
    """The runs, and whether nothing else may happen. ``sure`` tells by number who is admitted whatever happens."""

    runs: list[QueueRun]
    is_all: bool
    sure: dict[int, bool]


def outcomes(world: QueueWorld, coming: Sequence[QueuedJob], *, fresh: bool, ordered: bool = True) -> QueueOutcomes:
    """What becomes of jobs that come into the queues of one root, in the order in which they are created.

    :param fresh: those that wait already are tried again, too: quota has been given back.
    :param ordered: Kueue takes them by priority and time. Where it does not, nothing but who is ``sure`` holds.
    """
    waiting = sorted(world.waiting, key=lambda job: job.created)
    parked, again = ([], waiting) if fresh else (waiting, [])
    # Those that wait already, and are looked at first, or asked about: Kueue knows them before anybody else comes.
    untried = [job for job in parked if job.is_untried and not world.rules[job.queue].is_strict]
    parked = [job for job in parked if job not in untried]
    movers = [*again, *untried, *coming]
    known = [job for job in coming if not job.created.startswith(UNBORN)]
    first = [Arrival(-1, job) for job in (*untried, *known)]
    new = [job for job in coming if job.created.startswith(UNBORN)]
    sure = _sure(world, [*waiting, *coming])
    ranks = {(job.queue, job.priority, job.created) for job in (*waiting, *known)}
    if len(sure) == len(movers) + len(parked) and _is_plain(world, sure, movers):
        # Whatever comes first, all of them are admitted with the same flavors, or none is.
        arrivals = [Arrival(0, job) for job in movers]
        return QueueOutcomes([_run(world, arrivals, 0, parked)], True, sure)
    if ordered and len(new) + len(again) <= _FEW and len(ranks) == len(waiting) + len(known):
        every = [_run(world, [*first, *arrivals], patience, parked) for arrivals, patience in _every(again, new)]
        if len({run.end for run in every}) == 1:
            return QueueOutcomes(every[:1], True, sure)
        for job in movers:
            ends = {run.is_admitted(job.number) for run in every}
            if len(ends) == 1:
                sure[job.number] = ends.pop()
    runs = []
    for number in range(RUNS):
        draws = Draws(f"{number} {[(job.namespace, job.kind, job.name) for job in movers]}")
        runs.append(_drawn(world, first, again, new, parked, number, draws))
    return QueueOutcomes(runs, False, sure)


def _every(again: Sequence[QueuedJob], coming: Sequence[QueuedJob]) -> Iterator[tuple[list[Arrival], int]]:
    """Every order of arrival, cut into batches in every way, with every order of creation within a second."""
    jobs = [*again, *coming]
    for order in permutations(range(len(jobs))):
        for created in permutations(range(len(coming))):
            named = [
                *again,
                *(replace(job, created=f"{UNBORN}{rank:06d}") for job, rank in zip(coming, created, strict=True)),
            ]
            for cuts in product((0, 1), repeat=max(0, len(jobs) - 1)):
                batch, arrivals = 0, []
                for place, index in enumerate(order):
                    batch += cuts[place - 1] if place else 0
                    arrivals.append(Arrival(batch, named[index]))
                for patience in (0, _LONG):
                    yield arrivals, patience


def _run(world: QueueWorld, arrivals: Sequence[Arrival], patience: int, parked: Sequence[QueuedJob]) -> QueueRun:
    ties = count()
    run = QueueRun(world, lambda: next(ties), patience=patience, pace=_LONG)
    run.go(arrivals, parked)
    return run


def _drawn(
    world: QueueWorld,
    first: Sequence[Arrival],
    again: Sequence[QueuedJob],
    coming: Sequence[QueuedJob],
    parked: Sequence[QueuedJob],
    number: int,
    draws: Draws,
) -> QueueRun:
    most, rate, phase = _BATCHES[number % len(_BATCHES)], _RATES[draws.below(len(_RATES))], draws.share()
    arrivals = [*first, *(Arrival(0, job) for job in again)]
    if is_in_turn(number) or all(job.in_turn for job in coming):
        # Kueue has made the Workload of one before the next is created, and looks at it meanwhile.
        most = 1
    elif number % 4 in (1, 2):
        coming = _by_controllers(coming, draws)
    batch, room = 1, 1 + draws.below(most)
    for place, job in enumerate(coming):
        arrivals.append(Arrival(batch, replace(job, created=f"{UNBORN}{int(place / rate + phase):06d}")))
        room -= 1
        if not room:
            batch, room = batch + 1, 1 + draws.below(most)
    ties = count()
    # The first of a second comes first while its queue keeps up, and any when it does not.
    tie = draws.share if number % 2 else lambda: float(next(ties))
    run = QueueRun(world, tie, patience=_PATIENCE[draws.below(len(_PATIENCE))], pace=(1, _LONG)[number % 4 != 3])
    run.go(arrivals, parked)
    return run


def _by_controllers(coming: Sequence[QueuedJob], draws: Draws) -> Sequence[QueuedJob]:
    """The order in which Kueue makes Workloads when many jobs come: one after another of each kind, side by side.

    Source: Kueue's ``pkg/controller/jobframework/reconciler.go``; each kind has a controller with a queue of its own.
    """
    kinds = sorted({job.kind for job in coming})
    if len(kinds) < 2:
        return coming
    pace = {kind: draws.share() for kind in kinds}
    ranks = {kind: count(1) for kind in kinds}
    return sorted(coming, key=lambda job: next(ranks[job.kind]) * pace[job.kind])


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
