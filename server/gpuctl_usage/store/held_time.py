"""GPU-seconds that pods held, summed by the database from their holdings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Float, Integer, Row, case, func, select

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
    given = inline_table(connection, "spans", {"first": Float, "last": Float, "part": Integer})
    start = case((holdings.c.start > given.c.first, holdings.c.start), else_=given.c.first)
    end = case((holdings.c.ended < given.c.last, holdings.c.ended), else_=given.c.last)
    keys = *by, holdings.c.model_id, given.c.part
    summed = (
        select(*keys, func.sum(holdings.c.gpus * (end - start)).label("seconds"))
        .select_from(given.join(holdings, overlapping(holdings, given.c.first, given.c.last)))
        .where(holdings.c.cluster_id == cluster, *which)
        .group_by(*keys)
        .subquery()
    )
    columns = *(summed.c[column.name] for column in by), groups.c.value.label("model"), summed.c.part, summed.c.seconds
    statement = select(*columns).join(groups, groups.c.id == summed.c.model_id).where(summed.c.seconds > 0)
    return connection.execute(statement, {"spans": packed_rows(spans)}).all()
