"""Rows of hours as questions want them: of a level, of some namespaces or one workload, in an order, a page of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select, tuple_

from gpuctl_usage.store.hours import Span, WorkloadStatus, sums_of
from gpuctl_usage.store.numbering import described, group_of
from gpuctl_usage.store.tables import attributes, clusters, groups, periods, sums
from gpuctl_usage.sums import Group, Level, Sums

GROUP_BITS = 28
"""Of a row's id, of 53 bits: which group. The rest says of when it is."""
_FEW = 500


class RowOrder(str, Enum):
    """By what rows stand. What is not known is last, and of equals the earlier hour and then the name decides."""

    TIME = "time"
    UTILIZATION = "utilization"
    ALLOCATED = "allocated_gpu_count"


@dataclass(frozen=True)
class Question:
    """Which rows.

    :param start: hours that begin at it or later, and before ``end``.
    :param namespaces: those that count, None for all; likewise every other field that is None.
    :param ascending: the order; of several with one value it does not change.
    """

    cluster: int
    level: Level
    start: float
    end: float
    namespaces: Collection[str] | None = None
    key: str | None = None
    value: str | None = None
    kind: str | None = None
    name: str | None = None
    order: RowOrder = RowOrder.TIME
    ascending: bool = True
    span: Span = Span.HOUR


class UsageRow(NamedTuple):
    """The sums of a group over an hour, or several.

    :param id: stays the same when the hour is rolled up again; less than 2^53.
    :param seconds: how much there has been of it, of what is known.
    :param labels: of a workload, as far as they are known; likewise ``annotations`` and ``status``.
    """

    id: int
    start: int
    end: int
    seconds: float
    created_at: float
    updated_at: float
    provisional: bool
    group: Group
    sums: Sums
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    status: WorkloadStatus | None


class NamedCluster(NamedTuple):
    """A cluster of which something is known."""

    id: int
    uid: str
    name: str


def find_clusters(connection: Connection) -> list[NamedCluster]:
    """All, the first that was collected first."""
    rows = connection.execute(select(clusters.c.id, clusters.c.uid, clusters.c.name).order_by(clusters.c.id))
    return [NamedCluster(row.id, row.uid, row.name) for row in rows]


def values_of(connection: Connection, cluster: int, level: Level, key: str) -> list[str]:
    """The values that a label or annotation has had, in order."""
    of_key = groups.c.cluster_id == cluster, groups.c.level == level.value, groups.c.key == key
    return sorted(connection.execute(select(groups.c.value).distinct().where(*of_key)).scalars())


def namespaces_of(connection: Connection, cluster: int) -> list[str]:
    """Those of which anything is known, in order: of a pod also before its first hour is rolled up."""
    known = groups.c.cluster_id == cluster, groups.c.namespace != ""
    return sorted(connection.execute(select(groups.c.namespace).distinct().where(*known)).scalars())


def keys_of(connection: Connection, cluster: int, level: Level) -> list[str]:
    """The keys that groups of a level have had, in order."""
    statement = select(groups.c.key).distinct().where(groups.c.cluster_id == cluster, groups.c.level == level.value)
    return sorted(connection.execute(statement).scalars())


def count_rows(connection: Connection, question: Question) -> int:
    """How many rows answer a question."""
    return int(connection.execute(_matching(connection, question, func.count())).scalar_one())


def find_rows(connection: Connection, question: Question, limit: int, offset: int = 0) -> list[UsageRow]:
    """The rows that answer a question, in its order."""
    found = _matching(connection, question, sums.c.period_id, sums.c.group_id)
    places = connection.execute(found.order_by(*_order(question)).limit(limit).offset(offset)).all()
    # What is sorted is small: the whole rows are read once it is known which.
    rows: dict[tuple[int, int], UsageRow] = {}
    for start in range(0, len(places), _FEW):
        few = [(period, group) for period, group in places[start : start + _FEW]]
        whole = _whole().where(tuple_(sums.c.period_id, sums.c.group_id).in_(few))
        rows.update({(row.period_id, row.group_id): _row(row) for row in connection.execute(whole)})
    return [rows[period, group] for period, group in places]


