"""Export of months to Parquet: one file for each table and month, with names instead of ids.

docs/service.md describes the columns. DuckDB writes the files from rows passed to it as JSON lines.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sqlalchemy import Connection

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.store import intervals
from gpuctl_usage.store.allocation_snapshots import StoredSnapshot, read_snapshots
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import capacities, holdings, quotas
from gpuctl_usage.store.hours import HourState, PeriodLength, states
from gpuctl_usage.store.surrogate_keys import workload_of
from gpuctl_usage.store.usage_queries import StoredCluster, UsageRow, every_row, find_clusters
from gpuctl_usage.sums import Level, Sums

_MANY = 2**31
_GONE_AFTER = 60 * DAY
"""Seconds without a collector after which a cluster counts as retired, and no longer keeps months open."""
_TIME = "TIMESTAMP"
_NAMES = "MAP(VARCHAR, VARCHAR)"
_WHOLE = ("pods_min", "pods_max", "workloads", "samples", "buckets")

COLUMNS: dict[str, dict[str, str]] = {
    "hours": {
        "cluster": "VARCHAR",
        "time": _TIME,
        "seconds": "DOUBLE",
        **dict.fromkeys(("level", "key", "value", "namespace", "kind", "name", "uid"), "VARCHAR"),
        "labels": _NAMES,
        "annotations": _NAMES,
        "status": "VARCHAR",
        **{field.name: "BIGINT" if field.name in _WHOLE else "DOUBLE" for field in fields(Sums)},
        "histogram": "MAP(UTINYINT, UINTEGER)",
        "provisional": "BOOLEAN",
        "id": "BIGINT",
        "created_at": _TIME,
        "updated_at": _TIME,
    },
    "holdings": {
        **dict.fromkeys(("cluster", "namespace", "pod", "pod_uid", "kind", "name", "uid", "node", "model"), "VARCHAR"),
        "gpus": "DOUBLE",
        "labels": _NAMES,
        "annotations": _NAMES,
        **dict.fromkeys(("start_time", "end_time", "held_since", "running_since", "held_until"), _TIME),
        "ending": "VARCHAR",
    },
    "capacities": {
        **dict.fromkeys(("cluster", "node", "model", "state"), "VARCHAR"),
        "gpus": "DOUBLE",
        **dict.fromkeys(("start_time", "end_time"), _TIME),
    },
    "quotas": {
        **dict.fromkeys(("cluster", "namespace"), "VARCHAR"),
        "gpus": "DOUBLE",
        **dict.fromkeys(("start_time", "end_time"), _TIME),
    },
    "snapshots": {
        "cluster": "VARCHAR",
        "time": _TIME,
        "capacity": "DOUBLE",
        "allocated": "DOUBLE",
        "id": "BIGINT",
        "has_details": "BOOLEAN",
        "created_at": _TIME,
    },
    "snapshot_workloads": {
        "cluster": "VARCHAR",
        "time": _TIME,
        **dict.fromkeys(("namespace", "kind", "name", "uid"), "VARCHAR"),
        "gpus": "DOUBLE",
        "utilization": "DOUBLE",
    },
}
"""Table -> column -> DuckDB type. Times are UTC."""

Row = dict[str, Any]


class DuckdbMissing(Exception):
    """DuckDB is not installed; ``str()`` is the message for the user."""

    def __init__(self) -> None:
        super().__init__("DuckDB is not installed: `pip install 'gpuctl-k8s[usage]'`")


class Month(NamedTuple):
    """A calendar month (UTC)."""

    year: int
    month: int

    @classmethod
    def of(cls, moment: float) -> Month:
        """Return the month that contains a time."""
        found = datetime.fromtimestamp(moment, timezone.utc)
        return cls(found.year, found.month)

    @property
    def next(self) -> Month:
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def start(self) -> int:
        """Return the start of the month, seconds since 1970."""
        return int(datetime(self.year, self.month, 1, tzinfo=timezone.utc).timestamp())

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"


class ExportedMonths(NamedTuple):
    """Result of an export: months written, months whose files exist already, and months that are not sealed, with the
    reason.
    """

    written: list[Month]
    kept: list[Month]
    open: dict[Month, str]


def export_months(
    database: Database, directory: Path, *, again: bool = False, unsealed: bool = False, now: float | None = None
) -> ExportedMonths:
    """Write the sealed months whose files do not exist yet. Each file is written completely or not at all.

    :param again: also write months whose files exist.
    :param unsealed: also write months whose data may still change.
    :raises DuckdbMissing: DuckDB is not installed.
    :raises DatabaseProblem: the database cannot be read.
    :raises OSError: the directory cannot be written.
    """
    write = _writer()
    now = time.time() if now is None else now
    found = ExportedMonths([], [], {})
    with database.reading() as connection:
        for month in _months(connection):
            reason = None if unsealed else _why_open(connection, month, now)
            files = [directory / table / f"{month}.parquet" for table in COLUMNS]
            if reason is not None:
                found.open[month] = reason
            elif all(file.exists() for file in files) and not again:
                found.kept.append(month)
            else:
                for (table, columns), file in zip(COLUMNS.items(), files, strict=True):
                    write(_ROWS[table](connection, month), columns, file)
                found.written.append(month)
    return found


def _months(connection: Connection) -> list[Month]:
    known = {
        Month.of(start)
        for cluster in find_clusters(connection)
        for span in PeriodLength
        for start in states(connection, cluster.id, 0, _MANY, span)
    }
    return sorted(known)


def _why_open(connection: Connection, month: Month, now: float) -> str | None:
    end = month.next.start
    if now < end:
        return "it is not over"
    for cluster in find_clusters(connection):
        if cluster.last_seen is not None and cluster.last_seen < now - _GONE_AFTER:
            continue
        later = states(connection, cluster.id, month.start, _MANY, PeriodLength.HOUR)
        hours: dict[int, HourState] = {start: state for start, state in later.items() if start < end}
        if any(state.provisional for state in hours.values()):
            return f"hours of {cluster.name} are provisional"
        # If the hours of the month are pruned, its last day is stored.
        last_day = states(connection, cluster.id, end - DAY, end, PeriodLength.DAY)
        is_incomplete = end - HOUR not in hours and not last_day
        if is_incomplete and (hours or _may_return(connection, cluster, month)):
            return f"the last hours of {cluster.name} are not rolled up"
    return None


def _may_return(connection: Connection, cluster: StoredCluster, month: Month) -> bool:
    """Return True if a cluster without hours in a month was collected before it: its collector rolls up the missed
    hours when it runs again.
    """
    if cluster.last_seen is None:
        return False
    return any(states(connection, cluster.id, 0, month.start, span) for span in PeriodLength)


def _writer() -> Callable[[Iterator[Row], dict[str, str], Path], None]:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise DuckdbMissing from None

    def write(rows: Iterator[Row], columns: dict[str, str], file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=file.parent, prefix=".partial-") as temporary:
            lines, made = Path(temporary) / "rows", Path(temporary) / "made"
            with lines.open("w", encoding="utf-8") as out:
                for row in rows:
                    out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            read = {name: "DOUBLE" if kind == _TIME else kind for name, kind in columns.items()}
            shown = ", ".join(
                f'make_timestamp(CAST(round("{name}" * 1000000) AS BIGINT)) AS "{name}"'
                if kind == _TIME
                else f'"{name}"'
                for name, kind in columns.items()
            )
            with duckdb.connect() as connection:
                relation = connection.read_json(str(lines), format="newline_delimited", columns=read)
                relation.project(shown).write_parquet(str(made), compression="zstd")
            os.replace(made, file)

    return write


def _hours(connection: Connection, month: Month) -> Iterator[Row]:
    for cluster in find_clusters(connection):
        for row in every_row(connection, cluster.id, month.start, month.next.start):
            yield {"cluster": cluster.name, **_hour(row)}


def _hour(row: UsageRow) -> Row:
    workload = workload_of(row.group) if row.group.level is Level.WORKLOAD else None
    namespace = row.group.value if row.group.level is Level.NAMESPACE else workload.namespace if workload else ""
    return {
        "time": row.start,
        "seconds": row.seconds,
        "level": row.group.level.value,
        "key": row.group.key,
        "value": row.group.value,
        "namespace": namespace,
        "kind": workload.kind if workload else "",
        "name": workload.name if workload else "",
        "uid": workload.uid if workload else "",
        "labels": dict(row.labels),
        "annotations": dict(row.annotations),
        "status": None if row.status is None else row.status.name.capitalize(),
        **{field.name: getattr(row.sums, field.name) for field in fields(Sums)},
        "provisional": row.provisional,
        "id": row.id,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _clipped(start: float, end: float | None, month: Month, seen: float | None) -> Row | None:
    """Return the part of an interval within the month that has passed; None if no part of it has.

    :param seen: time until which the collector has followed the cluster: an open interval is known until then.
    """
    if end is None:
        end = start if seen is None else seen
    first, last = max(start, float(month.start)), min(end, float(month.next.start))
    return {"start_time": first, "end_time": last} if first < last else None


def _holdings(connection: Connection, month: Month) -> Iterator[Row]:
    for cluster in find_clusters(connection):
        which = intervals.overlapping(holdings, month.start, month.next.start)
        for item in intervals.read_holdings(connection, cluster.id, which):
            within = _clipped(item.start, item.end, month, cluster.last_seen)
            if within is None:
                continue
            yield {
                "cluster": cluster.name,
                "namespace": item.namespace,
                "pod": item.pod,
                "pod_uid": item.pod_uid,
                "kind": item.workload.kind,
                "name": item.workload.name,
                "uid": item.workload.uid,
                "node": item.node,
                "model": item.model,
                "gpus": item.gpus,
                "labels": dict(item.labels),
                "annotations": dict(item.annotations),
                **within,
                "held_since": item.start,
                "running_since": item.started,
                "held_until": item.end,
                "ending": None if item.ending is None else item.ending.value,
            }


def _capacities(connection: Connection, month: Month) -> Iterator[Row]:
    for cluster in find_clusters(connection):
        which = intervals.overlapping(capacities, month.start, month.next.start)
        for item in intervals.read_capacities(connection, cluster.id, which):
            within = _clipped(item.start, item.end, month, cluster.last_seen)
            if within is not None:
                named = {"cluster": cluster.name, "node": item.node, "model": item.model, "state": item.state.value}
                yield {**named, "gpus": item.gpus, **within}


def _quotas(connection: Connection, month: Month) -> Iterator[Row]:
    for cluster in find_clusters(connection):
        which = intervals.overlapping(quotas, month.start, month.next.start)
        for item in intervals.read_quotas(connection, cluster.id, which):
            within = _clipped(item.start, item.end, month, cluster.quotas_seen or cluster.last_seen)
            if within is not None:
                yield {"cluster": cluster.name, "namespace": item.namespace, "gpus": item.gpus, **within}


def _kept_snapshots(connection: Connection, month: Month) -> Iterator[tuple[str, StoredSnapshot]]:
    for cluster in find_clusters(connection):
        # One day at a time: a month of allocation details would need much memory.
        for start in range(month.start, month.next.start, DAY):
            asked = cluster.id, float(start), float(start + DAY)
            for kept in read_snapshots(connection, *asked, details=True, limit=_MANY):
                yield cluster.name, kept


def _snapshots(connection: Connection, month: Month) -> Iterator[Row]:
    for cluster, kept in _kept_snapshots(connection, month):
        snapshot = kept.snapshot
        yield {
            "cluster": cluster,
            "time": snapshot.time,
            "id": kept.id,
            "has_details": kept.has_details,
            "capacity": snapshot.capacity,
            "allocated": snapshot.allocated,
            "created_at": kept.created_at,
        }


def _snapshot_workloads(connection: Connection, month: Month) -> Iterator[Row]:
    for cluster, kept in _kept_snapshots(connection, month):
        for item in kept.snapshot.workloads:
            at = {"cluster": cluster, "time": kept.snapshot.time}
            yield {**at, **item.workload._asdict(), "gpus": item.gpus, "utilization": item.utilization}


_ROWS: dict[str, Callable[[Connection, Month], Iterator[Row]]] = {
    "hours": _hours,
    "holdings": _holdings,
    "capacities": _capacities,
    "quotas": _quotas,
    "snapshots": _snapshots,
    "snapshot_workloads": _snapshot_workloads,
}
