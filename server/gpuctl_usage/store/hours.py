"""Storage of hours and days; each is replaced as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from enum import Enum, IntEnum
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.store.database_tables import clusters, groups, holdings, periods, sums
from gpuctl_usage.store.intervals import overlapping
from gpuctl_usage.store.packing import (
    HUNDREDTHS_FIELDS,
    PLAIN_FIELDS,
    hundredths,
    of_hundredths,
    pack_histogram,
    pack_ids,
    pack_triples,
    unpack_histogram,
    unpack_triples,
)
from gpuctl_usage.store.surrogate_keys import (
    Attributes,
    attribute_ids,
    group_ids,
    group_of,
    read_attributes,
    workload_group,
    workload_keys,
)
from gpuctl_usage.sums import Group, LabeledWorkload, Level, RolledUp, Sums


class PeriodLength(str, Enum):
    """The length of a stored period."""

    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return HOUR if self is PeriodLength.HOUR else DAY


class KnownFrom:
    """Computes where the known part of an hour or day begins."""

    def __init__(self, connection: Connection, cluster: int) -> None:
        self._began = began(connection, cluster)

    def of(self, span: PeriodLength, start: int, seconds: float) -> float:
        """Return the start of the known part of an hour or day.

        A running hour is known from its start. The hour and the day in which collecting began are known in their last
        ``seconds`` only.
        """
        if span is PeriodLength.DAY:
            return start + DAY - seconds
        return start + missed(start, self._began)


class WorkloadStatus(IntEnum):
    """Status of a workload at the end of an hour."""

    PENDING = 1
    RUNNING = 2
    FINISHED = 3


class HourState(NamedTuple):
    """State of a stored hour or day.

    :param coverage: measured part of the held GPU time, 0 to 1; None if no GPU was held.
    :param seconds: covered length.
    """

    provisional: bool
    digest: str
    coverage: float | None
    seconds: float


class _FinalState(NamedTuple):
    attributes: int
    status: WorkloadStatus


def put_period(
    connection: Connection, cluster: int, rolled: RolledUp, provisional: bool, span: PeriodLength, now: float
) -> bool:
    """Replace an hour or day; return False if the stored one is the same."""
    known = connection.execute(
        select(periods.c.id, periods.c.digest, periods.c.seconds, periods.c.provisional).where(
            *_which(cluster, span, rolled.start)
        )
    ).one_or_none()
    if known is not None and (known.digest, known.seconds) == (rolled.digest, rolled.seconds):
        if known.provisional != provisional:
            connection.execute(
                update(periods).where(periods.c.id == known.id).values(provisional=provisional, updated_at=now)
            )
        return False
    if span is PeriodLength.HOUR:
        day = _which(cluster, PeriodLength.DAY, rolled.start // DAY * DAY)
        connection.execute(update(periods).where(*day).values(provisional=True))
    ids = group_ids(connection, cluster, [*rolled.sums, *chain.from_iterable(map(_groups_of, rolled.holders))])
    whole = rolled.sums.get(Group(Level.CLUSTER))
    values = {
        "seconds": rolled.seconds,
        "digest": rolled.digest,
        "provisional": provisional,
        "coverage": whole.obs_gpu_s / whole.alloc_gpu_s if whole is not None and whole.alloc_gpu_s > 0 else None,
        "dropped": rolled.dropped,
        "updated_at": now,
        "holders": _pack_holders(connection, ids, rolled.holders),
        "workloads": pack_ids(ids[group] for group in rolled.sums if group.level is Level.WORKLOAD),
    }
    if known is None:
        where = {"cluster_id": cluster, "span": span.value, "start": rolled.start, "created_at": now}
        key = connection.execute(insert(periods).values(**where, **values)).inserted_primary_key
        assert key is not None
        number = key[0]
    else:
        number = known.id
        connection.execute(update(periods).where(periods.c.id == number).values(**values))
        connection.execute(delete(sums).where(sums.c.period_id == number))
    # The missing seconds of a partly known day may be anywhere in it: use the whole day.
    standing = _final_states(
        connection,
        cluster,
        rolled.start,
        rolled.known_until if span is PeriodLength.HOUR else rolled.start + span.seconds,
    )
    rows = [_row(number, ids[group], group, item, standing) for group, item in rolled.sums.items()]
    rows.sort(key=lambda row: row["group_id"])
    if rows:
        connection.execute(insert(sums), rows)
    return True


def _which(cluster: int, span: PeriodLength, start: int) -> tuple[ColumnElement[bool], ...]:
    return periods.c.cluster_id == cluster, periods.c.span == span.value, periods.c.start == start


def set_provisional(connection: Connection, cluster: int, start: int, provisional: bool) -> None:
    """Set whether an hour is provisional."""
    which = _which(cluster, PeriodLength.HOUR, start)
    connection.execute(update(periods).where(*which).values(provisional=provisional))


def reopen(connection: Connection, cluster: int, since: float | None) -> None:
    """Make all hours and days provisional that end after a time, and count the late change. A day whose hours have
    expired stays final: it cannot be rolled up again.
    """
    if since is None:
        return
    hour = periods.alias("hour")
    is_within = hour.c.start >= periods.c.start, hour.c.start < periods.c.start + DAY
    has_hours = select(hour.c.id).where(
        hour.c.cluster_id == cluster, hour.c.span == PeriodLength.HOUR.value, *is_within
    )
    for span in PeriodLength:
        later = periods.c.cluster_id == cluster, periods.c.span == span.value, periods.c.start > since - span.seconds
        which = (*later, has_hours.exists()) if span is PeriodLength.DAY else later
        connection.execute(update(periods).where(*which).values(provisional=True))
    one_more = clusters.c.late_changes + 1
    connection.execute(update(clusters).where(clusters.c.id == cluster).values(late_changes=one_more))


def began(connection: Connection, cluster: int) -> float | None:
    """Return when collecting began; None if it is not recorded."""
    return connection.execute(select(clusters.c.began).where(clusters.c.id == cluster)).scalar_one_or_none()


def missed(start: int, began: float | None) -> float:
    """Return the seconds of an hour before collecting began; 0 if collecting did not begin within the hour."""
    return began - start if began is not None and start < began < start + HOUR else 0.0


def late_changes(connection: Connection, cluster: int) -> int:
    """Return how often hours have been reopened."""
    found = connection.execute(select(clusters.c.late_changes).where(clusters.c.id == cluster)).scalar_one_or_none()
    return found or 0


def _groups_of(holder: LabeledWorkload) -> tuple[Group, Group]:
    """Return the groups of a workload and of its namespace."""
    return workload_group(holder.workload), Group(Level.NAMESPACE, value=holder.workload.namespace)


def _pack_holders(connection: Connection, ids: Mapping[Group, int], holders: Collection[LabeledWorkload]) -> bytes:
    """Return workloads as stored: the ids of their groups, attributes and namespaces.

    :param ids: the ids of at least their groups.
    """
    described = attribute_ids(connection, (Attributes(dict(item.labels), dict(item.annotations)) for item in holders))
    groups = map(_groups_of, holders)
    return pack_triples((ids[own], number, ids[place]) for (own, place), number in zip(groups, described, strict=True))


def _holders(connection: Connection, packed: bytes) -> frozenset[LabeledWorkload]:
    firsts, described, _ = unpack_triples(packed)
    workloads, as_what = workload_keys(connection, firsts), read_attributes(connection, described)
    return frozenset(
        LabeledWorkload(
            workloads[number],
            tuple(sorted(as_what[said].labels.items())),
            tuple(sorted(as_what[said].annotations.items())),
        )
        for number, said in zip(firsts, described, strict=True)
    )


def _final_states(connection: Connection, cluster: int, start: float, end: float) -> dict[int, _FinalState]:
    """Return the last labels and the status at ``end`` of each workload that held GPUs."""
    found: dict[int, _FinalState] = {}
    held = select(holdings.c.workload_id, holdings.c.attributes_id, holdings.c.started, holdings.c.ended).where(
        holdings.c.cluster_id == cluster, overlapping(holdings, start, end)
    )
    for row in connection.execute(held.order_by(holdings.c.start, holdings.c.pod_uid)):
        if row.ended is not None and row.ended < end:
            status = WorkloadStatus.FINISHED
        elif row.started is None or row.started >= end:
            status = WorkloadStatus.PENDING
        else:
            status = WorkloadStatus.RUNNING
        before = found.get(row.workload_id)
        found[row.workload_id] = _FinalState(
            row.attributes_id, status if before is None else _combined_status(before.status, status)
        )
    return found


def _combined_status(one: WorkloadStatus, other: WorkloadStatus) -> WorkloadStatus:
    """Combine the status of a workload's pods: running if any is running, else pending if any is pending."""
    for status in (WorkloadStatus.RUNNING, WorkloadStatus.PENDING):
        if status in (one, other):
            return status
    return WorkloadStatus.FINISHED


