"""Sums over several hours and days for each step and group, computed by the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
)

from gpuctl_usage.store.database_tables import groups, sums
from gpuctl_usage.store.hours import WorkloadStatus, with_hundredths
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.packing import unpack_histogram
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.store.present_workloads import PresentWorkloads
from gpuctl_usage.store.unkeyed_periods import UnkeyedPeriods
from gpuctl_usage.store.usage_queries import WITH_HISTOGRAM, RowQuery, all_workloads_condition, is_in, wanted_groups
from gpuctl_usage.sums import CAPACITY_FIELDS, HELD_FIELDS, Level, Sums

_FEW = 500
"""Maximum number of groups that are looked up by id; with more, all groups of the query are read."""
_MAXIMUM_FIELDS = frozenset({"util_max", "memory_max", "pods_max", "workloads"})
_GROUP_FIELDS = frozenset({"util_min", "util_max", "workloads"})
"""Further fields in answers about namespaces and labels."""
_CAPACITY_FIELDS = {Level.CLUSTER: CAPACITY_FIELDS, Level.MODEL: CAPACITY_FIELDS, Level.NODE: CAPACITY_FIELDS}
"""Capacity fields of the levels that have capacity."""

GroupName = tuple[str, str, int]
"""Key, value and id of a group: the order of groups."""
StepGroupIds = tuple[int, int]
"""Index of a step and id of a group."""


@dataclass
class StepDetails:
    """Non-additive columns of a step: the histogram, and the labels and status of its last period."""

    bins: list[int] | None = None
    attributes: int | None = None
    status: int | None = None

    def add(self, histogram: Mapping[int, int]) -> None:
        """Add the histogram of a period."""
        if self.bins is None:
            self.bins = [0] * 101
        for percent, minutes in histogram.items():
            self.bins[percent] += minutes

    @property
    def histogram(self) -> dict[int, int] | None:
        """Return the total histogram; None if no period has one."""
        if self.bins is None:
            return None
        return {percent: minutes for percent, minutes in enumerate(self.bins) if minutes}


class StepSums:
    """The sums of a query.

    :param present: the workloads with sums, for queries of workloads; else None.
    :param named: the groups of the query by id; for workloads, any. :ivar columns: the fields of sums that the answer
        needs.
    """

    def __init__(
        self,
        connection: Connection,
        query: RowQuery,
        parts: Sequence[KnownStep],
        present: PresentWorkloads | None,
        named: Mapping[int, GroupName],
    ) -> None:
        self._connection = connection
        self._question = query
        self._parts = parts
        self._present = present
        self._named = named
        self._unkeyed = UnkeyedPeriods(connection, query, parts, named.values())
        # One statement sums all steps; the periods of each step are passed as a parameter.
        self._steps = inline_table(connection, "steps", {"period_id": Integer, "part": Integer})
        self.columns = _needed_fields(query)
        # Positions of fields in a row: the group id comes first, then the columns, the step, and defaults for fields
        # not read.
        places = {name: place for place, name in enumerate(self.columns, 1)}
        first = len(places) + 2
        self._fields = itemgetter(*(places.get(name, first + number) for number, name in enumerate(_FIELDS)))

    def counts(self) -> list[int]:
        """Return the number of groups of each step."""
        counts = [0] * len(self._parts)
        for parts, is_single in self._apart(range(len(self._parts))):
            statement, group = self._about(None, [])
            each = statement.with_only_columns(
                *(self._steps.c.part, func.count() if is_single else func.count(group.distinct())),
                maintain_column_froms=True,
            )
            for part, count in self._connection.execute(each.group_by(self._steps.c.part), self._given(parts)).all():
                counts[part] = count
        return counts

    def read(
        self, parts: Iterable[int], few: Collection[int] | None, names: Collection[str]
    ) -> Iterator[tuple[StepGroupIds, Any]]:
        """Yield the sums of each step and group.

        :param few: group ids; None for all groups of the query.
        """
        for alike, is_single in self._apart(parts):
            values = [sums.c[name] if is_single else _aggregate(name).label(name) for name in names]
            statement, group = self._about(few, values)
            part = literal(alike[0]).label("part") if len(alike) == 1 else self._steps.c.part
            statement = statement.add_columns(part)
            if not is_single:
                # Grouping a single step by the step as well would take half as long again.
                statement = statement.group_by(group) if len(alike) == 1 else statement.group_by(part, group)
            for row in self._connection.execute(statement, self._given(alike)).all():
                yield (row[-1], row[0]), row

    def sums(self, row: Any) -> Sums:
        """Return the Sums of a row with all :attr:`columns`."""
        return with_hundredths(Sums(*self._fields((*row, *_DEFAULTS))))

    def details(self, wanted: Collection[int], few: Collection[int]) -> dict[StepGroupIds, StepDetails]:
        """Return the non-additive columns of each step and group."""
        columns = [sums.c[name] for name in ("period_id", "histogram", "attributes_id", "status")]
        statement, _ = self._about(few, columns)
        found: dict[StepGroupIds, StepDetails] = defaultdict(StepDetails)
        of_period = {period: part for part in wanted for period in self._parts[part].periods}
        turns = {period: turn for turn, period in enumerate(of_period)}
        rows = self._connection.execute(statement, self._given(wanted)).all()
        for group, period, histogram, attributes, status in sorted(rows, key=lambda row: turns[row[1]]):
            part = of_period[period]
            last = found[part, group]
            if histogram is not None:
                last.add(unpack_histogram(histogram) or {})
            last.attributes = attributes if attributes is not None else last.attributes
            gone = period != self._parts[part].periods[-1] and status is not None
            last.status = WorkloadStatus.FINISHED if gone else status
        return found

    def _apart(self, parts: Iterable[int]) -> Iterator[tuple[list[int], bool]]:
        """Split steps into those of one period, in which each group has one row, and those of several; with True for
        the former.
        """
        alike: dict[bool, list[int]] = {True: [], False: []}
        for part in parts:
            alike[len(self._parts[part].periods) == 1].append(part)
        return ((of_kind, is_single) for is_single, of_kind in alike.items() if of_kind)

    def _given(self, parts: Iterable[int]) -> dict[str, str]:
        """Return the parameters of a statement: the periods of each step."""
        steps = packed_rows((period, part) for part in parts for period in self._parts[part].periods)
        return {"steps": steps, **self._unkeyed.given}

    def _about(
        self, few: Collection[int] | None, columns: Sequence[ColumnElement[Any]]
    ) -> tuple[Select[Any], ColumnElement[Any]]:
        """Return a select of the rows of the given periods, and the group id that each row counts for."""
        known = self._wanted() if few is None else few
        group: ColumnElement[Any] = sums.c.group_id
        # Few groups are looked up in each period; for many, the whole period is read.
        every, theirs = all_workloads_condition(self._question), wanted_groups(self._question)
        source: FromClause = sums
        if len(known) <= _FEW:
            theirs = is_in(sums.c.group_id, sorted(known))
        elif every is not None:
            theirs = every
        else:
            source = sums.join(groups, groups.c.id == sums.c.group_id)
        if self._unkeyed.given:
            is_whole = sums.c.group_id == self._unkeyed.whole
            group = case((is_whole, self._unkeyed.unset), else_=sums.c.group_id)
            theirs = or_(theirs, and_(is_whole, sums.c.period_id.in_(self._unkeyed.periods(self._connection))))
        statement = select(group.label("group_id"), *columns).where(theirs)
        return statement.select_from(self._steps.join(source, self._steps.c.period_id == sums.c.period_id)), group

    def _wanted(self) -> Collection[int]:
        if self._present is None:
            return self._named
        return self._present.union([number for part in self._parts for number in part.periods])


def _aggregate(name: str) -> ColumnElement[Any]:
    """Return the aggregate of a field over several rows."""
    column = sums.c[name]
    if name == "pods_min":
        # Only periods with pods count.
        return func.coalesce(func.min(case((sums.c.pods_max > 0, column))), 0)
    if name == "util_min":
        return func.min(column)
    return func.max(column) if name in _MAXIMUM_FIELDS else func.sum(column)


def _needed_fields(query: RowQuery) -> tuple[str, ...]:
    """Return the fields that the answer needs: aggregation takes most of the time."""
    told = frozenset((*HELD_FIELDS, *_CAPACITY_FIELDS.get(query.level, ())))
    if not query.sums_only:
        told = frozenset(_SUM_FIELDS) if query.level in WITH_HISTOGRAM else told | _GROUP_FIELDS
    return tuple(name for name in _SUM_FIELDS if name in told)


_FIELDS = tuple(field.name for field in fields(Sums))
_SUM_FIELDS = tuple(name for name in _FIELDS if name != "histogram")
_DEFAULTS = tuple(field.default for field in fields(Sums))
