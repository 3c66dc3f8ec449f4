"""Deletion of expired data in small batches, so that writers never wait long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select, tuple_, update

from gpuctl.objects.durations import DAY
from gpuctl_usage.facts import RetentionDays
from gpuctl_usage.store.database_tables import capacities, holdings, periods, quotas, snapshots
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.store.measurements import KEPT, drop_measurements

_HOURS_OF_MEASUREMENTS = 4
"""Hours per batch whose measurements are deleted."""
_ROWS = 1000


def prune(connection: Connection, cluster: int, kept: RetentionDays, now: float) -> bool:
    """Delete one batch of expired data; return False if nothing is left to delete.

    An hour is deleted only if its day is final or expired.
    """
    steps: tuple[Callable[[], int], ...] = (
        lambda: drop_measurements(connection, cluster, now - KEPT, _HOURS_OF_MEASUREMENTS),
        lambda: _forget_details(connection, cluster, now - kept.details * DAY),
        lambda: _drop_snapshots(connection, cluster, now - kept.snapshots * DAY),
        lambda: _drop_hours(connection, cluster, _midnight(now - kept.hours * DAY), _midnight(now - kept.days * DAY)),
        lambda: _drop_periods(connection, _before(cluster, PeriodLength.DAY, _midnight(now - kept.days * DAY))),
        lambda: _drop_intervals(connection, cluster, holdings, _midnight(now - kept.hours * DAY)),
        lambda: _drop_intervals(connection, cluster, capacities, _midnight(now - kept.hours * DAY)),
        lambda: _drop_intervals(connection, cluster, quotas, _midnight(now - kept.days * DAY), tuple(PeriodLength)),
    )
    return any(step() for step in steps)


def _midnight(time: float) -> int:
    """Round down to midnight: a day expires with all its hours."""
    return int(time // DAY) * DAY


def _before(cluster: int, span: PeriodLength, time: int) -> ColumnElement[bool]:
    return (periods.c.cluster_id == cluster) & (periods.c.span == span.value) & (periods.c.start < time)


def _forget_details(connection: Connection, cluster: int, before: float) -> int:
    old = snapshots.c.cluster_id == cluster, snapshots.c.time < before, snapshots.c.details.is_not(None)
    few = list(connection.execute(select(snapshots.c.id).where(*old).limit(_ROWS)).scalars())
    if few:
        connection.execute(update(snapshots).where(snapshots.c.id.in_(few)).values(details=None))
    return len(few)


def _drop_snapshots(connection: Connection, cluster: int, before: float) -> int:
    old = snapshots.c.cluster_id == cluster, snapshots.c.time < before
    few = list(connection.execute(select(snapshots.c.id).where(*old).limit(_ROWS)).scalars())
    if few:
        connection.execute(delete(snapshots).where(snapshots.c.id.in_(few)))
    return len(few)


def _drop_hours(connection: Connection, cluster: int, before: int, days_before: int) -> int:
    day = periods.alias("day")
    its_day = select(day.c.id).where(
        day.c.cluster_id == cluster,
        day.c.span == PeriodLength.DAY.value,
        day.c.start == periods.c.start - periods.c.start % DAY,
        day.c.provisional.is_(False),
    )
    return _drop_periods(
        connection, _before(cluster, PeriodLength.HOUR, before) & (its_day.exists() | (periods.c.start < days_before))
    )


def _drop_periods(connection: Connection, which: ColumnElement[bool]) -> int:
    """Delete the periods of the earliest day; their sums are deleted by the foreign key. The hours of a day are deleted
    together: a day with some of them would be rolled up again without the others.
    """
    first = connection.execute(select(func.min(periods.c.start)).where(which)).scalar_one_or_none()
    if first is None:
        return 0
    return connection.execute(delete(periods).where(which, periods.c.start < _midnight(first) + DAY)).rowcount


def _drop_intervals(
    connection: Connection,
    cluster: int,
    table: Table,
    before: int,
    spans: Sequence[PeriodLength] = (PeriodLength.HOUR,),
) -> int:
    """Delete intervals that ended before the first stored period: the others are needed for repeated rollups.

    :param spans: lengths of the periods that depend on the intervals.
    """
    theirs = periods.c.cluster_id == cluster, periods.c.span.in_([span.value for span in spans])
    first = connection.execute(select(func.min(periods.c.start)).where(*theirs)).scalar_one_or_none()
    end = before if first is None else min(before, _midnight(first))
    keys = list(table.primary_key)
    old = table.c.cluster_id == cluster, table.c.ended.is_not(None), table.c.ended <= end
    few = [tuple(row) for row in connection.execute(select(*keys).where(*old).limit(_ROWS))]
    if few:
        connection.execute(delete(table).where(tuple_(*keys).in_(few)))
    return len(few)
