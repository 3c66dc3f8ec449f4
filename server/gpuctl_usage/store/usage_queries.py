"""Rows of hours as questions want them: of a level, of some namespaces or one workload, in an order, a page of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, case, func, or_, select

from gpuctl_usage.facts import DAY, HOUR
from gpuctl_usage.store.database_tables import attributes, clusters, groups, periods, sums
from gpuctl_usage.store.hours import SUMMED, KnownFrom, PeriodLength, WorkloadStatus, sums_of
from gpuctl_usage.store.present_workloads import PresentWorkloads
from gpuctl_usage.store.surrogate_keys import Described, described
from gpuctl_usage.sums import Group, Level, Sums

GROUP_BITS = 28
"""Of a row's id, of 53 bits: which group. The rest says of when it is."""
_FEW = 500
DENSE = 3
"""Numbers that are read one after the other may be so many times as many as those that are wanted."""
WITH_HISTOGRAM = frozenset({Level.CLUSTER, Level.WORKLOAD})
"""Their answers have percentiles."""

RowKey = Sequence[int | float | str | None]
"""Where a row stands in an order: the values of what decides, one after the other."""


class RowOrder(str, Enum):
    """By what rows stand. What is not known is last, and of equals the earlier hour and then the name decides."""

    TIME = "time"
    UTILIZATION = "utilization"
    ALLOCATED = "allocated_gpu_count"


@dataclass(frozen=True)
class RowQuery:
    """Which rows.

    :param start: hours that begin at it or later, and before ``end``.
    :param namespaces: those that count, None for all; likewise every other field that is None.
    :param excluded: namespaces that do not count.
    :param ascending: the order; of several with one value it does not change.
    :param sums_only: whether nothing is wanted but what is added up: no percentiles, labels or states, and not how many
        workloads there were.
    :param few: the numbers of the groups it is about, where somebody has looked (:func:`narrowed`) and they are few.
    """

    cluster: int
    level: Level
    start: float
    end: float
    namespaces: Collection[str] | None = None
    excluded: Collection[str] = ()
    key: str | None = None
    value: str | None = None
    kind: str | None = None
    name: str | None = None
    order: RowOrder = RowOrder.TIME
    ascending: bool = True
    span: PeriodLength = PeriodLength.HOUR
    sums_only: bool = False
    few: Sequence[int] | None = None


class UsageRow(NamedTuple):
    """The sums of a group over an hour, or several.

    :param id: stays the same when the hour is rolled up again; less than 2^53.
    :param seconds: how much of it is known; the first known moment is ``known_from``, the last ``known_until``.
    :param labels: of a workload, as far as they are known; likewise ``annotations`` and ``status``.
    """

    id: int
    start: int
    end: int
    seconds: float
    known_from: float
    known_until: float
    created_at: float
    updated_at: float
    provisional: bool
    group: Group
    sums: Sums
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    status: WorkloadStatus | None


class StoredCluster(NamedTuple):
    """A cluster that was collected.

    :param last_seen: time until which pods and nodes were followed; None if they never were. ``quotas_seen``: likewise
        for quotas.
    """

    id: int
    uid: str
    name: str
    last_seen: float | None
    quotas_seen: float | None


def find_clusters(connection: Connection) -> list[StoredCluster]:
    """All, the first that was collected first."""
    columns = (clusters.c[name] for name in StoredCluster._fields)
    return [StoredCluster(*row) for row in connection.execute(select(*columns).order_by(clusters.c.id))]


def values_of(connection: Connection, cluster: int, level: Level, key: str) -> list[str]:
    """The values that a label or annotation has had, in order."""
    of_key = groups.c.cluster_id == cluster, groups.c.level == level.value, groups.c.key == key
    return sorted(connection.execute(select(groups.c.value).distinct().where(*of_key)).scalars())


def namespaces_of(connection: Connection, cluster: int) -> list[str]:
    """Those of which anything is known, in order: of a pod also before its first hour is rolled up."""
    found: set[str] = set()
    for level in (Level.NAMESPACE, Level.WORKLOAD):
        # One after the other out of the index: there are a thousand times as many workloads.
        of_level = groups.c.cluster_id == cluster, groups.c.level == level.value
        first = select(func.min(groups.c.namespace).label("name")).where(*of_level).cte("names", recursive=True)
        following = select(func.min(groups.c.namespace)).where(*of_level, groups.c.namespace > first.c.name)
        names = first.union_all(select(following.scalar_subquery()).where(first.c.name.is_not(None)))
        found.update(connection.execute(select(names.c.name).where(names.c.name.is_not(None))).scalars())
    return sorted(found)


