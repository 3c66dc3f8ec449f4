"""Snapshots in the form of the REST API, with the allocation of each workload."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from gpuctl.api.json_values import gpu_amount, rounded
from gpuctl.language.sentences import say
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage
from gpuctl_usage.answers.query_scope import Cursor, NothingKept, TooMuch, find_cluster, page_or_list
from gpuctl_usage.facts import WorkloadAllocation
from gpuctl_usage.rollup.quotients import mean_over
from gpuctl_usage.store.allocation_snapshots import (
    StoredSnapshot,
    count_snapshots,
    first_of_each,
    latest_snapshot,
    read_snapshots,
)
from gpuctl_usage.store.database import Database

MOST_DETAILED = 300
"""Maximum number of snapshots in an answer with allocation details, unless they are requested explicitly."""


class SnapshotListing(NamedTuple):
    """Snapshots, and a note for the user; "" if there is nothing to note."""

    answer: RowsOrPage
    note: str


def latest_utilization(database: Database, cluster: str, since: float) -> dict[str, float | None]:
    """Return the utilization in percent of each workload that held GPUs at the last snapshot, by its uid.

    A value is None if it was not measured. The result is empty if the last snapshot is older than ``since``.
    """
    with database.reading() as connection:
        kept = latest_snapshot(connection, find_cluster(connection, cluster).id)
    if kept is None or kept.snapshot.time < since:
        return {}
    return {item.workload.uid: item.utilization for item in kept.snapshot.workloads}


def latest(database: Database, cluster: str, namespaces: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the last snapshot.

    :param namespaces: the namespaces that the caller may see; None for all.
    :raises Unanswerable: the cluster does not exist or has no snapshot.
    """
    with database.reading() as connection:
        found = find_cluster(connection, cluster)
        kept = latest_snapshot(connection, found.id)
    if kept is None:
        raise NothingKept(say("there is no snapshot of the cluster {name} yet", name=found.name))
    seen = None if namespaces is None else frozenset(namespaces)
    value = _value(kept, found.name, seen, with_details=True)
    first = ("id", "cluster_name", "snapshot_time", "dimension_type")
    return {**{key: value[key] for key in first}, "dimension_key": "", "dimension_value": "", **value}


def snapshot_list(
    database: Database,
    hours: HoursQuery,
    *,
    details: bool | None = None,
    names: Collection[str] | None = None,
    interval: int = 0,
) -> SnapshotListing:
    """Return the snapshots of a range, in order of time.

    :param details: include the allocation of each workload; None: only if there are few snapshots.
    :param names: include only workloads with these names; None: all.
    :param interval: seconds; return only the first snapshot of each interval of this length (UTC); 0 for all.
    :raises Unanswerable: the cluster does not exist, or there are too many snapshots.
    """
    assert not isinstance(hours.paging, Cursor)
    paging, seen = hours.paging, None if hours.namespaces is None else frozenset(hours.namespaces)
    with database.reading() as connection:
        cluster = find_cluster(connection, hours.cluster)
        asked = cluster.id, hours.start, hours.end
        some = first_of_each(connection, *asked, interval) if interval else None
        total = count_snapshots(connection, *asked) if some is None else len(some)
        number = total if paging is None else min(total, paging.size)
        if details and paging is None and number > MOST_DETAILED:
            raise TooMuch(
                say(
                    "{number} snapshots with allocation details are too many; request a shorter time, or pages: "
                    "page=1&page_size={most}",
                    number=number,
                    most=MOST_DETAILED,
                )
            )
        told = number <= MOST_DETAILED if details is None else details

        def find(limit: int, offset: int) -> list[dict[str, Any]]:
            # The total of the visible namespaces is computed from the details.
            read = told or seen is not None
            found: list[dict[str, Any]] = []
            # The details of thousands of snapshots would need much memory at once.
            for first in range(offset, min(offset + limit, total), MOST_DETAILED):
                most = min(MOST_DETAILED, offset + limit - first)
                few = None if some is None else some[first : first + most]
                kept = read_snapshots(connection, *asked, details=read, limit=most, offset=first, few=few)
                found += [_value(item, cluster.name, seen, told, names) for item in kept]
            return found

        answer = page_or_list(paging, lambda: total, find)
    note = say(
        "allocation_details are omitted above {most} snapshots; request them with include_details=true",
        most=MOST_DETAILED,
    )
    return SnapshotListing(answer, note if details is None and not told else "")


def _value(
    kept: StoredSnapshot,
    cluster: str,
    seen: frozenset[str] | None,
    with_details: bool,
    names: Collection[str] | None = None,
) -> dict[str, Any]:
    snapshot = kept.snapshot
    theirs = [item for item in snapshot.workloads if seen is None or item.workload.namespace in seen]
    allocated: float | None = snapshot.allocated
    if seen is not None:
        allocated = sum(item.gpus for item in theirs) if kept.has_details else None
    if names is not None:
        theirs = [item for item in theirs if item.workload.name in names]
    return {
        "id": kept.id,
        "cluster_name": cluster,
        "snapshot_time": format_timestamp(snapshot.time),
        "dimension_type": "cluster",
        "total_gpu_capacity": gpu_amount(snapshot.capacity),
        "allocated_gpu_count": gpu_amount(allocated),
        "allocation_details": _details(theirs) if with_details and kept.has_details else {},
        "created_at": format_timestamp(kept.created_at),
    }


def _details(workloads: Iterable[WorkloadAllocation]) -> dict[str, Any]:
    by_namespace: dict[str, list[WorkloadAllocation]] = {}
    for item in workloads:
        by_namespace.setdefault(item.workload.namespace, []).append(item)
    return {
        "namespaces": {name: _namespace(by_namespace[name]) for name in sorted(by_namespace)},
        "annotations": {},
    }


def _namespace(workloads: list[WorkloadAllocation]) -> dict[str, Any]:
    measured = [(item.gpus, item.utilization) for item in workloads if item.utilization is not None]
    used = mean_over(sum(gpus * percent for gpus, percent in measured), sum(gpus for gpus, _ in measured))
    return {
        "allocated_gpu": gpu_amount(sum(item.gpus for item in workloads)),
        "utilization": rounded(used),
        "workload_count": len(workloads),
        "workloads": [
            {
                "uid": item.workload.uid,
                "name": item.workload.name,
                "namespace": item.workload.namespace,
                "kind": item.workload.kind,
                "allocated_gpu": gpu_amount(item.gpus),
                "utilization": rounded(item.utilization),
            }
            for item in sorted(workloads, key=lambda item: (-item.gpus, item.workload))
        ],
    }
