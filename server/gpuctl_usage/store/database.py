"""The usage database, as the collector writes it and queries read it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Connection, Engine, func, select, update

from gpuctl.objects.durations import DAY
from gpuctl_usage.facts import AllocationSnapshot, Capacity, GpuQuota, GpuSeries, Holding, RetentionDays
from gpuctl_usage.store import allocation_snapshots, copying, hours, intervals, leases, pruning
from gpuctl_usage.store.database_tables import capacities, clusters, holdings, quotas
from gpuctl_usage.store.engines import (
    describe_errors,
    display_name,
    engine_of,
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
    """Open a database; create its tables or migrate them to this version.

    :param url: a path, or an SQLAlchemy URL such as ``sqlite:////var/lib/gpuctl/usage.db``.
    :raises DatabaseProblem: it cannot be opened, belongs to another program, has a newer version, or is corrupt.
    """
    # Alembic needs 9 MB, also in a service without a usage database.
    from gpuctl_usage.store.table_migration import prepare

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
    """A usage database. Its methods are safe for threads and processes; each one is a transaction.

    Every method raises :class:`~gpuctl_usage.store.engines.DatabaseProblem` if the database cannot be used.
    """

    def __init__(self, engine: Engine, name: str, clock: Callable[[], float], lease: Lease | None = None) -> None:
        self.name = name
        self._engine = engine
        self._clock = clock
        self._lease = lease

    def with_lease(self, lease: Lease) -> Database:
        """Return the same database with a lease that every write requires and renews.

        After another collector has taken over, writes raise :class:`~gpuctl_usage.store.leases.LeaseLost` and change
        nothing.
        """
        return Database(self._engine, self.name, self._clock, lease)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a read transaction with a consistent snapshot."""
        with describe_errors(self.name), read_transaction(self._engine) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with describe_errors(self.name), write_transaction(self._engine) as connection:
            if self._lease is not None:
                leases.keep(connection, self._lease)
            yield connection

    def size(self) -> int:
        """Return the size of the database in bytes, including free space."""
        with self.reading() as connection:
            return size_of(connection)

    def put_cluster(self, uid: str, name: str) -> int:
        """Add or rename the cluster with this uid, if necessary; return its id.

        If another cluster has the name, the first 8 characters of the uid are appended to it.

        :param uid: uid of the namespace kube-system, which identifies the cluster. The name may change.
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
        with self.reading() as connection:
            return str(connection.execute(select(clusters.c.name).where(clusters.c.id == cluster)).scalar_one())

    def lease(self, cluster: int) -> LeaseState:
        """Return the state of a cluster's lease."""
        with self.reading() as connection:
            return leases.state_of(connection, cluster)

    def take_lease(self, cluster: int, seen: LeaseState, holder: str) -> Lease | None:
        """Take the lease of a cluster; return None if its state is no longer ``seen``.

        :param holder: identity of the new holder.
        """
        with self._writing() as connection:
            return leases.take(connection, cluster, seen, holder)

    def keep_lease(self) -> None:
        """Renew the lease, as every write does."""
        with self._writing():
            pass

    def give_lease_back(self) -> None:
        """Release the lease, so that another collector takes over at once.

        :raises LeaseLost: another collector already has it.
        """
        if self._lease is not None:
            with self._writing() as connection:
                leases.give_back(connection, self._lease)

    def is_empty(self) -> bool:
        """Return True if the database has no cluster."""
        with self.reading() as connection:
            return copying.is_empty(connection)

    def copy_to(self, other: Database) -> int:
        """Copy a consistent snapshot to an empty database; return the number of rows.

        All rows are copied, or none.

        :raises NotEmpty: the other database has a cluster.
        """
        with self.reading() as source, other._writing() as target:
            return copying.copy_rows(source, target)

    def put_changes(
        self,
        cluster: int,
        seen_at: float | None = None,
        *,
        holdings: Sequence[Holding] = (),
        capacities: Sequence[Capacity] = (),
        quotas: Sequence[GpuQuota] = (),
        snapshots: Iterable[AllocationSnapshot] = (),
        quotas_seen: float | None = None,
        began: float | None = None,
        late: float | None = None,
    ) -> None:
        """Insert what was collected, or replace what has the same key (pod, node or namespace) and time.

        :param seen_at: time until which holdings and capacities are complete with these; ``quotas_seen``: likewise
            quotas, which have a watch and a permission of their own.
        :param began: when collecting began; ignored if something of the cluster was collected before.
        :param late: earliest time from which hours may have been rolled up without these; those hours and their days
            become provisional. Hours do not depend on quotas.
        """
        with self._writing() as connection:
            if began is not None:
                is_new = clusters.c.id == cluster, clusters.c.began.is_(None), clusters.c.last_seen.is_(None)
                connection.execute(update(clusters).where(*is_new).values(began=began))
            intervals.put_capacities(connection, cluster, capacities)
            intervals.put_holdings(connection, cluster, holdings)
            intervals.put_quotas(connection, cluster, quotas)
            hours.reopen(connection, cluster, late)
            for snapshot in snapshots:
                allocation_snapshots.put_snapshot(connection, cluster, snapshot, self._clock())
            for column, at in ((clusters.c.last_seen, seen_at), (clusters.c.quotas_seen, quotas_seen)):
                if at is not None:
                    later = clusters.c.id == cluster, func.coalesce(column, at) <= at
                    connection.execute(update(clusters).where(*later).values({column: at}))

    def began(self, cluster: int) -> float | None:
        """Return when collecting began; None if it is not recorded."""
        with self.reading() as connection:
            return hours.began(connection, cluster)

    def last_seen(self, cluster: int) -> float | None:
        """Return the time until which holdings are complete; None if nothing was collected."""
        return self._time(cluster, clusters.c.last_seen)

    def quotas_seen(self, cluster: int) -> float | None:
        """Return the time until which quotas are complete; None if they were never read."""
        return self._time(cluster, clusters.c.quotas_seen)

    def _time(self, cluster: int, column: Column[Any]) -> float | None:
        with self.reading() as connection:
            found = connection.execute(select(column).where(clusters.c.id == cluster)).scalar_one_or_none()
            return None if found is None else float(found)

    def open_holdings(self, cluster: int) -> list[Holding]:
        """Return the holdings without an end."""
        with self.reading() as connection:
            return intervals.read_holdings(connection, cluster, intervals.open_ones(connection, holdings))

    def open_capacities(self, cluster: int) -> list[Capacity]:
        """Return the capacities without an end."""
        with self.reading() as connection:
            return intervals.read_capacities(connection, cluster, intervals.open_ones(connection, capacities))

    def holding_ends(self, cluster: int, uids: Sequence[str]) -> dict[str, float]:
        """Return when the last holding of each pod ended, for the pods whose holdings have all ended."""
        with self.reading() as connection:
            return intervals.holding_ends(connection, cluster, uids)

    def capacity_ends(self, cluster: int) -> dict[str, float]:
        """Return when the last closed capacity of each node ended."""
        with self.reading() as connection:
            return intervals.capacity_ends(connection, cluster)

    def open_quotas(self, cluster: int) -> list[GpuQuota]:
        """Return the quotas in force."""
        with self.reading() as connection:
            return intervals.read_quotas(connection, cluster, intervals.open_ones(connection, quotas))

    def holdings(self, cluster: int, start: float, end: float) -> list[Holding]:
        """Return the holdings that overlap [start, end), not clipped."""
        with self.reading() as connection:
            return intervals.read_holdings(connection, cluster, intervals.overlapping(holdings, start, end))

    def capacities(self, cluster: int, start: float, end: float) -> list[Capacity]:
        """Return the capacities that overlap [start, end), not clipped."""
        with self.reading() as connection:
            return intervals.read_capacities(connection, cluster, intervals.overlapping(capacities, start, end))

    def quotas(self, cluster: int, start: float, end: float) -> list[GpuQuota]:
        """Return the quotas that overlap [start, end), not clipped."""
        with self.reading() as connection:
            return intervals.read_quotas(connection, cluster, intervals.overlapping(quotas, start, end))

    def late_changes(self, cluster: int) -> int:
        """Return the number of late changes; see :meth:`put_rolled_up`."""
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
        """Replace an hour or a day. If an hour changes, its day becomes provisional.

        Labels and status of workloads come from the holdings that are stored at that time.

        :param late_changes: number of late changes before the inputs were read; if it has increased, the hour is stored
            as provisional.
        :param measured: measurements of the hour, stored until the hour is final; None to keep the stored ones.
        :returns: False if the digest is the same; then only ``provisional`` is updated.
        """
        with self._writing() as connection:
            others = late_changes is not None and late_changes != hours.late_changes(connection, cluster)
            changed = hours.put_period(connection, cluster, rolled, provisional or others, span, self._clock())
            if measured is not None:
                put_measurements(connection, cluster, rolled.start, measured)
            return changed

    def measurements(self, cluster: int, start: int) -> list[GpuSeries] | None:
        """Return the stored measurements of an hour; None if they are deleted."""
        with self.reading() as connection:
            return read_measurements(connection, cluster, start)

    def put_day(self, cluster: int, rolled: RolledUp, made_of: Mapping[int, str]) -> bool | None:
        """Replace a day and make it final, unless its hours have changed since they were read.

        :param made_of: digests of the hours by their start.
        :returns: True if the day changed; None if it was not written.
        """
        with self._writing() as connection:
            now = hours.states(connection, cluster, rolled.start, rolled.start + DAY, PeriodLength.HOUR)
            if {start: state.digest for start, state in now.items() if not state.provisional} != made_of:
                return None
            return hours.put_period(connection, cluster, rolled, False, PeriodLength.DAY, self._clock())

    def set_hour_provisional(self, cluster: int, start: int, provisional: bool) -> None:
        """Set only whether an hour is provisional."""
        with self._writing() as connection:
            hours.set_provisional(connection, cluster, start, provisional)

    def hours(self, cluster: int, start: int, end: int, span: PeriodLength = PeriodLength.HOUR) -> dict[int, HourState]:
        """Return the states of the stored hours (or days) that begin in [start, end), by start."""
        with self.reading() as connection:
            return hours.states(connection, cluster, start, end, span)

    def rolled_up(self, cluster: int, start: int, end: int, span: PeriodLength = PeriodLength.HOUR) -> list[RolledUp]:
        """Return the stored hours (or days) that begin in [start, end), by start. Minima and maxima are rounded to
        hundredths.
        """
        with self.reading() as connection:
            return hours.read_periods(connection, cluster, start, end, span)

    def prune(self, cluster: int, kept: RetentionDays, now: float) -> bool:
        """Delete a small batch of expired data; return False if nothing is left to delete."""
        with self._writing() as connection:
            if pruning.prune(connection, cluster, kept, now):
                return True
        with describe_errors(self.name):
            return shrink(self._engine)


def _free_name(connection: Connection, uid: str, name: str) -> str:
    """Return the name, with a suffix if a cluster with another uid has it."""
    others = set(connection.execute(select(clusters.c.name).where(clusters.c.uid != uid)).scalars())
    short = f"{name}-{uid[:8]}"
    return next((free for free in (name, short) if free not in others), f"{name}-{uid}")
