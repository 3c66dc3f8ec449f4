"""Resource conflicts after a change: jobs, pools and quotas that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from gpuctl.gitops.declared_state import (
    ALL_TYPES,
    ANY_TYPE,
    DeclaredState,
    JobDemand,
    JobId,
    PoolJobLimits,
    QuotaKey,
    counts_of,
    demands_of,
)
from gpuctl.gitops.impact_rows import PoolRow, QuotaRow
from gpuctl.objects.quantities import amount_text, format_number


class Breakage(NamedTuple):
    """A conflict after the change. ``new``: the change causes it, or makes it worse."""

    message: str
    new: bool


def breakages(
    before: DeclaredState, after: DeclaredState, pools: Sequence[PoolRow], quotas: Sequence[QuotaRow]
) -> Iterator[Breakage]:
    """Yield the conflicts of jobs, pools and quotas after the change."""
    yield from _oversized(before, after)
    yield from _pool_limits(before, after)
    yield from _pool_breakages(pools)
    yield from _crowded(before, after, pools)
    yield from _quota_breakages(quotas)


def _oversized(before: DeclaredState, after: DeclaredState) -> Iterator[Breakage]:
    """Yield jobs that no node of their pool can take."""
    for job, messages in sorted(after.oversized.items()):
        new = job not in before.oversized or _asks_for_more(before.jobs.get(job), after.jobs[job])
        for message in messages:
            yield Breakage(f"{job}: {message}", new)


def never_fits(job: JobId, reason: str, before: JobDemand | None, after: JobDemand) -> Breakage:
    """Return the conflict of a job that would not fit in the cluster even if it were empty."""
    return Breakage(f"{job}: never fits in the cluster: {reason}", _asks_for_more(before, after))


def _asks_for_more(before: JobDemand | None, after: JobDemand) -> bool:
    """Return True if a job requests more than before, or GPUs of another pool or type."""
    if before is None or (before.pool, before.gpu_type) != (after.pool, after.gpu_type):
        return True
    if after.most > before.most:
        return True
    return any(value > before.requests.get(name, 0) for name, value in after.requests.items())


def _pool_limits(before: DeclaredState, after: DeclaredState) -> Iterator[Breakage]:
    """Yield jobs beyond the limits of their pool, in number or in size: gpuctl does not submit them."""
    for pool in sorted(after.pool_limits):
        earlier = {who: excess for _, who, excess in _beyond(before, pool)}
        for message, who, excess in _beyond(after, pool):
            yield Breakage(message, excess > earlier.get(who, 0))


def _beyond(state: DeclaredState, pool: str) -> Iterator[tuple[str, JobId | None, Fraction]]:
    """Yield messages about exceeded limits of a pool, with the job (None: all jobs together) and the excess."""
    limits = state.pool_limits.get(pool, PoolJobLimits(None, None))
    unfinished = ((job, demand) for job, demand in state.jobs.items() if demand.excluded_as != "finished")
    parts = {job: [part for part in demand.each if part.pool == pool] for job, demand in sorted(unfinished)}
    jobs = {job: mine for job, mine in parts.items() if mine}
    for job, mine in jobs.items():
        most = sum((part.cards * part.most for part in mine), Fraction(0))
        if limits.gpus_per_job is not None and most > limits.gpus_per_job:
            yield (
                f"{job}: asks for {format_number(most)} GPUs; pool {pool} allows {limits.gpus_per_job} per job",
                job,
                most - limits.gpus_per_job,
            )
    if limits.jobs is not None and len(jobs) > limits.jobs:
        message = f"pool {pool}: {len(jobs)} unfinished jobs, and it allows {limits.jobs}"
        yield message, None, Fraction(len(jobs) - limits.jobs)


def _pool_breakages(rows: Iterable[PoolRow]) -> Iterator[Breakage]:
    for row in rows:
        if not row.after.excess:
            continue
        least, most = format_number(row.after.asked), format_number(row.after.most)
        asked = least if least == most else f"{least} to {most}"
        message = f"pool {row.pool}: jobs ask for {asked} {_gpus(row.gpu_type)}, and it has {row.after.there}"
        yield Breakage(message, row.after.excess > row.before.excess)


def _gpus(gpu_type: str) -> str:
    return {ALL_TYPES: "GPUs in all", ANY_TYPE: "GPUs of any type"}.get(gpu_type, f"{gpu_type} GPUs")


def _crowded(before: DeclaredState, after: DeclaredState, rows: Iterable[PoolRow]) -> Iterator[Breakage]:
    """Yield pools where the sum of GPUs fits and the pods do not: two pods of 5 GPUs do not fit on a node with 8."""
    told = {part.pool for job in after.oversized for part in after.jobs[job].each}
    for row in rows:
        if row.after.excess or row.pool in told:
            continue
        found = _too_many(after, row.pool, row.gpu_type)
        if found is not None:
            told.add(row.pool)
            size, pods, room = found
            what = f"{pods} pods of {size} or more {_gpus(row.gpu_type)}"
            message = f"pool {row.pool}: {what}, and its nodes have room for {room}"
            earlier = _too_many(before, row.pool, row.gpu_type)
            worse = earlier is None or pods - room > earlier[1] - earlier[2]
            yield Breakage(message, worse and not row.before.excess)


def _too_many(state: DeclaredState, pool: str, gpu_type: str) -> tuple[int, int, int] | None:
    """Return the smallest pod size with more pods of at least that size than places, the pods and the places.

    None if no size has too many. A conflict that it finds is certain; it may miss others.
    """
    counts = counts_of(state, pool, gpu_type)
    demands = demands_of(state, pool, gpu_type)
    whole = [demand for demand in demands if demand.gpus and demand.gpus.denominator == 1]
    for size in sorted({int(demand.gpus or 0) for demand in whole}) if counts is not None else ():
        pods = sum(demand.most for demand in whole if (demand.gpus or 0) >= size)
        room = sum(count // size for count in counts or ())
        if pods > room:
            return size, pods, room
    return None


def _quota_breakages(rows: Iterable[QuotaRow]) -> Iterator[Breakage]:
    for row in rows:
        before, after = row.excess
        if row.after is not None and after and not row.after.in_queue:
            asked, hard = (amount_text(row.key.resource, value) for value in (row.asked_after, row.after.amount))
            what = f"namespace {row.key.namespace}: jobs ask for {asked} {resource_title(row.key)}"
            yield Breakage(f"{what}, and the quota is {hard}", after > before)


def waiting(rows: Iterable[QuotaRow]) -> Iterator[str]:
    """Yield the quotas whose queues do not have room for all jobs at once, and had more of it before."""
    for row in rows:
        before, after = row.excess
        if row.after is None or not row.after.in_queue or after <= before:
            continue
        asked, hard, more = (amount_text(row.key.resource, value) for value in (row.asked_after, *row.after[:2]))
        lent = f", and {more} can be borrowed" if row.after.borrowed else ""
        yield (
            f"namespace {row.key.namespace}: jobs ask for {asked} {resource_title(row.key)} at once, and the quota is "
            f"{hard}{lent}; the rest waits in the queue"
        )


def resource_title(key: QuotaKey) -> str:
    """Return the name of a limited resource in messages."""
    name = key.resource.removeprefix("requests.")
    return name if key.gpu_type == ALL_TYPES else f"{name} of type {key.gpu_type}"
