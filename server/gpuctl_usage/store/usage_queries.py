"""Queries of rows by level and filter: their groups, their order and their keys; and all rows of a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, case, func, or_, select

from gpuctl.objects.durations import DAY
from gpuctl_usage.store.database_tables import attributes, clusters, groups, periods, sums
from gpuctl_usage.store.hours import SUM_COLUMNS, KnownFrom, PeriodLength, WorkloadStatus, sums_of
from gpuctl_usage.store.present_workloads import PresentWorkloads
from gpuctl_usage.store.surrogate_keys import Attributes, parse_attributes
from gpuctl_usage.sums import Group, Level, Sums

GROUP_BITS = 28
"""Bits of a row's 53-bit id for the group; the others are for the period."""
_MAX_SPREAD = 3
"""Ids are read as a range if it has at most this many times as many ids as are wanted."""
WITH_HISTOGRAM = frozenset({Level.CLUSTER, Level.WORKLOAD})
"""Levels whose answers have percentiles."""

RowKey = Sequence[int | float | str | None]
"""Sort key of a row: the values of the order's columns. Used as a cursor."""


class RowOrder(str, Enum):
    """Order of rows. Unknown values come last; ties are ordered by hour, then by name."""

    TIME = "time"
    UTILIZATION = "utilization"
    ALLOCATED = "allocated_gpu_count"


ORDER_FIELDS = {RowOrder.UTILIZATION: ("util_gpu_s", "obs_gpu_s"), RowOrder.ALLOCATED: ("alloc_gpu_s",)}
"""Fields of sums that an order by value needs: the second one, or else the known length, divides the first one."""


@dataclass(frozen=True)
class RowQuery:
    """Filter and order of rows.

    :param namespaces: None for all; likewise for the other filters.
    :param excluded: namespaces to leave out.
    :param ascending: direction of the order; ties always have the same order.
    :param sums_only: read only additive sums: no percentiles, labels, status and number of workloads.
    """

    cluster: int
    level: Level
    namespaces: Collection[str] | None = None
    excluded: Collection[str] = ()
    key: str | None = None
    value: str | None = None
    kind: str | None = None
    name: str | None = None
    order: RowOrder = RowOrder.TIME
    ascending: bool = True
    sums_only: bool = False


class UsageRow(NamedTuple):
    """Sums of a group over an hour or a longer step.

    :param id: below 2^53; does not change when the hour is rolled up again.
    :param seconds: known length; the known part is [``known_from``, ``known_until``).
    :param labels: of a workload, if known; likewise ``annotations`` and ``status``.
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
    """A cluster in the database.

    :param last_seen: time until which pods and nodes were followed; None if they never were. ``quotas_seen``: likewise
    for quotas.
    """

    id: int
    uid: str
    name: str
    last_seen: float | None
    quotas_seen: float | None


def find_clusters(connection: Connection) -> list[StoredCluster]:
    """Return all clusters in the order in which they were first collected."""
    columns = (clusters.c[name] for name in StoredCluster._fields)
    return [StoredCluster(*row) for row in connection.execute(select(*columns).order_by(clusters.c.id))]


def values_of(connection: Connection, cluster: int, level: Level, key: str) -> list[str]:
    """Return all values of a label or annotation, sorted."""
    of_key = groups.c.cluster_id == cluster, groups.c.level == level.value, groups.c.key == key
    return sorted(connection.execute(select(groups.c.value).distinct().where(*of_key)).scalars())


def namespaces_of(connection: Connection, cluster: int) -> list[str]:
    """Return all namespaces with usage, sorted, including those whose first hour is not rolled up yet."""
    found: set[str] = set()
    for level in (Level.NAMESPACE, Level.WORKLOAD):
        # Skip through the index from one name to the next: there are a thousand times as many workloads.
        of_level = groups.c.cluster_id == cluster, groups.c.level == level.value
        first = select(func.min(groups.c.namespace).label("name")).where(*of_level).cte("names", recursive=True)
        following = select(func.min(groups.c.namespace)).where(*of_level, groups.c.namespace > first.c.name)
        names = first.union_all(select(following.scalar_subquery()).where(first.c.name.is_not(None)))
        found.update(connection.execute(select(names.c.name).where(names.c.name.is_not(None))).scalars())
    return sorted(found)


def keys_of(connection: Connection, cluster: int, level: Level) -> list[str]:
    """Return all keys of a level, sorted."""
    statement = select(groups.c.key).distinct().where(groups.c.cluster_id == cluster, groups.c.level == level.value)
    return sorted(connection.execute(statement).scalars())


def present_workloads(connection: Connection, query: RowQuery) -> PresentWorkloads:
    """Return the workloads of the query that have sums."""
    return PresentWorkloads(connection, wanted_groups(query) if is_filtered(query) else None)


def is_filtered(query: RowQuery) -> bool:
    """Return True unless the query matches all groups of its level."""
    texts = query.key, query.value, query.kind, query.name
    return bool(query.excluded) or query.namespaces is not None or any(text is not None for text in texts)


def is_in(column: ColumnElement[int], numbers: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that a column is one of the ascending ids."""
    if not numbers or numbers[-1] - numbers[0] >= _MAX_SPREAD * len(numbers):
        return column.in_(numbers)
    # Adjacent rows are read as a range instead of one by one.
    between = column.between(numbers[0], numbers[-1])
    return between if numbers[-1] - numbers[0] < len(numbers) else between & (column + 0).in_(numbers)


