"""Hours and days that are rolled up: each is replaced as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from gpuctl_usage.facts import DAY, HOUR
from gpuctl_usage.store.database_tables import clusters, groups, holdings, periods, sums
from gpuctl_usage.store.intervals import overlapping
from gpuctl_usage.store.packing import (
    AS_THEY_ARE,
    ROUNDED,
    hundredths,
    of_hundredths,
    pack_histogram,
    pack_ids,
    pack_triples,
    unpack_histogram,
    unpack_triples,
)
from gpuctl_usage.store.surrogate_keys import (
    Described,
    attributes_ids,
    described_by,
    group_ids,
    group_of,
    groups_of,
    workload_group,
    workload_of,
)
from gpuctl_usage.sums import Group, LabeledWorkload, Level, RolledUp, Sums


class PeriodLength(str, Enum):
    """How long something is that was rolled up."""

    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        """Its whole length."""
        return HOUR if self is PeriodLength.HOUR else DAY


class KnownFrom:
    """The first known moment of each hour and day of a cluster."""

    def __init__(self, connection: Connection, cluster: int) -> None:
        self._began = began(connection, cluster)

    def of(self, span: PeriodLength, start: int, seconds: float) -> float:
        """Return it for an hour or a day.

        Of an hour that still runs the first ``seconds`` are known, of the hour and the day in which collecting began
        the last ones.
        """
        if span is PeriodLength.DAY:
            return start + DAY - seconds
        return start + missed(start, self._began)


class WorkloadStatus(IntEnum):
    """How it was with a workload at the end of an hour."""

    PENDING = 1
    RUNNING = 2
    FINISHED = 3


class HourState(NamedTuple):
    """What is known of an hour that is there.

    :param coverage: of what was held, how much was measured, 0 to 1; None where nothing was held.
    :param seconds: how much of it there had been.
    """

    provisional: bool
    digest: str
    coverage: float | None
    seconds: float


class _Standing(NamedTuple):
    attributes: int
    status: WorkloadStatus


def put_period(
    connection: Connection, cluster: int, rolled: RolledUp, provisional: bool, span: PeriodLength, now: float
) -> bool:
    """Replace an hour or a day; False when the same is there."""
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
    ids = group_ids(connection, cluster, rolled.sums)
    whole = rolled.sums.get(Group(Level.CLUSTER))
    values = {
        "seconds": rolled.seconds,
        "digest": rolled.digest,
        "provisional": provisional,
        "coverage": whole.obs_gpu_s / whole.alloc_gpu_s if whole is not None and whole.alloc_gpu_s > 0 else None,
        "dropped": rolled.dropped,
        "updated_at": now,
        "holders": _pack_holders(connection, cluster, rolled.holders),
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
    # The seconds of a day of which less is known are not its first ones.
    standing = _standing(
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
    """Say of an hour whether it is provisional."""
    which = _which(cluster, PeriodLength.HOUR, start)
    connection.execute(update(periods).where(*which).values(provisional=provisional))


def reopen(connection: Connection, cluster: int, since: float | None) -> None:
    """Have everything provisional that may be made of what happened at a time or later: hours, and their days."""
    if since is None:
        return
    for span in PeriodLength:
        later = periods.c.cluster_id == cluster, periods.c.span == span.value, periods.c.start > since - span.seconds
        connection.execute(update(periods).where(*later).values(provisional=True))
    one_more = clusters.c.late_changes + 1
    connection.execute(update(clusters).where(clusters.c.id == cluster).values(late_changes=one_more))


def began(connection: Connection, cluster: int) -> float | None:
    """Return when collecting began; None if that is not kept."""
    return connection.execute(select(clusters.c.began).where(clusters.c.id == cluster)).scalar_one_or_none()


def missed(start: int, began: float | None) -> float:
    """Return the seconds at the beginning of an hour before collecting began; 0 for hours that lie before it."""
    return began - start if began is not None and start < began < start + HOUR else 0.0


def late_changes(connection: Connection, cluster: int) -> int:
    """How often hours have been reopened."""
    found = connection.execute(select(clusters.c.late_changes).where(clusters.c.id == cluster)).scalar_one_or_none()
    return found or 0


def _pack_holders(connection: Connection, cluster: int, holders: Collection[LabeledWorkload]) -> bytes:
    keys = [workload_group(item.workload) for item in holders]
    places = [Group(Level.NAMESPACE, value=item.workload.namespace) for item in holders]
    ids = group_ids(connection, cluster, [*keys, *places])
    described = attributes_ids(connection, (Described(dict(item.labels), dict(item.annotations)) for item in holders))
    return pack_triples(
        (ids[key], number, ids[place]) for key, number, place in zip(keys, described, places, strict=True)
    )


def _holders(connection: Connection, packed: bytes) -> frozenset[LabeledWorkload]:
    firsts, described, _ = unpack_triples(packed)
    numbers = list(firsts)
    workloads = groups_of(connection, numbers)
    as_what = described_by(connection, sorted(set(described)))
    return frozenset(
        LabeledWorkload(
            workload_of(workloads[number]),
            tuple(sorted(as_what[said].labels.items())),
            tuple(sorted(as_what[said].annotations.items())),
        )
        for number, said in zip(numbers, described, strict=True)
    )


def _standing(connection: Connection, cluster: int, start: float, end: float) -> dict[int, _Standing]:
    """Of each workload that held something its last labels, and whether at the end it ran."""
    found: dict[int, _Standing] = {}
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
        found[row.workload_id] = _Standing(
            row.attributes_id, status if before is None else _more(before.status, status)
        )
    return found


def _more(one: WorkloadStatus, other: WorkloadStatus) -> WorkloadStatus:
    """What is said of a workload whose pods are not alike: it runs while one does, and waits while one does."""
    for status in (WorkloadStatus.RUNNING, WorkloadStatus.PENDING):
        if status in (one, other):
            return status
    return WorkloadStatus.FINISHED


def _row(period: int, number: int, group: Group, item: Sums, standing: Mapping[int, _Standing]) -> dict[str, Any]:
    known = standing.get(number) if group.level is Level.WORKLOAD else None
    status = None
    if group.level is Level.WORKLOAD:
        # What was rolled up elsewhere says at least whether anything ran.
        status = WorkloadStatus.RUNNING if item.running_gpu_s > 0 else WorkloadStatus.PENDING
    return {
        "period_id": period,
        "group_id": number,
        "attributes_id": None if known is None else known.attributes,
        "status": status if known is None else known.status,
        **{name: getattr(item, name) for name in AS_THEY_ARE},
        **{name: hundredths(getattr(item, name)) for name in ROUNDED},
        "histogram": pack_histogram(item.histogram),
    }


SUMMED = tuple(sums.c[field.name] for field in fields(Sums))
"""The columns of sums, in the order of their fields."""


def sums_of(values: Iterable[Any], with_histogram: bool = True) -> Sums:
    """The sums of a row's columns, which are :data:`SUMMED`. Least and most are to hundredths."""
    found = with_hundredths(Sums(*values))
    packed: Any = found.histogram
    found.histogram = unpack_histogram(packed) if with_histogram else None
    return found


