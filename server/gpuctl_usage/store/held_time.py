"""GPU-seconds that pods held, summed by the database from their holdings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    FromClause,
    Integer,
    Row,
    Text,
    case,
    func,
    literal,
    select,
)

from gpuctl_usage.store.database_tables import groups, holdings
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.intervals import overlapping

Span = tuple[float, float, int]
"""Start and end of a range, seconds since 1970, and the number of the part that it belongs to."""


def held_time(
    connection: Connection,
    cluster: int,
    spans: Iterable[Span],
    by: Sequence[Column[Any]],
    which: Iterable[ColumnElement[bool]] = (),
) -> Sequence[Row[Any]]:
    """Return the GPU-seconds held within the spans: the columns ``by``, ``model``, ``part`` and ``seconds``.

    :param by: columns of holdings.
    :param which: conditions for holdings.
    """
    given = _given_spans(connection)
    keys = *by, holdings.c.model_id, given.c.part
    summed = (
        select(*keys, _seconds(given).label("seconds"))
        .select_from(_within(given))
        .where(holdings.c.cluster_id == cluster, *which)
        .group_by(*keys)
        .subquery()
    )
    columns = *(summed.c[column.name] for column in by), groups.c.value.label("model"), summed.c.part, summed.c.seconds
    statement = select(*columns).join(groups, groups.c.id == summed.c.model_id).where(summed.c.seconds > 0)
    return connection.execute(statement, {"spans": packed_rows(spans)}).all()


class HeldModels:
    """The GPU-seconds that each workload held of each GPU model, ordered by their names.

    :param values: value of a label or annotation by attributes id, to group by it as well; None to group by no value.
    :param which: conditions for holdings.
    """

    def __init__(
        self,
        connection: Connection,
        cluster: int,
        spans: Iterable[Span],
        values: Mapping[int, str] | None,
        which: Iterable[ColumnElement[bool]] = (),
    ) -> None:
        self._connection = connection
        self._given = {"spans": packed_rows(spans)}
        given = _given_spans(connection)
        source: FromClause = _within(given)
        value: ColumnElement[str] = literal("")
        if values is not None:
            self._given["values"] = packed_rows(values.items())
            said = inline_table(connection, "values", {"id": Integer, "value": Text})
            source, value = source.join(said, said.c.id == holdings.c.attributes_id), said.c.value
        self._summed = (
            select(holdings.c.workload_id, holdings.c.model_id, value.label("value"), _seconds(given).label("seconds"))
            .select_from(source)
            .where(holdings.c.cluster_id == cluster, *which)
            .group_by(holdings.c.workload_id, holdings.c.model_id, value)
            .having(_seconds(given) > 0)
            .cte("summed")
        )

    def count(self) -> int:
        """Return the number of rows."""
        statement = select(func.count()).select_from(self._summed)
        return self._connection.execute(statement, self._given).scalar_one()

    def find(self, limit: int, offset: int) -> Sequence[Sequence[Any]]:
        """Return rows: namespace, kind, name and uid of the workload, the model, the value, and the GPU-seconds."""
        summed, model = self._summed, groups.alias("model")
        names = *(groups.c[name] for name in ("namespace", "kind", "name", "value")), model.c.value, summed.c.value
        # Outer joins, because SQLite would otherwise begin with all groups that ever existed.
        source = summed.outerjoin(groups, groups.c.id == summed.c.workload_id)
        source = source.outerjoin(model, model.c.id == summed.c.model_id)
        rows = select(*names, summed.c.seconds).select_from(source).order_by(*names).limit(limit).offset(offset)
        return self._connection.execute(rows, self._given).all()


def attributes_held(connection: Connection, cluster: int) -> Sequence[int]:
    """Return the attributes ids of all holdings of a cluster."""
    statement = select(holdings.c.attributes_id).distinct().where(holdings.c.cluster_id == cluster)
    return connection.execute(statement).scalars().all()


def _given_spans(connection: Connection) -> FromClause:
    return inline_table(connection, "spans", {"first": Float, "last": Float, "part": Integer})


def _within(given: FromClause) -> FromClause:
    return given.join(holdings, overlapping(holdings, given.c.first, given.c.last))


def _seconds(given: FromClause) -> ColumnElement[float]:
    """Return the sum of GPU-seconds that holdings have in common with spans."""
    start = case((holdings.c.start > given.c.first, holdings.c.start), else_=given.c.first)
    end = case((holdings.c.ended < given.c.last, holdings.c.ended), else_=given.c.last)
    return func.sum(holdings.c.gpus * (end - start))