def wanted_groups(query: RowQuery) -> ColumnElement[bool]:
    """Return the condition for the query's groups."""
    found = [groups.c.cluster_id == query.cluster, groups.c.level == query.level.value]
    wanted = {"key": query.key, "value": query.value, "kind": query.kind, "name": query.name}
    found += [groups.c[column] == text for column, text in wanted.items() if text is not None]
    if query.namespaces is not None:
        found.append(groups.c.namespace.in_(sorted(query.namespaces)))
    if query.excluded:
        found.append(groups.c.namespace.not_in(sorted(query.excluded)))
    return and_(*found)


def row_key(query: RowQuery, row: UsageRow) -> RowKey:
    """Return the row's sort key for the query's ordering."""
    by_name = row.group.key, row.group.value, row.id & ((1 << GROUP_BITS) - 1)
    if query.order is RowOrder.TIME:
        return row.start, *by_name
    by_use = query.order is RowOrder.UTILIZATION
    amount, over = (row.sums.util_gpu_s, row.sums.obs_gpu_s) if by_use else (row.sums.alloc_gpu_s, row.seconds)
    return (0, amount / over, row.start, *by_name) if over > 0 else (1, None, row.start, *by_name)


def is_row_key(query: RowQuery, place: RowKey) -> bool:
    """Return True if a value has the form of a row key of the query."""
    number, name = (int, float), (str,)
    kinds: tuple[tuple[type, ...], ...] = (number, name, name, number)
    if query.order is not RowOrder.TIME:
        kinds = (number, (*number, type(None)), *kinds)
    return len(place) == len(kinds) and all(map(isinstance, place, kinds))


def after_key(order: Sequence[tuple[ColumnElement[Any], bool]], place: RowKey) -> ColumnElement[bool]:
    """Return the condition for rows after a row key."""
    found: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for (column, ascending), value in zip(order, place, strict=True):
        if value is None:
            # Rows with unknown values are ordered by the remaining columns.
            continue
        found.append(and_(*equal, column > value if ascending else column < value))
        equal.append(column == value)
    return or_(*found)


def ordered(order: Sequence[tuple[ColumnElement[Any], bool]]) -> list[ColumnElement[Any]]:
    """Return the terms of ORDER BY."""
    return [column if ascending else column.desc() for column, ascending in order]


def row_order(
    query: RowQuery, amounts: FromClause, start: ColumnElement[Any], seconds: ColumnElement[Any]
) -> list[tuple[ColumnElement[Any], bool]]:
    """Return the columns by which rows are ordered, each with True if it ascends.

    :param amounts: a source with the columns of :data:`ORDER_FIELDS`; ``seconds``: known length of the hour or step.
    """
    by_name: list[tuple[ColumnElement[Any], bool]] = [(groups.c[name], True) for name in ("key", "value", "id")]
    if query.order is RowOrder.TIME:
        return [(start, query.ascending), *by_name]
    amount, *over = ORDER_FIELDS[query.order]
    whole = amounts.c[over[0]] if over else seconds
    unknown, value = case((whole > 0, 0), else_=1), amounts.c[amount] / func.nullif(whole, 0)
    return [(unknown, True), (value, query.ascending), (start, True), *by_name]


_WHOLE = (
    sums.join(periods, periods.c.id == sums.c.period_id)
    .join(groups, groups.c.id == sums.c.group_id)
    .outerjoin(attributes, attributes.c.id == sums.c.attributes_id)
)


def _full_rows() -> Select[Any]:
    of_period = (periods.c[name] for name in ("start", "span", "seconds", "created_at", "updated_at", "provisional"))
    of_group = groups.c.level, groups.c.key, groups.c.value
    told = attributes.c.labels, attributes.c.annotations, sums.c.status
    return select(sums.c.period_id, sums.c.group_id, *of_period, *of_group, *told, *SUM_COLUMNS).select_from(_WHOLE)


def _rows(rows: Iterable[Any], known: KnownFrom) -> Iterator[UsageRow]:
    made: dict[int, Group] = {}
    said: dict[tuple[str | None, str | None], Attributes] = {}
    for row in rows:
        number, group, start, span, seconds, created, updated, provisional, level, key, value, *rest = row
        labels, annotations, status, *values = rest
        if group not in made:
            made[group] = Group(Level(level), key, value)
        if (labels, annotations) not in said:
            said[labels, annotations] = parse_attributes(labels or "{}", annotations or "{}")
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
            sums=sums_of(values),
            labels=told.labels,
            annotations=told.annotations,
            status=None if status is None else WorkloadStatus(status),
        )


def every_row(connection: Connection, cluster: int, start: int, end: int) -> Iterator[UsageRow]:
    """Yield the rows of all levels for the hours that begin in [start, end), ordered by time.

    A day whose hours are pruned has rows of the whole day instead, so that the sums match the ledger.

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
        whole = _full_rows().where(sums.c.period_id == period.id).order_by(sums.c.group_id)
        yield from _rows(connection.execute(whole), known)
