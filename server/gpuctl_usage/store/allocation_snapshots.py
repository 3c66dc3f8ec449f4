"""Storage of allocation snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from gpuctl_usage.facts import AllocationSnapshot, WorkloadAllocation
from gpuctl_usage.store.database_tables import snapshots
from gpuctl_usage.store.packing import pack_allocations, unpack_allocations
from gpuctl_usage.store.surrogate_keys import group_ids, upsert, workload_group, workload_keys


class StoredSnapshot(NamedTuple):
    """A stored snapshot.

    :param snapshot: ``workloads`` is empty if details were not requested or have expired.
    :param has_details: True if the workloads are known.
    """

    id: int
    created_at: float
    snapshot: AllocationSnapshot
    has_details: bool


def put_snapshot(connection: Connection, cluster: int, snapshot: AllocationSnapshot, now: float) -> None:
    """Insert a snapshot, or replace the one of the same time."""
    keys = [workload_group(item.workload) for item in snapshot.workloads]
    ids = group_ids(connection, cluster, keys)
    held = [
        (ids[key], item.gpus, None if item.utilization is None else round(item.utilization, 2))
        for key, item in zip(keys, snapshot.workloads, strict=True)
    ]
    values = {
        "capacity": snapshot.capacity,
        "allocated": snapshot.allocated,
        "details": pack_allocations(sorted(held)) if held else b"",
    }
    statement = upsert(connection, snapshots).values(cluster_id=cluster, time=snapshot.time, created_at=now, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["cluster_id", "time"], set_=values))


def count_snapshots(connection: Connection, cluster: int, start: float, end: float) -> int:
    """Return the number of snapshots in [start, end)."""
    return connection.execute(
        select(func.count()).select_from(snapshots).where(_between(cluster, start, end))
    ).scalar_one()


def first_of_each(connection: Connection, cluster: int, start: float, end: float, interval: int) -> list[int]:
    """Return the id of the first snapshot of each interval of ``interval`` seconds, ordered by time."""
    found: dict[int, int] = {}
    statement = select(snapshots.c.id, snapshots.c.time).where(_between(cluster, start, end))
    for row in connection.execute(statement.order_by(snapshots.c.time)):
        found.setdefault(int(row.time // interval), row.id)
    return list(found.values())


def read_snapshots(
    connection: Connection,
    cluster: int,
    start: float,
    end: float,
    *,
    details: bool,
    limit: int,
    offset: int = 0,
    few: Sequence[int] | None = None,
) -> list[StoredSnapshot]:
    """Return snapshots, ordered by time.

    :param few: ids of the snapshots to read, instead of a limit and an offset.
    """
    columns = [column for column in snapshots.c if details or column is not snapshots.c.details]
    statement = select(*columns).where(_between(cluster, start, end))
    statement = statement.limit(limit).offset(offset) if few is None else statement.where(snapshots.c.id.in_(few))
    rows = connection.execute(statement.order_by(snapshots.c.time)).all()
    return _kept(connection, rows, details)


def latest_snapshot(connection: Connection, cluster: int) -> StoredSnapshot | None:
    """Return the last snapshot; None if the cluster has none."""
    statement = select(snapshots).where(snapshots.c.cluster_id == cluster).order_by(snapshots.c.time.desc()).limit(1)
    found = _kept(connection, connection.execute(statement).all(), True)
    return found[0] if found else None


def _between(cluster: int, start: float, end: float) -> ColumnElement[bool]:
    return (snapshots.c.cluster_id == cluster) & (snapshots.c.time >= start) & (snapshots.c.time < end)


def _kept(connection: Connection, rows: Sequence[Any], details: bool) -> list[StoredSnapshot]:
    held = {row.id: unpack_allocations(row.details) for row in rows if details and row.details}
    workloads = workload_keys(connection, (number for items in held.values() for number, _, _ in items))
    found = []
    for row in rows:
        items = tuple(WorkloadAllocation(workloads[number], gpus, used) for number, gpus, used in held.get(row.id, ()))
        snapshot = AllocationSnapshot(row.time, row.capacity, row.allocated, items)
        found.append(StoredSnapshot(row.id, row.created_at, snapshot, details and row.details is not None))
    return found
