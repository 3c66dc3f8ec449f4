"""The tables of an impact: GPUs of pools and quotas of namespaces, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from gpuctl.gitops.declared_state import ALL_TYPES, DeclaredState, QuotaKey, QuotaLimit, counts_of, demands_of

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
    """The requests of a namespace's jobs and their limit, before and after. A limit of None: no limit."""

    key: QuotaKey
    asked_before: Fraction
    asked_after: Fraction
    before: QuotaLimit | None
    after: QuotaLimit | None

    @property
    def excess(self) -> tuple[Fraction, Fraction]:
        """Requests beyond the limit and what can be borrowed, before and after."""
        pairs = ((self.asked_before, self.before), (self.asked_after, self.after))
        before, after = (
            Fraction(0) if limit is None else max(asked - limit.most, Fraction(0)) for asked, limit in pairs
        )
        return before, after

    @property
    def changed(self) -> bool:
        """True if the two states differ."""
        return (self.asked_before, self.before) != (self.asked_after, self.after)


def pool_rows(before: DeclaredState, after: DeclaredState) -> Iterator[PoolRow]:
    """Yield a row for each pool and type that is requested or exists, and one for each pool with several types."""
    asked = {
        (part.pool, part.gpu_type)
        for state in (before, after)
        for demand in state.jobs.values()
        for part in demand.each
        if part.gpus is None or part.gpus
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
    for key in sorted({*before.limits, *after.limits}):
        yield QuotaRow(key, _asked(before, key), _asked(after, key), before.limits.get(key), after.limits.get(key))


def _asked(state: DeclaredState, key: QuotaKey) -> Fraction:
    """Return the charge of a namespace's jobs to a quota with the maximum of replicas, without jobs that hold no pods.

    Jobs in the queue of a quota are charged to it; jobs in other queues, to quotas of neither kind.
    """
    mine = [(job, demand) for job, demand in state.jobs.items() if job.namespace == key.namespace]
    if key.resource == JOBS:
        return Fraction(sum(job.kind == "training" for job, _ in mine))
    limit = state.limits.get(key)
    in_queue = limit is not None and limit.in_queue
    types = {other.gpu_type for other in state.limits if other[:2] == key[:2]} - {ALL_TYPES}
    total = Fraction(0)
    for _, demand in mine:
        is_charged = not demand.excluded_as or (in_queue and demand.excluded_as == "queued" and not demand.in_own_queue)
        for part in demand.each if is_charged else ():
            usable = types & set(part.gpu_type.split(" or ")) if part.gpu_type else types
            if key.gpu_type == ALL_TYPES or usable == {key.gpu_type}:
                total += part.requests.get(key.resource, Fraction(0)) * part.most
    return total