def keys_of(connection: Connection, cluster: int, level: Level) -> list[str]:
    """The keys that groups of a level have had, in order."""
    statement = select(groups.c.key).distinct().where(groups.c.cluster_id == cluster, groups.c.level == level.value)
    return sorted(connection.execute(statement).scalars())


def narrowed(connection: Connection, question: RowQuery) -> RowQuery:
    """The same question, that knows its groups where they are few: for who asks it more than once."""
    return replace(question, few=_few(connection, question))


def hour_counts(connection: Connection, question: RowQuery) -> dict[int, int]:
    """How many rows of each hour answer a question, by its start; of those that have any."""
    if question.level is Level.WORKLOAD and _few(connection, question) is None:
        hours = connection.execute(select(periods.c.start, periods.c.id).where(_hours(question))).all()
        counts = present_workloads(connection, question).counts([number for _, number in hours])
        return {start: count for (start, _), count in zip(hours, counts, strict=True) if count}
    found = _matching(connection, question, sums.c.period_id, func.count().label("rows")).group_by(sums.c.period_id)
    counted = found.subquery()
    by_hour = select(periods.c.start, counted.c.rows).join_from(counted, periods, periods.c.id == counted.c.period_id)
    return {row.start: row.rows for row in connection.execute(by_hour).all()}


def page_within(question: RowQuery, counts: Mapping[int, int], limit: int, offset: int) -> tuple[RowQuery, int]:
    """The same question about the hours in which a page is, and how many of their rows are before it: in the order of
    time no others need be read.

    :param counts: how many rows each hour has (:func:`hour_counts`).
    """
    if question.order is not RowOrder.TIME:
        return question, offset
    starts = sorted(counts, reverse=not question.ascending)
    ends = list(accumulate(map(counts.__getitem__, starts)))
    first = bisect_right(ends, offset)
    hours = starts[first : bisect_left(ends, offset + limit) + 1]
    if not hours:
        return replace(question, end=question.start), 0
    return replace(question, start=min(hours), end=max(hours) + HOUR), offset - (ends[first - 1] if first else 0)


def find_rows(
    connection: Connection, question: RowQuery, limit: int, offset: int = 0, after: RowKey | None = None
) -> list[UsageRow]:
    """The rows that answer a question, in its order; those after a place."""
    found = _matching(connection, question, sums.c.period_id, sums.c.group_id, named=True)
    if after is not None:
        found = found.where(_beyond(_order(question), after))
    order = [column if ascending else column.desc() for column, ascending in _order(question)]
    # What is sorted is small: the whole rows are read once it is known which.
    places = found.order_by(*order).limit(limit).offset(offset).subquery()
    same = (sums.c.period_id == places.c.period_id) & (sums.c.group_id == places.c.group_id)
    rows = connection.execute(_whole(_WHOLE.join(places, same)).order_by(*order)).all()
    known = KnownFrom(connection, question.cluster)
    return list(_rows(rows, known, question.level in WITH_HISTOGRAM and not question.sums_only))


def present_workloads(connection: Connection, question: RowQuery) -> PresentWorkloads:
    """The workloads that a question is about, as far as they have sums."""
    return PresentWorkloads(connection, wanted_groups(question) if _is_about_some(question) else None)


def _is_about_some(question: RowQuery) -> bool:
    """Whether it is not about all groups of its level."""
    texts = question.key, question.value, question.kind, question.name
    return bool(question.excluded) or question.namespaces is not None or any(text is not None for text in texts)


def _matching(connection: Connection, question: RowQuery, *columns: Any, named: bool = False) -> Select[Any]:
    """Rows of the hours of a question.

    :param named: whether the names of their groups are read as well.
    """
    few = _few(connection, question)
    every = of_all_workloads(question)
    source = periods.join(sums, sums.c.period_id == periods.c.id)
    if named or (few is None and every is None):
        source = source.join(groups, groups.c.id == sums.c.group_id)
    statement = select(*columns).select_from(source).where(_hours(question))
    # Few of them are looked up in each hour; of many the hour is read.
    if few is not None:
        return statement.where(among(sums.c.group_id, sorted(few)))
    return statement.where(wanted_groups(question) if every is None else every)


