"""The tables of an impact: GPUs of pools, and quotas of namespaces, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from gpuctl.gitops.declared_state import ALL_TYPES, DeclaredState, counts_of, demands_of

JOBS = "count/jobs.batch"


class Amount(NamedTuple):
    """GPUs asked for, at the fewest and at the most replicas, and how many there are (None: unknown).

    ``queued`` are those that jobs in queues ask for beside them.
    """

    asked: Fraction
    most: Fraction
    there: int | None
    queued: Fraction = Fraction(0)

    @property
    def excess(self) -> Fraction:
        """GPUs that are asked for and not there; 0 if it is unknown how many there are."""
        return Fraction(0) if self.there is None else max(self.most - self.there, Fraction(0))


class PoolRow(NamedTuple):
    """A pool and GPU type before and after: ``ANY_TYPE`` is of jobs that take any, ``ALL_TYPES`` the whole pool."""

    pool: str
    gpu_type: str
    before: Amount
    after: Amount


class QuotaRow(NamedTuple):
    """What a namespace's jobs ask of a resource, and its limit (None: none), before and after."""

    namespace: str
    resource: str
    asked_before: Fraction
    asked_after: Fraction
    hard_before: Fraction | None
    hard_after: Fraction | None

    @property
    def excess(self) -> tuple[Fraction, Fraction]:
        """What is asked for beyond the limit, before and after."""
        pairs = ((self.asked_before, self.hard_before), (self.asked_after, self.hard_after))
        before, after = (Fraction(0) if hard is None else max(asked - hard, Fraction(0)) for asked, hard in pairs)
        return before, after

    @property
    def changed(self) -> bool:
        """Return True if the two sides differ."""
        return (self.asked_before, self.hard_before) != (self.asked_after, self.hard_after)


def pool_rows(before: DeclaredState, after: DeclaredState) -> Iterator[PoolRow]:
    """A row for each pool and type that somebody asks for or has, and one for each pool of several types."""
    asked = {
        (demand.pool, demand.gpu_type)
        for state in (before, after)
        for demand in state.jobs.values()
        if demand.gpus is None or demand.gpus
    }
    there = {
        (pool, gpu_type)
        for state in (before, after)
        for pool, types in state.nodes.items()
        for gpu_type, counts in types.items()
        if gpu_type or any(counts)
    }
    by_pool: dict[str, list[str]] = {}
    for pool, gpu_type in sorted(asked | there):
        by_pool.setdefault(pool, []).append(gpu_type)
    for pool, types in by_pool.items():
        for gpu_type in types:
            yield PoolRow(pool, gpu_type, _amount(before, pool, gpu_type), _amount(after, pool, gpu_type))
        if len(types) > 1:
            yield PoolRow(pool, ALL_TYPES, _amount(before, pool, ALL_TYPES), _amount(after, pool, ALL_TYPES))


def _amount(state: DeclaredState, pool: str, gpu_type: str) -> Amount:
    demands = demands_of(state, pool, gpu_type)
    counts = counts_of(state, pool, gpu_type)
    return Amount(
        sum((demand.total for demand in demands), Fraction(0)),
        sum((demand.total_most for demand in demands), Fraction(0)),
        # How much of a card a share in memory is, nobody says.
        None if counts is None or any(demand.gpus is None for demand in demands) else sum(counts),
        sum((demand.total_most for demand in demands_of(state, pool, gpu_type, "queued")), Fraction(0)),
    )


def quota_rows(before: DeclaredState, after: DeclaredState) -> Iterator[QuotaRow]:
    for namespace, resource in sorted({*before.limits, *after.limits}):
        yield QuotaRow(
            namespace,
            resource,
            _asked(before, namespace, resource),
            _asked(after, namespace, resource),
            before.limits.get((namespace, resource)),
            after.limits.get((namespace, resource)),
        )


def _asked(state: DeclaredState, namespace: str, resource: str) -> Fraction:
    """What a namespace's jobs count against a key of a quota, at the most replicas; without those that hold no pods."""
    mine = [(job, demand) for job, demand in state.jobs.items() if job.namespace == namespace]
    if resource == JOBS:
        return Fraction(sum(job.kind == "training" for job, _ in mine))
    asked = (demand.requests.get(resource, Fraction(0)) * demand.most for _, demand in mine if not demand.excluded_as)
    return sum(asked, Fraction(0))
