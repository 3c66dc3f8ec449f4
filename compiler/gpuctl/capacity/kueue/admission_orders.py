"""The admission of queued jobs that are created one after another, and the results that hold in every order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.capacity.kueue.admission_cycles import AdmissionRun
from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.flavor_assignment import FlavorMode, assign_flavors
from gpuctl.capacity.kueue.queue_preemption import may_preempt, release_quota, reserve_quota
from gpuctl.capacity.kueue.queue_quota import QuotaNode, quota_trees
from gpuctl.capacity.kueue.queue_state import (
    NOT_CREATED,
    ClusterQueueRules,
    QueuedJob,
    QueueState,
    chooses_flavors,
    combines_flavors,
)


class QueueOutcome(NamedTuple):
    """The result for jobs in their order of creation.

    ``holds_in_every_order``: every other order has the same result. ``decided``: job number -> admitted or not, for the
    jobs whose result is the same in every order.
    """

    run: AdmissionRun
    holds_in_every_order: bool
    decided: dict[int, bool]


def simulate_admission(
    state: QueueState, coming: Sequence[QueuedJob], *, retries_waiting: bool, ordered: bool = True
) -> QueueOutcome:
    """Return the result for new jobs in the queues below one root.

    :param retries_waiting: quota has been released, so waiting jobs are tried again.
    :param ordered: Kueue takes jobs by priority and time. Otherwise only the ``decided`` results hold.
    """
    waiting = sorted(state.waiting, key=lambda job: job.created)
    # Waiting jobs that Kueue tries first, or that are asked about: they are known before any new job.
    again = waiting if retries_waiting else []
    first = again or [job for job in waiting if job.is_untried and not state.rules[job.queue].is_strict]
    parked = [job for job in waiting if job not in first]
    known = [job for job in coming if not job.created.startswith(NOT_CREATED)]
    new = [job for job in coming if job.created.startswith(NOT_CREATED)]
    decided = _decided(state, [*waiting, *coming])
    run = AdmissionRun(state)
    run.admit([[*first, *known], *([job] for job in new)], parked)
    movers = [*first, *coming]
    # In every order all of them are admitted with the same flavors, or none is.
    settled = len(decided) == len(movers) + len(parked) and _is_plain(state, decided, movers)
    ranks = {(job.queue, job.priority, job.created) for job in (*waiting, *coming)}
    if ordered and len(new) + len(again) <= 1 and len(ranks) == len(waiting) + len(coming):
        # Only one order is possible.
        decided.update((job.number, run.is_admitted(job.number)) for job in movers)
        settled = True
    return QueueOutcome(run, settled, decided)


def _is_plain(state: QueueState, decided: dict[int, bool], movers: Sequence[QueuedJob]) -> bool:
    """Return True if only one result is possible: no job is admitted, or no job can choose among flavors."""
    return not any(decided.values()) or not any(chooses_flavors(job, state.rules[job.queue]) for job in movers)


def is_never_admitted(state: QueueState, job: QueuedJob) -> bool:
    """Return True if a job is never admitted, even without any other job."""
    return not _may_fit(state, state.unused_quota[job.queue], job)


def is_same_in_parts(job: QueuedJob, outcome: QueueOutcome, rules: ClusterQueueRules) -> bool:
    """Return True if a job that is admitted as a whole gets the same if its pods are admitted one by one."""
    return outcome.decided.get(job.number) is True and not outcome.run.preempted and not chooses_flavors(job, rules)


def _decided(state: QueueState, jobs: Sequence[QueuedJob]) -> dict[int, bool]:
    """Return the results of jobs that are admitted, or have to wait, in every order."""
    if any(other.evicted for other in state.holding):
        return {}
    nodes = _nodes(state)
    if _all_fit(state, nodes, jobs):
        return {job.number: True for job in jobs}
    if any(_may_take(state, job, other) for job in jobs for other in state.holding):
        return {}
    # No job that holds quota loses it, so there is never more free quota than now.
    return {job.number: False for job in jobs if not _may_fit(state, nodes[job.queue], job)}


def _all_fit(state: QueueState, nodes: dict[str, QuotaNode], jobs: Sequence[QueuedJob]) -> bool:
    """Return True if every job fits into its first flavor even if all others use all their flavors in full."""
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
    """Return a job's usage if it takes its full requests from each of its first ``most`` flavors."""
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
    """Return True if a job can be admitted without preemption."""
    rules = state.rules[job.queue]
    return (
        combines_flavors(job, rules)
        or assign_flavors(job, rules, node, lambda slot, amount: (FlavorMode.NO_CANDIDATES, 0)).fits
    )


def _may_take(state: QueueState, job: QueuedJob, other: QueuedJob) -> bool:
    rules = state.rules[job.queue]
    return may_preempt(job, other, rules.preemption_policy if job.queue == other.queue else rules.reclaim_policy)
