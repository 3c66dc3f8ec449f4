"""Selection of the workloads that have sums in given periods: few of all that ever existed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Integer, select

from gpuctl_usage.store.database_tables import groups, periods
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.packing import unpack_ids


class PresentWorkloads:
    """The workloads of a query that have sums in given periods.

    :param wanted: condition for the query's groups; None for all workloads of the cluster.
    """

    def __init__(self, connection: Connection, wanted: ColumnElement[bool] | None) -> None:
        self._connection = connection
        self._wanted = wanted
        self._ids: dict[int, Sequence[int]] = {}
        self._unpacked: dict[bytes, Sequence[int]] = {}

    def union(self, numbers: Sequence[int]) -> set[int]:
        """Return the workloads with sums in at least one of the periods."""
        self.read(numbers)
        # Consecutive hours usually share one set.
        different = {id(ids): ids for ids in map(self._ids.__getitem__, numbers)}
        return set().union(*different.values())

    def ids(self, numbers: Iterable[int]) -> Mapping[int, Sequence[int]]:
        """Return the workloads with sums in each period, ascending."""
        self.read(numbers)
        return self._ids

    def counts(self, numbers: Sequence[int]) -> list[int]:
        """Return the number of workloads in each period."""
        self.read(numbers)
        return [len(self._ids[number]) for number in numbers]

    def read(self, numbers: Iterable[int]) -> None:
        """Load the workloads of periods; loading all at once is faster than one by one."""
        missing = [number for number in numbers if number not in self._ids]
        if not missing:
            return
        given = inline_table(self._connection, "given", {"id": Integer})
        of_periods = select(periods.c.id, periods.c.workloads).join_from(given, periods, periods.c.id == given.c.id)
        read = self._connection.execute(of_periods, {"given": packed_rows(missing)}).all()
        new = {ids: array("i", unpack_ids(ids)) for ids in {ids for _, ids in read} - self._unpacked.keys()}
        if self._wanted is not None:
            of_them = select(groups.c.id).join_from(given, groups, groups.c.id == given.c.id).where(self._wanted)
            every = packed_rows(set[int]().union(*new.values()))
            theirs = set(self._connection.execute(of_them, {"given": every}).scalars())
            new = {packed: array("i", filter(theirs.__contains__, ids)) for packed, ids in new.items()}
        self._unpacked.update(new)
        self._ids.update((number, self._unpacked[ids]) for number, ids in read)
