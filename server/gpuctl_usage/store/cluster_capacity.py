"""The cluster's capacity by hour or day."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import BigInteger, Connection, Integer, ScalarSelect, select

from gpuctl_usage.facts import PeriodCapacity
from gpuctl_usage.store.database_tables import groups, periods, sums
from gpuctl_usage.store.hours import KnownFrom, PeriodLength
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.sums import Level


def capacity_of_periods(connection: Connection, cluster: int, numbers: Iterable[int]) -> dict[int, float]:
    """Return the capacity in GPU-seconds by period id, without unknown periods."""
    given = inline_table(connection, "wanted", {"number": Integer})
    statement = (
        select(sums.c.period_id, sums.c.cap_gpu_s)
        .select_from(given.join(sums, sums.c.period_id == given.c.number))
        .where(sums.c.group_id == _whole(cluster))
    )
    rows = connection.execute(statement, {"wanted": packed_rows(numbers)}).all()
    return {row.period_id: row.cap_gpu_s for row in rows}


def capacity_of_hours(
    connection: Connection, cluster: int, times: Iterable[tuple[int, int]]
) -> dict[int, PeriodCapacity]:
    """Return the known part and capacity of the hours that begin in one of the ranges [first, last), by start."""
    given = inline_table(connection, "wanted", {"first": BigInteger, "last": BigInteger})
    within = (periods.c.start >= given.c.first) & (periods.c.start < given.c.last)
    of_whole = (sums.c.period_id == periods.c.id) & (sums.c.group_id == _whole(cluster))
    statement = (
        select(periods.c.start, periods.c.seconds, sums.c.cap_gpu_s)
        .select_from(given.join(periods, within).outerjoin(sums, of_whole))
        .where(periods.c.cluster_id == cluster, periods.c.span == PeriodLength.HOUR.value)
    )
    rows = connection.execute(statement, {"wanted": packed_rows(times)}).all()
    known = KnownFrom(connection, cluster)
    found = {}
    for start, seconds, capacity in rows:
        first = known.of(PeriodLength.HOUR, start, seconds)
        found[start] = PeriodCapacity(first, first + seconds, capacity or 0.0)
    return found


def _whole(cluster: int) -> ScalarSelect[int]:
    of_cluster = groups.c.cluster_id == cluster, groups.c.level == Level.CLUSTER.value
    return select(groups.c.id).where(*of_cluster).scalar_subquery()