def capacity_by_hour(connection: Connection, question: Question) -> dict[int, float]:
    """Of the hours of a question the GPUs of the whole cluster, times seconds."""
    statement = (
        select(periods.c.start, sums.c.cap_gpu_s)
        .join(sums, sums.c.period_id == periods.c.id)
        .join(groups, groups.c.id == sums.c.group_id)
        .where(_hours(question), groups.c.cluster_id == question.cluster, groups.c.level == Level.CLUSTER.value)
    )
    return {row.start: row.cap_gpu_s for row in connection.execute(statement)}


def _matching(connection: Connection, question: Question, *columns: Any) -> Select[Any]:
    wanted = wanted_groups(question)
    few = list(connection.execute(select(groups.c.id).where(wanted).limit(_FEW + 1)).scalars())
    statement = select(*columns).select_from(periods).join(sums, sums.c.period_id == periods.c.id)
    statement = statement.join(groups, groups.c.id == sums.c.group_id).where(_hours(question))
    # Few of them are looked up in each hour; of many the hour is read.
    return statement.where(wanted if len(few) > _FEW else sums.c.group_id.in_(few))


def wanted_groups(question: Question) -> ColumnElement[bool]:
    """The groups that a question is about."""
    found = [groups.c.cluster_id == question.cluster, groups.c.level == question.level.value]
    wanted = {"key": question.key, "value": question.value, "kind": question.kind, "name": question.name}
    found += [groups.c[column] == text for column, text in wanted.items() if text is not None]
    if question.namespaces is not None:
        found.append(groups.c.namespace.in_(sorted(question.namespaces)))
    return and_(*found)


def _hours(question: Question) -> ColumnElement[bool]:
    return and_(
        periods.c.cluster_id == question.cluster,
        periods.c.span == question.span.value,
        periods.c.start >= question.start,
        periods.c.start < question.end,
    )


def _order(question: Question) -> list[ColumnElement[Any]]:
    by_name: list[ColumnElement[Any]] = [groups.c.key, groups.c.value, groups.c.id]
    time: ColumnElement[Any] = periods.c.start
    if question.order is RowOrder.TIME:
        return [time if question.ascending else time.desc(), *by_name]
    if question.order is RowOrder.UTILIZATION:
        unknown = case((sums.c.obs_gpu_s > 0, 0), else_=1)
        value: ColumnElement[Any] = sums.c.util_gpu_s / func.nullif(sums.c.obs_gpu_s, 0)
    else:
        unknown = case((periods.c.seconds > 0, 0), else_=1)
        value = sums.c.alloc_gpu_s / func.nullif(periods.c.seconds, 0)
    return [unknown, value if question.ascending else value.desc(), time, *by_name]


def _whole() -> Select[Any]:
    return (
        select(
            sums,
            periods.c.start,
            periods.c.span,
            periods.c.seconds,
            periods.c.created_at,
            periods.c.updated_at,
            periods.c.provisional,
            groups.c.level,
            groups.c.key,
            groups.c.value,
            attributes.c.labels,
            attributes.c.annotations,
        )
        .select_from(sums)
        .join(periods, periods.c.id == sums.c.period_id)
        .join(groups, groups.c.id == sums.c.group_id)
        .outerjoin(attributes, attributes.c.id == sums.c.attributes_id)
    )


def _row(row: Any) -> UsageRow:
    said = described(row.labels or "{}", row.annotations or "{}")
    return UsageRow(
        id=row.period_id << GROUP_BITS | row.group_id,
        start=row.start,
        end=row.start + Span(row.span).seconds,
        seconds=row.seconds,
        created_at=row.created_at,
        updated_at=row.updated_at,
        provisional=row.provisional,
        group=group_of(row),
        sums=sums_of(row),
        labels=said.labels,
        annotations=said.annotations,
        status=None if row.status is None else WorkloadStatus(row.status),
    )
