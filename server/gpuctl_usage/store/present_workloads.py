"""Selection of the workloads that have sums in given periods: few of all that ever existed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, bindparam, select

from gpuctl_usage.store.database_tables import groups, periods
from gpuctl_usage.store.packing import unpack_ids

_BATCH = 5000
"""Ids per statement."""
_MAX_LISTED = 20_000
"""Maximum number of matching workloads that are read at once, whether they have sums in the periods or not."""


class PresentWorkloads:
    """The workloads of a query that have sums in given periods.

    :param wanted: condition for the query's groups; None for all workloads of the cluster.
    """

    def __init__(self, connection: Connection, wanted: ColumnElement[bool] | None) -> None:
        self._connection = connection
        self._wanted = wanted
        self._ids: dict[int, Collection[int]] = {}
        self._unpacked: dict[bytes, Collection[int]] = {}
        # All matching workloads; or else the ones that match among those that were looked up.
        self._listed: frozenset[int] | None = None
        self._asked: set[int] = set()
        self._known: set[int] = set()

    def union(self, numbers: Sequence[int]) -> set[int]:
        """Return the workloads with sums in at least one of the periods."""
        self.read(numbers)
        # Consecutive hours usually share one set.
        different = {id(ids): ids for ids in map(self._ids.__getitem__, numbers)}
        return set().union(*different.values())

    def counts(self, numbers: Sequence[int]) -> list[int]:
        """Return the number of workloads in each period."""
        self.read(numbers)
        return [len(self._ids[number]) for number in numbers]

    def read(self, numbers: Iterable[int]) -> None:
        """Load the workloads of periods; loading all at once is faster than one by one."""
        missing = [number for number in numbers if number not in self._ids]
        for few in _portions(missing):
            packed = select(periods.c.id, periods.c.workloads).where(periods.c.id.in_(_numbers()))
            read = self._connection.execute(packed, {"numbers": few}).all()
            new = {ids: list(unpack_ids(ids)) for ids in {ids for _, ids in read} - self._unpacked.keys()}
            self._unpacked.update(new if self._wanted is None else self._theirs(new))
            self._ids.update((number, self._unpacked[ids]) for number, ids in read)

    def _theirs(self, read: Mapping[bytes, list[int]]) -> Mapping[bytes, Collection[int]]:
        if self._listed is None and not self._asked and _are_many(read.values()):
            self._list()
        if self._listed is None:
            self._ask(set().union(*read.values()) - self._asked)
        theirs = self._known if self._listed is None else self._listed
        return {packed: theirs.intersection(ids) for packed, ids in read.items()}

    def _list(self) -> None:
        """List all matching workloads if they are few: faster than looking up many ids."""
        assert self._wanted is not None
        listed = (
            self._connection.execute(select(groups.c.id).where(self._wanted).limit(_MAX_LISTED + 1)).scalars().all()
        )
        if len(listed) <= _MAX_LISTED:
            self._listed = frozenset(listed)

    def _ask(self, new: Collection[int]) -> None:
        assert self._wanted is not None
        theirs = select(groups.c.id).where(self._wanted, groups.c.id.in_(_numbers()))
        self._asked.update(new)
        for few in _portions(sorted(new)):
            self._known.update(self._connection.execute(theirs, {"numbers": few}).scalars())


def _are_many(several: Iterable[Iterable[int]]) -> bool:
    """Return True if there are more distinct ids than one statement takes. Stops reading as soon as that is known."""
    different: set[int] = set()
    for ids in several:
        different.update(ids)
        if len(different) > _BATCH:
            return True
    return False


def _numbers() -> ColumnElement[int]:
    return bindparam("numbers", expanding=True)


def _portions(numbers: Sequence[int]) -> Iterable[list[int]]:
    return (list(numbers[start : start + _BATCH]) for start in range(0, len(numbers), _BATCH))
