"""Sums over several hours and days for each step and group, computed by the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Float,
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
from gpuctl_usage.store.usage_queries import (
    ORDER_FIELDS,
    WITH_HISTOGRAM,
    RowKey,
    RowQuery,
    after_key,
    is_filtered,
    is_in,
    ordered,
    row_order,
    wanted_groups,
)
from gpuctl_usage.sums import CAPACITY_FIELDS, HELD_FIELDS, Level, Sums

_FEW = 500
"""Maximum number of groups that are looked up by id in each period; with more, all groups of the query are read."""
_FEW_ROWS = 50_000
"""Maximum number of rows of workloads that are looked up one by one."""
_STEPS = {"period_id": Integer, "part": Integer}
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
            statement, group, step = self._about(None, [])
            each = statement.with_only_columns(
                *(step, func.count() if is_single else func.count(group.distinct())), maintain_column_froms=True
            )
            for part, count in self._connection.execute(each.group_by(step), self._given(parts, None)).all():
                counts[part] = count
        return counts

    def ranked(self, limit: int, offset: int, after: RowKey | None) -> list[StepGroupIds]:
        """Return the steps and groups of rows in the query's order by value, optionally of those after a row key."""
        query, parts = self._question, range(len(self._parts))
        is_single = all(len(part.periods) == 1 for part in self._parts)
        found = self._summed(parts, None, is_single, ORDER_FIELDS[query.order]).cte("found")
        times = inline_table(self._connection, "times", {"part": Integer, "start": BigInteger, "seconds": Float})
        order = row_order(query, found, times.c.start, times.c.seconds)
        # Outer joins, because SQLite would otherwise begin with all groups that ever existed.
        source = found.outerjoin(times, times.c.part == found.c.part).outerjoin(groups, groups.c.id == found.c.group_id)
        places = select(found.c.part, found.c.group_id).select_from(source).order_by(*ordered(order))
        if after is not None:
            places = places.where(after_key(order, after))
        starts = packed_rows((number, part.start, part.seconds) for number, part in enumerate(self._parts))
        given = {**self._given(parts, None), "times": starts}
        rows = self._connection.execute(places.limit(limit).offset(offset), given)
        return [(part, group) for part, group in rows]

    def read(
        self, parts: Iterable[int], few: Collection[int] | None, names: Collection[str]
    ) -> Iterator[tuple[StepGroupIds, Any]]:
        """Yield the sums of each step and group.

        :param few: group ids; None for all groups of the query.
        """
        for alike, is_single in self._apart(parts):
            statement = self._summed(alike, few, is_single, names)
            for row in self._connection.execute(statement, self._given(alike, few)).all():
                yield (row[-1], row[0]), row

    def _summed(
        self, parts: Sequence[int], few: Collection[int] | None, is_single: bool, names: Collection[str]
    ) -> Select[Any]:
        """Return a select of the sums of each step and group: the group id, the fields, the step."""
        values = [sums.c[name].label(name) if is_single else _aggregate(name).label(name) for name in names]
        statement, group, step = self._about(few, values)
        part = literal(parts[0]).label("part") if len(parts) == 1 else step.label("part")
        statement = statement.add_columns(part)
        if is_single:
            return statement
        # Grouping a single step by the step as well would take half as long again.
        return statement.group_by(group) if len(parts) == 1 else statement.group_by(step, group)

    def sums(self, row: Any) -> Sums:
        """Return the Sums of a row with all :attr:`columns`."""
        return with_hundredths(Sums(*self._fields((*row, *_DEFAULTS))))

    def details(self, wanted: Collection[int], few: Collection[int]) -> dict[StepGroupIds, StepDetails]:
        """Return the non-additive columns of each step and group."""
        columns = [sums.c[name] for name in ("period_id", "histogram", "attributes_id", "status")]
        statement, *_ = self._about(few, columns)
        found: dict[StepGroupIds, StepDetails] = defaultdict(StepDetails)
        of_period = {period: part for part in wanted for period in self._parts[part].periods}
        turns = {period: turn for turn, period in enumerate(of_period)}
        rows = self._connection.execute(statement, self._given(wanted, few)).all()
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

    def _given(self, parts: Iterable[int], few: Collection[int] | None) -> dict[str, str]:
        """Return the parameters of a statement: the periods of each step; for workloads also which rows are theirs."""
        each = [(period, part) for part in parts for period in self._parts[part].periods]
        if self._present is None:
            return {"steps": packed_rows(each), **self._unkeyed.given}
        ids = self._present.ids([period for period, _ in each])
        rows: Iterable[tuple[int, ...]]
        if self._is_paired(few):
            rows = (
                (period, part, group)
                for period, part in each
                for group in (ids[period] if few is None else filter(few.__contains__, ids[period]))
            )
        else:
            rows = ((period, part, ids[period][0], ids[period][-1]) for period, part in each if ids[period])
        return {"steps": packed_rows(rows)}

    def _is_paired(self, few: Collection[int] | None) -> bool:
        """Return True if each workload is looked up in the periods in which it has sums; else all rows of the periods
        are read.
        """
        if self._present is None:
            return False
        return few is not None or (is_filtered(self._question) and self._number_of_rows() <= _FEW_ROWS)

    def _number_of_rows(self) -> int:
        assert self._present is not None
        return sum(self._present.counts([period for part in self._parts for period in part.periods]))

    def _about(
        self, few: Collection[int] | None, columns: Sequence[ColumnElement[Any]]
    ) -> tuple[Select[Any], ColumnElement[Any], ColumnElement[int]]:
        """Return a select of the rows of the given periods, the group id that each row counts for, and the step."""
        # One statement sums all steps; the periods of each step are passed as a parameter.
        group: ColumnElement[Any] = sums.c.group_id
        if self._is_paired(few):
            steps = inline_table(self._connection, "steps", {**_STEPS, "group_id": Integer})
            pairs = steps.join(sums, and_(steps.c.period_id == sums.c.period_id, steps.c.group_id == group))
            return select(group.label("group_id"), *columns).select_from(pairs), group, steps.c.part
        if self._present is not None:
            # The rows of workloads are adjacent, but for groups that are as new.
            steps = inline_table(self._connection, "steps", {**_STEPS, "first": Integer, "last": Integer})
            theirs = and_(steps.c.period_id == sums.c.period_id, group.between(steps.c.first, steps.c.last))
            statement = select(group.label("group_id"), *columns).where(sums.c.status.is_not(None))
            source: FromClause = steps.join(sums, theirs)
            if is_filtered(self._question):
                source = source.join(groups, groups.c.id == group)
                statement = statement.where(wanted_groups(self._question))
            return statement.select_from(source), group, steps.c.part
        steps = inline_table(self._connection, "steps", _STEPS)
        known = self._named if few is None else few
        source, theirs = sums, wanted_groups(self._question)
        # Few groups are looked up in each period; for many, the whole period is read.
        if len(known) <= _FEW:
            theirs = is_in(sums.c.group_id, sorted(known))
        else:
            source = sums.join(groups, groups.c.id == sums.c.group_id)
        if self._unkeyed.given:
            is_whole = sums.c.group_id == self._unkeyed.whole
            group = case((is_whole, self._unkeyed.unset), else_=sums.c.group_id)
            theirs = or_(theirs, and_(is_whole, sums.c.period_id.in_(self._unkeyed.periods(self._connection))))
        statement = select(group.label("group_id"), *columns).where(theirs)
        source = steps.join(source, steps.c.period_id == sums.c.period_id)
        return statement.select_from(source), group, steps.c.part


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
