"""Queries of holdings, capacities and quotas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Table, and_, bindparam, func, or_, select

from gpuctl_usage.facts import Capacity, CapacityState, EndReason, GpuQuota, Holding
from gpuctl_usage.store.database_tables import attributes, capacities, groups, holdings, quotas
from gpuctl_usage.store.surrogate_keys import (
    Attributes,
    attribute_ids,
    group_ids,
    group_of,
    parse_attributes,
    put_rows,
    workload_group,
    workload_of,
)
from gpuctl_usage.sums import Group, Level

_AT_ONCE = 500


def put_holdings(connection: Connection, cluster: int, changed: Sequence[Holding]) -> None:
    """Insert holdings, or replace those with the same pod and start."""
    wanted = [
        group for item in changed for group in (workload_group(item.workload), _node(item.node), _model(item.model))
    ]
    ids = group_ids(connection, cluster, wanted)
    described_by = attribute_ids(connection, (Attributes(item.labels, item.annotations) for item in changed))
    rows = [
        {
            "cluster_id": cluster,
            "pod_uid": item.pod_uid,
            "start": item.start,
            "namespace": item.namespace,
            "pod": item.pod,
            "workload_id": ids[workload_group(item.workload)],
            "node_id": ids[_node(item.node)],
            "model_id": ids[_model(item.model)],
            "attributes_id": number,
            "gpus": item.gpus,
            "started": item.started,
            "ended": item.end,
            "ending": None if item.ending is None else item.ending.value,
        }
        for item, number in zip(changed, described_by, strict=True)
    ]
    put_rows(connection, holdings, rows)


def put_capacities(connection: Connection, cluster: int, changed: Sequence[Capacity]) -> None:
    """Insert capacities, or replace those with the same node and start."""
    ids = group_ids(
        connection, cluster, [group for item in changed for group in (_node(item.node), _model(item.model))]
    )
    rows = [
        {
            "cluster_id": cluster,
            "node_id": ids[_node(item.node)],
            "start": item.start,
            "model_id": ids[_model(item.model)],
            "gpus": item.gpus,
            "state": item.state.value,
            "ended": item.end,
        }
        for item in changed
    ]
    put_rows(connection, capacities, rows)


def put_quotas(connection: Connection, cluster: int, changed: Sequence[GpuQuota]) -> None:
    """Insert quotas, or replace those with the same namespace and start."""
    rows = [
        {
            "cluster_id": cluster,
            "namespace": item.namespace,
            "start": item.start,
            "gpus": item.gpus,
            "ended": item.end,
        }
        for item in changed
    ]
    put_rows(connection, quotas, rows)


def _node(name: str) -> Group:
    return Group(Level.NODE, value=name)


def _model(name: str) -> Group:
    return Group(Level.MODEL, value=name)


def open_ones(connection: Connection, table: FromClause) -> ColumnElement[bool]:
    """Return the condition for intervals without an end."""
    lasting: ColumnElement[bool] = table.c.ended.is_(None)
    # Without the hint, SQLite would scan all intervals: it assumes that most have no end.
    return func.unlikely(lasting) if connection.dialect.name == "sqlite" else lasting


def overlapping(
    table: Table, start: float | ColumnElement[float], end: float | ColumnElement[float]
) -> ColumnElement[bool]:
    """Return the condition for intervals that overlap [start, end)."""
    return (table.c.start < end) & or_(table.c.ended.is_(None), table.c.ended > start)


def read_holdings(connection: Connection, cluster: int, which: ColumnElement[bool]) -> list[Holding]:
    """Return holdings, ordered by start."""
    workload, node, model = (groups.alias(name) for name in ("workload", "node", "model"))
    statement = (
        select(
            holdings,
            workload.c.level,
            workload.c.key,
            workload.c.value,
            node.c.value.label("node"),
            model.c.value.label("model"),
            attributes.c.labels,
            attributes.c.annotations,
        )
        .join(workload, workload.c.id == holdings.c.workload_id)
        .join(node, node.c.id == holdings.c.node_id)
        .join(model, model.c.id == holdings.c.model_id)
        .join(attributes, attributes.c.id == holdings.c.attributes_id)
        .where(holdings.c.cluster_id == cluster, which)
        .order_by(holdings.c.start, holdings.c.pod_uid)
    )
    return [_holding(row) for row in connection.execute(statement).all()]


def _holding(row: Any) -> Holding:
    said = parse_attributes(row.labels, row.annotations)
    return Holding(
        pod_uid=row.pod_uid,
        namespace=row.namespace,
        pod=row.pod,
        workload=workload_of(group_of(row)),
        node=row.node,
        gpus=row.gpus,
        model=row.model,
        labels=said.labels,
        annotations=said.annotations,
        start=row.start,
        started=row.started,
        end=row.ended,
        ending=None if row.ending is None else EndReason(row.ending),
    )


def held_since(connection: Connection, cluster: int) -> dict[str, float]:
    """Return since when each pod has held its GPUs without a gap, by uid, if that is before its open holding: a change
    of labels or the like ends a holding and begins another.
    """
    current, earlier = holdings.alias("current"), holdings.alias("earlier")
    is_earlier = (
        earlier.c.cluster_id == cluster,
        earlier.c.pod_uid == current.c.pod_uid,
        # SQLite finds them by the primary key then, not by the time of their end.
        earlier.c.start < current.c.start,
    )
    statement = (
        select(earlier.c.pod_uid, earlier.c.start, earlier.c.ended, current.c.start.label("open_since"))
        .select_from(current)
        .join(earlier, and_(*is_earlier))
        .where(current.c.cluster_id == cluster, open_ones(connection, current))
        .order_by(earlier.c.start.desc())
    )
    found: dict[str, float] = {}
    for uid, start, ended, open_since in connection.execute(statement):
        if ended == found.get(uid, open_since):
            found[uid] = start
    return found


def read_capacities(connection: Connection, cluster: int, which: ColumnElement[bool]) -> list[Capacity]:
    """Return capacities, ordered by start."""
    node, model = groups.alias("node"), groups.alias("model")
    statement = (
        select(capacities, node.c.value.label("node"), model.c.value.label("model"))
        .join(node, node.c.id == capacities.c.node_id)
        .join(model, model.c.id == capacities.c.model_id)
        .where(capacities.c.cluster_id == cluster, which)
        .order_by(capacities.c.start, node.c.value)
    )
    return [
        Capacity(row.node, row.model, row.gpus, CapacityState(row.state), row.start, row.ended)
        for row in connection.execute(statement).all()
    ]


def holding_ends(connection: Connection, cluster: int, uids: Sequence[str]) -> dict[str, float]:
    """Return when the last holding of each pod ended, for the pods whose holdings have all ended."""
    found: dict[str, float] = {}
    for first in range(0, len(uids), _AT_ONCE):
        statement = (
            select(holdings.c.pod_uid, func.max(holdings.c.ended).label("ended"))
            .where(holdings.c.cluster_id == cluster, holdings.c.pod_uid.in_(uids[first : first + _AT_ONCE]))
            .group_by(holdings.c.pod_uid)
            .having(func.count() == func.count(holdings.c.ended))
        )
        found |= {row.pod_uid: row.ended for row in connection.execute(statement)}
    return found


def capacity_ends(connection: Connection, cluster: int) -> dict[str, float]:
    """Return when the last closed capacity of each node ended."""
    statement = (
        select(groups.c.value, func.max(capacities.c.ended).label("ended"))
        .join(groups, groups.c.id == capacities.c.node_id)
        .where(capacities.c.cluster_id == cluster, capacities.c.ended.is_not(None))
        .group_by(groups.c.value)
    )
    return {row.value: row.ended for row in connection.execute(statement)}


def read_quotas(connection: Connection, cluster: int, which: ColumnElement[bool]) -> list[GpuQuota]:
    """Return quotas, ordered by namespace and start."""
    statement = (
        select(quotas.c.namespace, quotas.c.gpus, quotas.c.start, quotas.c.ended)
        .where(quotas.c.cluster_id == cluster, which)
        .order_by(quotas.c.namespace, quotas.c.start)
    )
    return [GpuQuota(*row) for row in connection.execute(statement).all()]


def of_namespaces(names: Collection[str]) -> ColumnElement[bool]:
    """Return the condition for quotas of these namespaces."""
    return quotas.c.namespace.in_(bindparam("names", sorted(names), expanding=True))