def among(column: ColumnElement[int], numbers: Sequence[int]) -> ColumnElement[bool]:
    """Whether a number is one of those, which ascend."""
    if not numbers or numbers[-1] - numbers[0] >= DENSE * len(numbers):
        return column.in_(numbers)
    # Rows that stand together are read one after the other, not each looked up.
    between = column.between(numbers[0], numbers[-1])
    return between if numbers[-1] - numbers[0] < len(numbers) else between & (column + 0).in_(numbers)


def of_all_workloads(question: RowQuery) -> ColumnElement[bool] | None:
    """What is true of the rows of a question about every workload; None for others.

    Asked for their groups, SQLite would go through all workloads that there ever were.
    """
    if question.level is Level.WORKLOAD and not _is_about_some(question):
        return sums.c.status.is_not(None)
    return None


def _few(connection: Connection, question: RowQuery) -> Sequence[int] | None:
    """The groups that a question is about, where they are few; of workloads those that there were at the time."""
    if question.few is not None:
        return question.few
    wanted = select(groups.c.id).where(wanted_groups(question)).limit(_FEW + 1)
    few: Sequence[int] = connection.execute(wanted).scalars().all()
    if len(few) > _FEW and question.level is Level.WORKLOAD and _is_about_some(question):
        hours = connection.execute(select(periods.c.id).where(_hours(question))).scalars().all()
        few = sorted(present_workloads(connection, question).together(hours))
    return few if len(few) <= _FEW else None


def wanted_groups(question: RowQuery) -> ColumnElement[bool]:
    """The groups that a question is about."""
    found = [groups.c.cluster_id == question.cluster, groups.c.level == question.level.value]
    wanted = {"key": question.key, "value": question.value, "kind": question.kind, "name": question.name}
    found += [groups.c[column] == text for column, text in wanted.items() if text is not None]
    if question.namespaces is not None:
        found.append(groups.c.namespace.in_(sorted(question.namespaces)))
    if question.excluded:
        found.append(groups.c.namespace.not_in(sorted(question.excluded)))
    return and_(*found)


def _hours(question: RowQuery) -> ColumnElement[bool]:
    return and_(
        periods.c.cluster_id == question.cluster,
        periods.c.span == question.span.value,
        periods.c.start >= question.start,
        periods.c.start < question.end,
    )


def row_key(question: RowQuery, row: UsageRow) -> RowKey:
    """Where a row stands: of what the order of a question is made."""
    by_name = row.group.key, row.group.value, row.id & ((1 << GROUP_BITS) - 1)
    if question.order is RowOrder.TIME:
        return row.start, *by_name
    by_use = question.order is RowOrder.UTILIZATION
    amount, over = (row.sums.util_gpu_s, row.sums.obs_gpu_s) if by_use else (row.sums.alloc_gpu_s, row.seconds)
    return (0, amount / over, row.start, *by_name) if over > 0 else (1, None, row.start, *by_name)


def is_row_key(question: RowQuery, place: RowKey) -> bool:
    """Whether something has the form of a place."""
    number, name = (int, float), (str,)
    kinds: tuple[tuple[type, ...], ...] = (number, name, name, number)
    if question.order is not RowOrder.TIME:
        kinds = (number, (*number, type(None)), *kinds)
    return len(place) == len(kinds) and all(map(isinstance, place, kinds))


def order_key(question: RowQuery, place: RowKey) -> tuple[Any, ...]:
    """What sorts places as a question wants rows."""
    if question.order is RowOrder.TIME:
        time, *by_name = place
        return (_turned(time, question), *by_name)
    unknown, value, *rest = place
    return (unknown, 0.0 if value is None else _turned(value, question), *rest)


def _turned(value: Any, question: RowQuery) -> float:
    return float(value if question.ascending else -value)


