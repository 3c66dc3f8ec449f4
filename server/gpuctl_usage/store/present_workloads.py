"""Which workloads have sums in hours and days: there are many that ever were, and few at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, bindparam, select

from gpuctl_usage.store.database_tables import groups, periods
from gpuctl_usage.store.packing import unpack_ids

_AT_ONCE = 5000
"""Numbers of one statement."""
_LISTED = 20_000
"""Workloads of a question that are read, whether they were there at the time or not."""


class PresentWorkloads:
    """The workloads that a question is about, as far as they have sums.

    :param wanted: which groups it is about; None for every workload of the cluster.
    """

    def __init__(self, connection: Connection, wanted: ColumnElement[bool] | None) -> None:
        self._connection = connection
        self._wanted = wanted
        self._ids: dict[int, Collection[int]] = {}
        self._unpacked: dict[bytes, Collection[int]] = {}
        # All that are theirs, or of those that were asked about.
        self._listed: frozenset[int] | None = None
        self._asked: set[int] = set()
        self._known: set[int] = set()

    def together(self, numbers: Sequence[int]) -> set[int]:
        """Those that have sums in one of the hours and days that have these numbers."""
        self.read(numbers)
        # Most often they are the same, one hour after the other.
        different = {id(ids): ids for ids in map(self._ids.__getitem__, numbers)}
        return set().union(*different.values())

    def counts(self, numbers: Sequence[int]) -> list[int]:
        """How many have sums in each."""
        self.read(numbers)
        return [len(self._ids[number]) for number in numbers]

    def read(self, numbers: Iterable[int]) -> None:
        """Have those of hours and days at hand: all at once are read faster than one after the other."""
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
        """Of many workloads it takes long to ask which are theirs, where theirs are few."""
        assert self._wanted is not None
        listed = self._connection.execute(select(groups.c.id).where(self._wanted).limit(_LISTED + 1)).scalars().all()
        if len(listed) <= _LISTED:
            self._listed = frozenset(listed)

    def _ask(self, new: Collection[int]) -> None:
        assert self._wanted is not None
        theirs = select(groups.c.id).where(self._wanted, groups.c.id.in_(_numbers()))
        self._asked.update(new)
        for few in _portions(sorted(new)):
            self._known.update(self._connection.execute(theirs, {"numbers": few}).scalars())


def _are_many(several: Iterable[Iterable[int]]) -> bool:
    """Whether there are more different ones than one statement asks about; no more are looked at than that takes."""
    different: set[int] = set()
    for ids in several:
        different.update(ids)
        if len(different) > _AT_ONCE:
            return True
    return False


def _numbers() -> ColumnElement[int]:
    return bindparam("numbers", expanding=True)


def _portions(numbers: Sequence[int]) -> Iterable[list[int]]:
    return (list(numbers[start : start + _AT_ONCE]) for start in range(0, len(numbers), _AT_ONCE))
