"""The database: what collects writes it, what answers reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Connection, Engine, func, select, update

from gpuctl_usage.facts import DAY, AllocationSnapshot, Capacity, GpuQuota, GpuSeries, Holding, RetentionDays
from gpuctl_usage.store import allocation_snapshots, copying, hours, intervals, leases, pruning
from gpuctl_usage.store.database_tables import capacities, clusters, holdings, quotas
from gpuctl_usage.store.engines import (
    describe_errors,
    display_name,
    engine_of,
    prepare,
    read_transaction,
    shrink,
    size_of,
    url_of,
    write_transaction,
)
from gpuctl_usage.store.hours import HourState, PeriodLength
from gpuctl_usage.store.leases import Lease, LeaseState
from gpuctl_usage.store.measurements import put_measurements, read_measurements
from gpuctl_usage.store.surrogate_keys import upsert
from gpuctl_usage.sums import RolledUp


def open_database(url: str, clock: Callable[[], float] = time.time) -> Database:
    """A database, whose tables are made, or brought to this version, where they are not.

    :param url: a path, or a URL of SQLAlchemy: ``sqlite:////var/lib/gpuctl/usage.db``.
    :raises DatabaseProblem: it cannot be opened, is somebody else's, of a later version, or damaged.
    """
    address = url_of(url)
    name = display_name(address)
    engine = engine_of(address)
    try:
        prepare(engine, name)
    except BaseException:
        engine.dispose()
        raise
    return Database(engine, name, clock)


class Database:
    """All methods may be called by any thread, and by several processes; each is one transaction.

    Every method raises :class:`~gpuctl_usage.store.engines.DatabaseProblem` where the database cannot be used.
    """

    def __init__(self, engine: Engine, name: str, clock: Callable[[], float], lease: Lease | None = None) -> None:
        self.name = name
        self._engine = engine
        self._clock = clock
        self._lease = lease

    def with_lease(self, lease: Lease) -> Database:
        """The same database, whose every write is one of whoever has a lease.

        It raises :class:`~gpuctl_usage.store.leases.LeaseLost`, and writes nothing, once another has taken over.
        """
        return Database(self._engine, self.name, self._clock, lease)

    def close(self) -> None:
        """Let go of the connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one moment."""
        with describe_errors(self.name), read_transaction(self._engine) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with describe_errors(self.name), write_transaction(self._engine) as connection:
            if self._lease is not None:
                leases.keep(connection, self._lease)
            yield connection

    def size(self) -> int:
        """Bytes that the database takes, with what is free in it."""
        with self.reading() as connection:
            return size_of(connection)

    def cluster(self, uid: str, name: str) -> int:
        """Return the number of the cluster with this uid; add the cluster, or rename it, if necessary.

        If another cluster has the name, this one gets the name with the first 8 characters of its uid appended.

        :param uid: of its namespace kube-system; it identifies the cluster. The name may change.
        """
        with self.reading() as connection:
            free = _free_name(connection, uid, name)
            row = connection.execute(select(clusters).where(clusters.c.uid == uid)).one_or_none()
        if row is not None and row.name == free:
            return int(row.id)
        with self._writing() as connection:
            free = _free_name(connection, uid, name)
            statement = upsert(connection, clusters).values(uid=uid, name=free)
            connection.execute(statement.on_conflict_do_update(index_elements=["uid"], set_={"name": free}))
            return int(connection.execute(select(clusters.c.id).where(clusters.c.uid == uid)).scalar_one())

    def cluster_name(self, cluster: int) -> str:
        """Return the name of a cluster."""
        with self.reading() as connection:
            return str(connection.execute(select(clusters.c.name).where(clusters.c.id == cluster)).scalar_one())

    def lease(self, cluster: int) -> LeaseState:
        """Who collects a cluster."""
        with self.reading() as connection:
            return leases.state_of(connection, cluster)

    def take_lease(self, cluster: int, seen: LeaseState, holder: str) -> Lease | None:
        """The lease of a cluster, if it still is as it was seen.

        :param holder: how people know who takes it.
        """
        with self._writing() as connection:
            return leases.take(connection, cluster, seen, holder)

    def keep_lease(self) -> None:
        """Give a sign of life, as every write does."""
        with self._writing():
            pass

    def give_lease_back(self) -> None:
        """Have another take over at once.

        :raises LeaseLost: it has.
        """
        if self._lease is not None:
            with self._writing() as connection:
                leases.give_back(connection, self._lease)

    def is_empty(self) -> bool:
        """Whether nothing was ever collected into it."""
        with self.reading() as connection:
            return copying.is_empty(connection)

    def copy_to(self, other: Database) -> int:
        """Copy all that there is at one moment to a database that is empty; how many rows that are.

        All of them are there afterwards, or none.
        """
        with self.reading() as source, other._writing() as target:
            return copying.copy_rows(source, target)

    def put_holdings(self, cluster: int, changed: Sequence[Holding], seen_at: float, late: float | None = None) -> None:
        """Insert holdings, or replace those of the same pod and start.

        :param seen_at: until when what holds GPUs is known, with them.
        :param late: a time from which on hours may have been rolled up without them: those and their days are
            provisional again.
        """
        with self._writing() as connection:
            intervals.put_holdings(connection, cluster, changed)
            hours.reopen(connection, cluster, late)
            _seen(connection, cluster, seen_at)

    def put_capacities(
        self, cluster: int, changed: Sequence[Capacity], seen_at: float, late: float | None = None
    ) -> None:
        """Insert capacities, or replace those of the same node and start."""
        with self._writing() as connection:
            intervals.put_capacities(connection, cluster, changed)
            hours.reopen(connection, cluster, late)
            _seen(connection, cluster, seen_at)

    def put_quotas(self, cluster: int, changed: Sequence[GpuQuota]) -> None:
        """Insert quotas, or replace those of the same namespace and start. No hour is made of them."""
        with self._writing() as connection:
            intervals.put_quotas(connection, cluster, changed)

    def mark_seen(self, cluster: int, at: float) -> None:
        """Until when it is known what holds GPUs, though nothing has changed."""
        with self._writing() as connection:
            _seen(connection, cluster, at)

    def set_began(self, cluster: int, at: float) -> None:
        """Keep the time as the beginning of collecting, if nothing of the cluster was collected before."""
        with self._writing() as connection:
            is_new = clusters.c.id == cluster, clusters.c.began.is_(None), clusters.c.last_seen.is_(None)
            connection.execute(update(clusters).where(*is_new).values(began=at))

    def began(self, cluster: int) -> float | None:
        """Return when collecting began; None if that is not kept."""
        with self.reading() as connection:
            return hours.began(connection, cluster)

    def mark_quotas_seen(self, cluster: int, at: float) -> None:
        """Until when it is known what quotas allow: they have a watch, and a right, of their own."""
        with self._writing() as connection:
            _seen(connection, cluster, at, clusters.c.quotas_seen)

    def last_seen(self, cluster: int) -> float | None:
        """The last time up to which what holds GPUs is known; None where nothing is."""
        return self._time(cluster, clusters.c.last_seen)

    def quotas_seen(self, cluster: int) -> float | None:
        """The last time up to which what quotas allow is known; None where that never was."""
        return self._time(cluster, clusters.c.quotas_seen)

    def _time(self, cluster: int, column: Column[Any]) -> float | None:
        with self.reading() as connection:
            found = connection.execute(select(column).where(clusters.c.id == cluster)).scalar_one_or_none()
            return None if found is None else float(found)

    def open_holdings(self, cluster: int) -> list[Holding]:
        """Those that last, as far as is known."""
        with self.reading() as connection:
            return intervals.read_holdings(connection, cluster, intervals.open_ones(connection, holdings))

    def open_capacities(self, cluster: int) -> list[Capacity]:
        """Those that last, as far as is known."""
        with self.reading() as connection:
            return intervals.read_capacities(connection, cluster, intervals.open_ones(connection, capacities))

    def open_quotas(self, cluster: int) -> list[GpuQuota]:
        """Those that are in force, as far as is known."""
        with self.reading() as connection:
            return intervals.read_quotas(connection, cluster, intervals.open_ones(connection, quotas))

    def holdings(self, cluster: int, start: float, end: float) -> list[Holding]:
        """Those that have a moment in common with [start, end), whole."""
        with self.reading() as connection:
            return intervals.read_holdings(connection, cluster, intervals.overlapping(holdings, start, end))

    def capacities(self, cluster: int, start: float, end: float) -> list[Capacity]:
        """Those that have a moment in common with [start, end), whole."""
        with self.reading() as connection:
            return intervals.read_capacities(connection, cluster, intervals.overlapping(capacities, start, end))

    def quotas(self, cluster: int, start: float, end: float) -> list[GpuQuota]:
        """Those that have a moment in common with [start, end), whole."""
        with self.reading() as connection:
            return intervals.read_quotas(connection, cluster, intervals.overlapping(quotas, start, end))

    def late_changes(self, cluster: int) -> int:
        """How often something has become known late; see :meth:`put_rolled_up`."""
        with self.reading() as connection:
            return hours.late_changes(connection, cluster)

    def put_rolled_up(
        self,
        cluster: int,
        rolled: RolledUp,
        provisional: bool,
        span: PeriodLength = PeriodLength.HOUR,
        *,
        late_changes: int | None = None,
        measured: Sequence[GpuSeries] | None = None,
    ) -> bool:
        """Replace an hour, or a day, as a whole. The day of an hour that is different is provisional again.

        Labels of its workloads, and whether they run, are those of the holdings that are there at that time.

        :param late_changes: how many there were before what it is made of was read: after others it is provisional.
        :param measured: the measurements that an hour is made of, which are kept until it is settled; None to leave
            those that are kept.
        :returns: False when its digest is the same: then nothing is written but whether it is provisional.
        """
        with self._writing() as connection:
            others = late_changes is not None and late_changes != hours.late_changes(connection, cluster)
            changed = hours.put_period(connection, cluster, rolled, provisional or others, span, self._clock())
            if measured is not None:
                put_measurements(connection, cluster, rolled.start, measured)
            return changed

    def measurements(self, cluster: int, start: int) -> list[GpuSeries] | None:
        """Return the measurements of an hour that are kept; None if there are none any more."""
        with self.reading() as connection:
            return read_measurements(connection, cluster, start)

    def put_day(self, cluster: int, rolled: RolledUp, made_of: Mapping[int, str]) -> bool | None:
        """Replace a day, which is final, unless its hours are not what it is made of any more.

        :param made_of: the digests of its hours, by their start.
        :returns: whether it is different from what was there; None where it is not written.
        """
        with self._writing() as connection:
            now = hours.states(connection, cluster, rolled.start, rolled.start + DAY, PeriodLength.HOUR)
            if {start: state.digest for start, state in now.items() if not state.provisional} != made_of:
                return None
            return hours.put_period(connection, cluster, rolled, False, PeriodLength.DAY, self._clock())

    def set_hour_provisional(self, cluster: int, start: int, provisional: bool) -> None:
        """Leave an hour as it is, though it could be rolled up anew."""
        with self._writing() as connection:
            hours.set_provisional(connection, cluster, start, provisional)

    def hours(self, cluster: int, start: int, end: int, span: PeriodLength = PeriodLength.HOUR) -> dict[int, HourState]:
        """Which are there that begin in [start, end), by their start."""
        with self.reading() as connection:
            return hours.states(connection, cluster, start, end, span)

    def rolled_up(self, cluster: int, start: int, end: int, span: PeriodLength = PeriodLength.HOUR) -> list[RolledUp]:
        """Those that begin in [start, end), by start. Least and most are as they are answered: to hundredths."""
        with self.reading() as connection:
            return hours.read_periods(connection, cluster, start, end, span)

    def prune(self, cluster: int, kept: RetentionDays, now: float) -> bool:
        """Take a small piece away of what is not kept any longer; False where nothing is left of it."""
        with self._writing() as connection:
            if pruning.prune(connection, cluster, kept, now):
                return True
        with describe_errors(self.name):
            return shrink(self._engine)

    def put_snapshot(self, cluster: int, snapshot: AllocationSnapshot) -> None:
        """Insert a snapshot, or replace that of the same moment."""
        with self._writing() as connection:
            allocation_snapshots.put_snapshot(connection, cluster, snapshot, self._clock())


def _free_name(connection: Connection, uid: str, name: str) -> str:
    """Return the name, or the name with a suffix, that no cluster but the one with this uid has."""
    others = set(connection.execute(select(clusters.c.name).where(clusters.c.uid != uid)).scalars())
    short = f"{name}-{uid[:8]}"
    return next((free for free in (name, short) if free not in others), f"{name}-{uid}")


def _seen(connection: Connection, cluster: int, at: float, column: Column[Any] = clusters.c.last_seen) -> None:
    later = clusters.c.id == cluster, func.coalesce(column, at) <= at
    connection.execute(update(clusters).where(*later).values({column: at}))
