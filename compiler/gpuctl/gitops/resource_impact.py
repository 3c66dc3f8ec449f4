"""The impact of changed documents: jobs, GPUs by pool and type, quotas, and conflicts.

The numbers are requests in documents, not usage. An autoscaled service counts with its minimum and its maximum of
replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from gpuctl.gitops.breakages import Breakage, breakages, waiting
from gpuctl.gitops.declared_state import DeclaredState, JobDemand, JobId
from gpuctl.gitops.document_changes import DocumentChange, changed_documents
from gpuctl.gitops.impact_rows import PoolRow, QuotaRow, pool_rows, quota_rows
from gpuctl.gitops.object_changes import ObjectKey
from gpuctl.gitops.restarts import RenderedNames, Restart, restarts
from gpuctl.gitops.value_comparison import value_changes


class Cost(NamedTuple):
    """Price per hour, with the minimum and the maximum of replicas."""

    least: Fraction
    most: Fraction


@dataclass(frozen=True)
class Impact:
    """The difference between two states.

    ``costs``: before and after, None without prices. ``unpriced``: used pools without a price. ``restarts``: jobs that
    start anew. ``documents``: the documents that differ, in their own terms. ``waiting``: quotas whose queues no
    longer have room for all jobs at once.
    """

    added: list[ObjectKey]
    changed: list[tuple[ObjectKey, list[str]]]
    removed: list[ObjectKey]
    jobs: list[tuple[JobId, JobDemand | None, JobDemand | None]]
    pools: list[PoolRow]
    quotas: list[QuotaRow]
    breakages: list[Breakage]
    costs: tuple[Cost, Cost] | None
    unpriced: list[str]
    restarts: list[Restart] = field(default_factory=list)
    documents: list[DocumentChange] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


def impact(
    before: DeclaredState,
    after: DeclaredState,
    rendered: RenderedNames = frozenset(),
    kept: RenderedNames = frozenset(),
    *,
    by_controller: bool = False,
) -> Impact:
    """Return the difference between two states.

    :param rendered: the trainings built from the first state.
    :param kept: those of ``rendered`` that a build of the second state keeps.
    :param by_controller: a GitOps controller applies the second state.
    """
    pools = list(pool_rows(before, after))
    quotas = list(quota_rows(before, after))
    pairs = [(job, before.jobs.get(job), after.jobs.get(job)) for job in sorted({*before.jobs, *after.jobs})]
    return Impact(
        added=sorted(after.objects.keys() - before.objects.keys()),
        changed=[
            (key, paths)
            for key in sorted(after.objects.keys() & before.objects.keys())
            if (paths := [change.path for change in value_changes(before.objects[key], after.objects[key])])
        ],
        removed=sorted(before.objects.keys() - after.objects.keys()),
        restarts=restarts(before, after, rendered, kept, by_controller=by_controller),
        documents=changed_documents(before.documents, after.documents),
        waiting=list(waiting(quotas)),
        jobs=[
            (job, old, new)
            for job, old, new in pairs
            if (old.table_values if old is not None else None) != (new.table_values if new is not None else None)
        ],
        pools=pools,
        quotas=quotas,
        breakages=list(breakages(before, after, pools, quotas)),
        costs=(_cost(before), _cost(after)) if before.prices or after.prices else None,
        unpriced=sorted(
            {
                part.pool
                for state in (before, after)
                for demand in state.jobs.values()
                for part in demand.each
                if part.total_most and part.pool not in state.prices
            }
        ),
    )


def _cost(state: DeclaredState) -> Cost:
    parts = [part for demand in state.jobs.values() for part in demand.each]
    priced = [(state.prices.get(part.pool, Fraction(0)), part) for part in parts]
    return Cost(
        sum((price * part.total for price, part in priced), Fraction(0)),
        sum((price * part.total_most for price, part in priced), Fraction(0)),
    )
