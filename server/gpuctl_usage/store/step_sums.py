"""What several hours and days come to together, for each step and group: added up by the database."""

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
from gpuctl_usage.store.usage_queries import WITH_HISTOGRAM, RowQuery, among, of_all_workloads, wanted_groups
from gpuctl_usage.sums import CAPACITY_FIELDS, HELD_FIELDS, Level, Sums

_FEW = 500
"""Groups that are looked up one by one; of more, all that a question is about are read."""
_MOST = frozenset({"util_max", "memory_max", "pods_max", "workloads"})
_OF_GROUPS = frozenset({"util_min", "util_max", "workloads"})
"""What answers about namespaces and labels tell besides."""
_OWN = {Level.CLUSTER: CAPACITY_FIELDS, Level.MODEL: CAPACITY_FIELDS, Level.NODE: CAPACITY_FIELDS}
"""What of the GPUs that there were is known of groups of a level."""

GroupName = tuple[str, str, int]
"""Of a group its key, value and number, by which groups stand in order."""
StepPlace = tuple[int, int]
"""The numbers of a step and of a group."""


@dataclass
class StepEnd:
    """What of a step is no sum, and what the last of its hours and days says."""

    bins: list[int] | None = None
    attributes: int | None = None
    status: int | None = None

    def add(self, histogram: Mapping[int, int]) -> None:
        """Have the minutes of another hour or day count."""
        if self.bins is None:
            self.bins = [0] * 101
        for percent, minutes in histogram.items():
            self.bins[percent] += minutes

    @property
    def histogram(self) -> dict[int, int] | None:
        """That of all together."""
        if self.bins is None:
            return None
        return {percent: minutes for percent, minutes in enumerate(self.bins) if minutes}


class StepSums:
    """The sums that a question is about.

    :param present: the workloads that there are, where it is about those.
    :param named: the groups that it is about, by their numbers; of workloads any.
    :ivar columns: the fields of sums that its answer tells.
    """

    def __init__(
        self,
        connection: Connection,
        question: RowQuery,
        parts: Sequence[KnownStep],
        present: PresentWorkloads | None,
        named: Mapping[int, GroupName],
    ) -> None:
        self._connection = connection
        self._question = question
        self._parts = parts
        self._present = present
        self._named = named
        self._unkeyed = UnkeyedPeriods(connection, question, parts, named.values())
        # All steps are added up by one statement, which is given of what they are made.
        self._steps = inline_table(connection, "steps", {"period_id": Integer, "part": Integer})
        self.columns = _told(question)
        # Of a row, before whose sums the group is and behind them the step, and of what is not read.
        places = {name: place for place, name in enumerate(self.columns, 1)}
        first = len(places) + 2
        self._fields = itemgetter(*(places.get(name, first + number) for number, name in enumerate(_FIELDS)))

    def counts(self) -> list[int]:
        """How many groups each step has."""
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
    ) -> Iterator[tuple[StepPlace, Any]]:
        """What the rows of each step and group come to.

        :param few: the groups; None for all that the question is about.
        """
        for alike, is_single in self._apart(parts):
            values = [sums.c[name] if is_single else _added(name).label(name) for name in names]
            statement, group = self._about(few, values)
            part = literal(alike[0]).label("part") if len(alike) == 1 else self._steps.c.part
            statement = statement.add_columns(part)
            if not is_single:
                # To sort by the step as well, where it is one, would take half as long again.
                statement = statement.group_by(group) if len(alike) == 1 else statement.group_by(part, group)
            for row in self._connection.execute(statement, self._given(alike)).all():
                yield (row[-1], row[0]), row

    def sums(self, row: Any) -> Sums:
        """Those of a row of all :attr:`columns`."""
        return with_hundredths(Sums(*self._fields((*row, *_NOT_READ))))

    def ends(self, wanted: Collection[int], few: Collection[int]) -> dict[StepPlace, StepEnd]:
        """What is no sum, and what the last of the hours and days say."""
        columns = [sums.c[name] for name in ("period_id", "histogram", "attributes_id", "status")]
        statement, _ = self._about(few, columns)
        found: dict[StepPlace, StepEnd] = defaultdict(StepEnd)
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
        """Steps of one hour or day, in which no group has two rows, and steps of several, as far as there are any; with
        whether they are single ones."""
        alike: dict[bool, list[int]] = {True: [], False: []}
        for part in parts:
            alike[len(self._parts[part].periods) == 1].append(part)
        return ((of_kind, is_single) for is_single, of_kind in alike.items() if of_kind)

    def _given(self, parts: Iterable[int]) -> dict[str, str]:
        """What statements about steps are given: of which hours and days they are made."""
        steps = packed_rows((period, part) for part in parts for period in self._parts[part].periods)
        return {"steps": steps, **self._unkeyed.given}

    def _about(
        self, few: Collection[int] | None, columns: Sequence[ColumnElement[Any]]
    ) -> tuple[Select[Any], ColumnElement[Any]]:
        """Rows of the hours and days that a statement is given, and the group that each of them counts for."""
        known = self._wanted() if few is None else few
        group: ColumnElement[Any] = sums.c.group_id
        # Few are looked up in each period; of many all are read.
        every, theirs = of_all_workloads(self._question), wanted_groups(self._question)
        source: FromClause = sums
        if len(known) <= _FEW:
            theirs = among(sums.c.group_id, sorted(known))
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
        return self._present.together([number for part in self._parts for number in part.periods])


def _added(name: str) -> ColumnElement[Any]:
    """A field of several rows together."""
    column = sums.c[name]
    if name == "pods_min":
        # While there was any.
        return func.coalesce(func.min(case((sums.c.pods_max > 0, column))), 0)
    if name == "util_min":
        return func.min(column)
    return func.max(column) if name in _MOST else func.sum(column)


def _told(question: RowQuery) -> tuple[str, ...]:
    """Fields of sums that answers tell: most of the time goes into adding up."""
    told = frozenset((*HELD_FIELDS, *_OWN.get(question.level, ())))
    if not question.sums_only:
        told = frozenset(_ADDED) if question.level in WITH_HISTOGRAM else told | _OF_GROUPS
    return tuple(name for name in _ADDED if name in told)


_FIELDS = tuple(field.name for field in fields(Sums))
_ADDED = tuple(name for name in _FIELDS if name != "histogram")
_NOT_READ = tuple(field.default for field in fields(Sums))
