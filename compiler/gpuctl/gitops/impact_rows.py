"""The tables of an impact: GPUs of pools and quotas of namespaces, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from gpuctl.gitops.declared_state import ALL_TYPES, DeclaredState, counts_of, demands_of

JOBS = "count/jobs.batch"


class Amount(NamedTuple):
    """Requested GPUs with the minimum (``asked``) and the maximum (``most``) of replicas, and the GPUs that exist.

    ``there`` is None if their number is unknown. ``queued``: additional GPUs requested by jobs in queues.
    """

    asked: Fraction
    most: Fraction
    there: int | None
    queued: Fraction = Fraction(0)

    @property
    def excess(self) -> Fraction:
        """Requested GPUs beyond the existing ones; 0 if their number is unknown."""
        return Fraction(0) if self.there is None else max(self.most - self.there, Fraction(0))


class PoolRow(NamedTuple):
    """A pool and GPU type before and after. ``ANY_TYPE``: jobs that take any type; ``ALL_TYPES``: the whole pool."""

    pool: str
    gpu_type: str
    before: Amount
    after: Amount


class QuotaRow(NamedTuple):
    """The requests of a namespace's jobs for a resource and its limit, before and after. A limit of None: no limit."""

    namespace: str
    resource: str
    asked_before: Fraction
    asked_after: Fraction
    hard_before: Fraction | None
    hard_after: Fraction | None

    @property
    def excess(self) -> tuple[Fraction, Fraction]:
        """Requests beyond the limit, before and after."""
        pairs = ((self.asked_before, self.hard_before), (self.asked_after, self.hard_after))
        before, after = (Fraction(0) if hard is None else max(asked - hard, Fraction(0)) for asked, hard in pairs)
        return before, after

    @property
    def changed(self) -> bool:
        """True if the two states differ."""
        return (self.asked_before, self.hard_before) != (self.asked_after, self.hard_after)


def pool_rows(before: DeclaredState, after: DeclaredState) -> Iterator[PoolRow]:
    """Yield a row for each pool and type that is requested or exists, and one for each pool with several types."""
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
        # The part of a card that a share in memory takes is unknown.
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
    """Return the charge of a namespace's jobs to a quota key with the maximum of replicas, without jobs that hold no
    pods.
    """
    mine = [(job, demand) for job, demand in state.jobs.items() if job.namespace == namespace]
    if resource == JOBS:
        return Fraction(sum(job.kind == "training" for job, _ in mine))
    asked = (demand.requests.get(resource, Fraction(0)) * demand.most for _, demand in mine if not demand.excluded_as)
    return sum(asked, Fraction(0))