def _row(period: int, number: int, group: Group, item: Sums, standing: Mapping[int, _FinalState]) -> dict[str, Any]:
    known = standing.get(number) if group.level is Level.WORKLOAD else None
    status = None
    if group.level is Level.WORKLOAD:
        # Fallback for periods without stored holdings.
        status = WorkloadStatus.RUNNING if item.running_gpu_s > 0 else WorkloadStatus.PENDING
    return {
        "period_id": period,
        "group_id": number,
        "attributes_id": None if known is None else known.attributes,
        "status": status if known is None else known.status,
        **{name: getattr(item, name) for name in PLAIN_FIELDS},
        **{name: hundredths(getattr(item, name)) for name in HUNDREDTHS_FIELDS},
        "histogram": pack_histogram(item.histogram),
    }


SUM_COLUMNS = tuple(sums.c[field.name] for field in fields(Sums))
"""Columns of sums, in the order of the fields of :class:`~gpuctl_usage.sums.Sums`."""


def sums_of(values: Iterable[Any]) -> Sums:
    """Return the Sums of the columns :data:`SUM_COLUMNS` of a row. Minima and maxima are rounded to hundredths."""
    found = with_hundredths(Sums(*values))
    packed: Any = found.histogram
    found.histogram = unpack_histogram(packed)
    return found