def _beyond(order: Sequence[tuple[ColumnElement[Any], bool]], place: RowKey) -> ColumnElement[bool]:
    """What stands after a place."""
    found: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for (column, ascending), value in zip(order, place, strict=True):
        if value is None:
            # All that is as unknown stands together.
            continue
        found.append(and_(*equal, column > value if ascending else column < value))
        equal.append(column == value)
    return or_(*found)


def _order(question: RowQuery) -> list[tuple[ColumnElement[Any], bool]]:
    by_name: list[tuple[ColumnElement[Any], bool]] = [(groups.c[name], True) for name in ("key", "value", "id")]
    time: ColumnElement[Any] = periods.c.start
    if question.order is RowOrder.TIME:
        return [(time, question.ascending), *by_name]
    if question.order is RowOrder.UTILIZATION:
        unknown = case((sums.c.obs_gpu_s > 0, 0), else_=1)
        value: ColumnElement[Any] = sums.c.util_gpu_s / func.nullif(sums.c.obs_gpu_s, 0)
    else:
        unknown = case((periods.c.seconds > 0, 0), else_=1)
        value = sums.c.alloc_gpu_s / func.nullif(periods.c.seconds, 0)
    return [(unknown, True), (value, question.ascending), (time, True), *by_name]


_WHOLE = (
    sums.join(periods, periods.c.id == sums.c.period_id)
    .join(groups, groups.c.id == sums.c.group_id)
    .outerjoin(attributes, attributes.c.id == sums.c.attributes_id)
)


def _whole(source: FromClause = _WHOLE) -> Select[Any]:
    of_period = (periods.c[name] for name in ("start", "span", "seconds", "created_at", "updated_at", "provisional"))
    of_group = groups.c.level, groups.c.key, groups.c.value
    told = attributes.c.labels, attributes.c.annotations, sums.c.status
    return select(sums.c.period_id, sums.c.group_id, *of_period, *of_group, *told, *SUMMED).select_from(source)


def _rows(rows: Iterable[Any], known: KnownFrom, with_histogram: bool) -> Iterator[UsageRow]:
    made: dict[int, Group] = {}
    said: dict[tuple[str | None, str | None], Described] = {}
    for row in rows:
        number, group, start, span, seconds, created, updated, provisional, level, key, value, *rest = row
        labels, annotations, status, *values = rest
        if group not in made:
            made[group] = Group(Level(level), key, value)
        if (labels, annotations) not in said:
            said[labels, annotations] = described(labels or "{}", annotations or "{}")
        told = said[labels, annotations]
        yield UsageRow(
            id=number << GROUP_BITS | group,
            start=start,
            end=start + PeriodLength(span).seconds,
            seconds=seconds,
            known_from=(first := known.of(PeriodLength(span), start, seconds)),
            known_until=first + seconds,
            created_at=created,
            updated_at=updated,
            provisional=provisional,
            group=made[group],
            sums=sums_of(values, with_histogram),
            labels=told.labels,
            annotations=told.annotations,
            status=None if status is None else WorkloadStatus(status),
        )


def every_row(connection: Connection, cluster: int, start: int, end: int) -> Iterator[UsageRow]:
    """Yield the rows of all levels, nodes too, of the hours that begin in [start, end), by time.

    A day whose hours are pruned has rows of the whole day instead, so that the sums are those of the ledger.

    :param start: midnight in UTC; likewise ``end``.
    """
    found = select(periods).where(periods.c.cluster_id == cluster, periods.c.start >= start, periods.c.start < end)
    every, known = connection.execute(found.order_by(periods.c.start)).all(), KnownFrom(connection, cluster)
    of_hours: dict[int, float] = {}
    for period in every:
        if period.span == PeriodLength.HOUR.value:
            day = period.start // DAY * DAY
            of_hours[day] = of_hours.get(day, 0.0) + period.seconds
    whole_days = {
        period.start
        for period in every
        if period.span == PeriodLength.DAY.value
        and (period.start not in of_hours or (not period.provisional and of_hours[period.start] < period.seconds))
    }
    for period in every:
        if (period.span == PeriodLength.DAY.value) != (period.start // DAY * DAY in whole_days):
            continue
        whole = _whole().where(sums.c.period_id == period.id).order_by(sums.c.group_id)
        yield from _rows(connection.execute(whole), known, with_histogram=True)