def with_hundredths(found: Sums) -> Sums:
    """Sums whose least and most are as they stand in rows, made what they are."""
    found.util_min, found.util_max = of_hundredths(found.util_min), of_hundredths(found.util_max)
    found.memory_max = of_hundredths(found.memory_max)
    return found


def states(connection: Connection, cluster: int, start: int, end: int, span: PeriodLength) -> dict[int, HourState]:
    """What there is from a time on, before another."""
    statement = select(
        periods.c.start, periods.c.provisional, periods.c.digest, periods.c.coverage, periods.c.seconds
    ).where(
        periods.c.cluster_id == cluster, periods.c.span == span.value, periods.c.start >= start, periods.c.start < end
    )
    return {
        row.start: HourState(row.provisional, row.digest, row.coverage, row.seconds)
        for row in connection.execute(statement.order_by(periods.c.start))
    }


def read_periods(connection: Connection, cluster: int, start: int, end: int, span: PeriodLength) -> list[RolledUp]:
    """What was put, by start: of which days are made, and what is above."""
    statement = select(periods).where(
        periods.c.cluster_id == cluster, periods.c.span == span.value, periods.c.start >= start, periods.c.start < end
    )
    found, begun = [], began(connection, cluster) if span is PeriodLength.HOUR else None
    for period in connection.execute(statement.order_by(periods.c.start)).all():
        rows = connection.execute(
            select(groups.c.level, groups.c.key, groups.c.value, *SUMMED)
            .join(groups, groups.c.id == sums.c.group_id)
            .where(sums.c.period_id == period.id)
        )
        by_group = {group_of(row): sums_of(row[3:]) for row in rows}
        holders = _holders(connection, period.holders)
        rolled = RolledUp(period.start, period.seconds, by_group, period.digest, period.dropped, holders)
        rolled.missed = missed(period.start, begun)
        found.append(rolled)
    return found