def with_hundredths(found: Sums) -> Sums:
    """Convert the minima and maxima of a row from integer hundredths, in place."""
    found.util_min, found.util_max = of_hundredths(found.util_min), of_hundredths(found.util_max)
    found.memory_max = of_hundredths(found.memory_max)
    return found


def between(cluster: int, span: PeriodLength, start: float, end: float) -> ColumnElement[bool]:
    """Return the condition for the hours or days that begin in [start, end)."""
    return and_(
        periods.c.cluster_id == cluster, periods.c.span == span.value, periods.c.start >= start, periods.c.start < end
    )


def states(connection: Connection, cluster: int, start: int, end: int, span: PeriodLength) -> dict[int, HourState]:
    """Return the states of the hours (or days) that begin in [start, end), by start."""
    columns = (periods.c[name] for name in ("start", *HourState._fields))
    statement = select(*columns).where(between(cluster, span, start, end))
    return {begin: HourState._make(state) for begin, *state in connection.execute(statement.order_by(periods.c.start))}


def read_periods(connection: Connection, cluster: int, start: int, end: int, span: PeriodLength) -> list[RolledUp]:
    """Return the stored hours (or days) that begin in [start, end), by start."""
    statement = select(periods).where(between(cluster, span, start, end))
    found, begun = [], began(connection, cluster) if span is PeriodLength.HOUR else None
    for period in connection.execute(statement.order_by(periods.c.start)).all():
        rows = connection.execute(
            select(groups.c.level, groups.c.key, groups.c.value, *SUM_COLUMNS)
            .join(groups, groups.c.id == sums.c.group_id)
            .where(sums.c.period_id == period.id)
        )
        by_group = {group_of(row): sums_of(row[3:]) for row in rows}
        holders = _holders(connection, period.holders)
        rolled = RolledUp(period.start, period.seconds, by_group, period.digest, period.dropped, holders)
        rolled.missed = missed(period.start, begun)
        found.append(rolled)
    return found
