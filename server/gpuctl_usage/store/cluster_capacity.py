"""What a whole cluster had, hour by hour or day by day."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import BigInteger, Column, Connection, select

from gpuctl_usage.facts import KeptTime
from gpuctl_usage.store.given_tables import given_table, packed_rows
from gpuctl_usage.store.hours import Span
from gpuctl_usage.store.tables import groups, periods, sums
from gpuctl_usage.sums import Level


def capacity_of_periods(connection: Connection, cluster: int, numbers: Collection[int]) -> dict[int, KeptTime]:
    """Of hours and days, by their number; those without GPUs as well."""
    return _read(connection, cluster, tuple(Span), periods.c.id, numbers)


def capacity_of_hours(connection: Connection, cluster: int, starts: Collection[int]) -> dict[int, KeptTime]:
    """Of those hours that are kept, by their start."""
    return _read(connection, cluster, (Span.HOUR,), periods.c.start, starts)


def _read(
    connection: Connection, cluster: int, spans: tuple[Span, ...], key: Column[int], wanted: Collection[int]
) -> dict[int, KeptTime]:
    whole = select(groups.c.id).where(groups.c.cluster_id == cluster, groups.c.level == Level.CLUSTER.value)
    of_whole = (sums.c.period_id == periods.c.id) & (sums.c.group_id == whole.scalar_subquery())
    given = given_table(connection, "wanted", {"number": BigInteger})
    statement = (
        select(key, periods.c.start, periods.c.span, periods.c.seconds, sums.c.cap_gpu_s)
        .select_from(given.join(periods, key == given.c.number).outerjoin(sums, of_whole))
        .where(periods.c.cluster_id == cluster, periods.c.span.in_([span.value for span in spans]))
    )
    rows = connection.execute(statement, {"wanted": packed_rows((number,) for number in wanted)}).all()
    return {
        number: _kept(start, Span(span), seconds, capacity or 0.0) for number, start, span, seconds, capacity in rows
    }


def _kept(start: int, span: Span, seconds: float, capacity: float) -> KeptTime:
    # Of an hour that still runs the first part is known, of the day in which the first hour is, the last one.
    is_day = span is Span.DAY
    first = start + span.seconds - seconds if is_day else start
    return KeptTime(first, first + seconds, capacity, is_day)
