"""Rows of several hours together, one for each step and group."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from heapq import nsmallest
from itertools import accumulate
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
)

from gpuctl_usage.facts import HOUR, KeptTime
from gpuctl_usage.store.cluster_capacity import capacity_of_periods
from gpuctl_usage.store.given_tables import given_table, packed_rows
from gpuctl_usage.store.hours import WorkloadStatus, with_hundredths
from gpuctl_usage.store.kept_parts import Part
from gpuctl_usage.store.numbering import Described, described_by
from gpuctl_usage.store.packing import unpack_histogram
from gpuctl_usage.store.tables import groups, sums
from gpuctl_usage.store.unkeyed_periods import UnkeyedPeriods
from gpuctl_usage.store.usage_queries import (
    DENSE,
    GROUP_BITS,
    WITH_HISTOGRAM,
    Place,
    Question,
    RowOrder,
    UsageRow,
    among,
    of_all_workloads,
    order_key,
    present_workloads,
    wanted_groups,
)
from gpuctl_usage.store.workload_counts import workload_counts
from gpuctl_usage.sums import Group, Level, Sums

_AT_ONCE = 50
"""Steps that are read together."""
_FEW = 500
"""Groups that are looked up one by one; of more, all that a question is about are read."""
STEP_BITS = 3
_MOST = frozenset({"util_max", "memory_max", "pods_max", "workloads"})
_TELL_WORKLOADS = frozenset({Level.NAMESPACE, Level.LABEL, Level.ANNOTATION})
_HELD = frozenset({"alloc_gpu_s", "obs_gpu_s", "util_gpu_s", "by_process_gpu_s", "beyond_gpu_s"})
_THERE = frozenset({"cap_gpu_s", "free_gpu_s", "unusable_gpu_s"})
_OF_GROUPS = frozenset({"util_min", "util_max", "workloads"})
"""What answers about namespaces and labels tell besides."""
_OWN = {Level.CLUSTER: _THERE, Level.MODEL: _THERE}
"""What of the GPUs that there were is known of groups of a level."""
_NOTHING = Described({}, {})
_NAMED_AT_ONCE = 10_000
_NAMES = 3
"""Of a place that is in some order, how many of its last values say which group it is."""


_Name = tuple[str, str, int]
"""Of a group its key, value and number, by which groups stand in order."""


_Place = tuple[int, int]
"""The numbers of a step and of a group."""
_Valued = tuple[int, float, int, _Place]
"""What decides where a row stands, before its name: whether its value is unknown, the value, and when it begins."""


@dataclass
class _Last:
    """What only the rows of single hours and days tell."""

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


class StepRows:
    """The rows that answer a question.

    :param step: the number of the kind of step, less than eight: rows of different kinds have different ids. 0 is of
        hours.
    :param with_idle: also rows of groups that hold nothing, every one in every step; only in the order of time.
    """

    def __init__(
        self,
        connection: Connection,
        question: Question,
        parts: Sequence[Part],
        step: int,
        with_idle: bool = False,
    ) -> None:
        self._connection = connection
        self._question = question
        self._parts = parts
        self._step = step
        self._with_idle = with_idle
        self._groups: dict[int, _Name] = {}
        self._present = present_workloads(connection, question) if question.level is Level.WORKLOAD else None
        if self._present is None or with_idle:
            self._groups = self._names_of(wanted_groups(question))
        self._unkeyed = UnkeyedPeriods(connection, question, parts, self._groups.values())
        # All steps are added up by one statement, which is given of what they are made.
        self._steps = given_table(connection, "steps", {"period_id": Integer, "part": Integer})
        self._whole: dict[_Place, Any] | None = None
        self._sizes: list[int] | None = None
        self._made: dict[int, Group] = {}
        self._heads: dict[int, tuple[int, int, int, float, float, float, bool]] = {}
        self._columns = _told(question)
        # Of a row, before whose sums the group is and behind them the step, and of what is not read.
        places = {name: place for place, name in enumerate(self._columns, 1)}
        first = len(places) + 2
        self._fields = itemgetter(*(places.get(name, first + number) for number, name in enumerate(_FIELDS)))
        self._with_lasts = question.level in WITH_HISTOGRAM and not question.sums_only

    def count(self) -> int:
        """How many there are."""
        return sum(self._counted())

    def find(self, limit: int, offset: int = 0, after: Place | None = None) -> list[UsageRow]:
        """Some of them, in the order of the question, those after a place."""
        key = None if after is None else order_key(self._question, after)
        by_time = self._question.order is RowOrder.TIME
        if by_time and not self._with_idle and self._present is None:
            # Where all rows may be wanted, which there are and what they say is read at once.
            all_of_them = limit >= len(self._groups) * len(self._parts)
            self._whole = dict(self._read(range(len(self._parts)), None, self._columns)) if all_of_them else None
        places = self._by_time(limit, offset, key) if by_time else self._by_value(limit, offset, key)
        found = self._rows(frozenset(places))
        return [found[place] for place in places]

    def kept_times(self, starts: Collection[int]) -> dict[int, list[KeptTime]]:
        """Of the steps that begin then, by their start: of what they are made, and what the cluster had."""
        wanted = [part for part in self._parts if part.start in starts]
        numbers = [number for part in wanted for number in part.periods]
        known = capacity_of_periods(self._connection, self._question.cluster, numbers)
        return {part.start: [known[number] for number in part.periods] for part in wanted}

    def _counted(self) -> list[int]:
        """How many there are of each step."""
        if self._sizes is None:
            self._sizes = self._counts()
        return self._sizes

    def _counts(self) -> list[int]:
        if self._with_idle:
            return [len(self._groups)] * len(self._parts)
        if self._present is not None:
            self._present.read([number for part in self._parts for number in part.periods])
            return [len(self._present.together(part.periods)) for part in self._parts]
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

    def _by_time(self, limit: int, offset: int, after: tuple[Any, ...] | None) -> list[_Place]:
        order = list(range(len(self._parts)))
        if not self._question.ascending:
            order.reverse()
        if after is not None:
            order = [part for part in order if self._time_key(part) >= after[:1]]
        if offset:
            # Those before are only counted.
            counts = self._counted()
            ends = list(accumulate(counts[number] for number in order))
            begin = bisect_right(ends, offset)
            offset -= ends[begin - 1] if begin else 0
            order = order[begin:]
        found: list[_Place] = []
        # Which workloads there are in a step is known, but it takes long to say of many.
        at_once = _AT_ONCE if self._present is None else 1
        for begin in range(0, len(order), at_once):
            few = order[begin : begin + at_once]
            of_part = self._groups_of(few)
            for part in few:
                if len(found) >= offset + limit:
                    return found[offset : offset + limit]
                self._know(of_part[part])
                names: Iterable[_Name] = map(self._groups.__getitem__, of_part[part])
                if after is not None and self._time_key(part) == after[:1]:
                    names = [name for name in names if name > after[1:]]
                few_names = nsmallest(offset + limit - len(found), names)
                found += [(part, number) for _, _, number in few_names]
        return found[offset : offset + limit]

    def _groups_of(self, parts: Sequence[int]) -> Mapping[int, Collection[int]]:
        if self._with_idle:
            return dict.fromkeys(parts, self._groups)
        if self._present is not None:
            return {part: self._present.together(self._parts[part].periods) for part in parts}
        of_part: dict[int, list[int]] = defaultdict(list)
        for part, group in self._whole or (place for place, _ in self._read(parts, None, ())):
            of_part[part].append(group)
        return of_part

    def _by_value(self, limit: int, offset: int, after: tuple[Any, ...] | None) -> list[_Place]:
        by_use = self._question.order is RowOrder.UTILIZATION
        names = ("util_gpu_s", "obs_gpu_s") if by_use else ("alloc_gpu_s",)
        found: list[_Valued] = []
        turn = 1 if self._question.ascending else -1
        for place, row in self._read(range(len(self._parts)), None, names):
            amount, over = (row[1], row[2]) if by_use else (row[1], self._parts[place[0]].seconds)
            start = self._parts[place[0]].start
            found.append((0, turn * amount / over, start, place) if over > 0 else (1, 0.0, start, place))
        return self._named(found, offset + limit, after)[offset:]

    def _named(self, found: list[_Valued], limit: int, after: tuple[Any, ...] | None) -> list[_Place]:
        """The first places, those after another; names decide where values do not, and are read of those alone."""
        if after is not None:
            before, name = after[:-_NAMES], after[-_NAMES:]
            equal = [item for item in found if item[:-1] == before]
            self._know(item[-1][1] for item in equal)
            beyond = [item for item in equal if self._name(item[-1][1]) > name]
            found = [item for item in found if item[:-1] > before] + beyond
        if len(found) > limit:
            last = nsmallest(limit, found)[-1][:-1]
            found = [item for item in found if item[:-1] <= last]
        self._know(item[-1][1] for item in found)
        ordered = sorted(found, key=lambda item: (*item[:-1], self._name(item[-1][1])))
        return [item[-1] for item in ordered[:limit]]

    def _know(self, numbers: Iterable[int]) -> None:
        """Read what groups are."""
        missing = sorted(set(numbers) - self._groups.keys())
        for begin in range(0, len(missing), _NAMED_AT_ONCE):
            few = missing[begin : begin + _NAMED_AT_ONCE]
            if few[-1] - few[0] < DENSE * len(few):
                # What there is between them is read with them: a list of thousands takes longer than its rows.
                of_level = groups.c.level == self._question.level.value
                self._groups.update(self._names_of(groups.c.id.between(few[0], few[-1]) & of_level))
                continue
            self._groups.update(self._names_of(groups.c.id.in_(bindparam("few", few, expanding=True))))

    def _names_of(self, wanted: ColumnElement[bool]) -> dict[int, _Name]:
        names = self._connection.execute(select(groups.c.key, groups.c.value, groups.c.id).where(wanted)).all()
        return {number: (key, value, number) for key, value, number in names}

    def _time_key(self, part: int) -> tuple[Any, ...]:
        return order_key(self._question, (self._parts[part].start,))

    def _name(self, group: int) -> _Name:
        return self._groups[group]

    def _read(
        self, parts: Iterable[int], few: Collection[int] | None, names: Collection[str]
    ) -> Iterator[tuple[_Place, Any]]:
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
            return self._groups
        return self._present.together([number for part in self._parts for number in part.periods])

    def _rows(self, places: Collection[_Place]) -> dict[_Place, UsageRow]:
        few, parts = {group for _, group in places}, sorted({part for part, _ in places})
        lasts = self._lasts(parts, few) if self._with_lasts else {}
        attributes = {last.attributes for last in lasts.values() if last.attributes is not None}
        described = described_by(self._connection, sorted(attributes))
        workloads = self._workloads(parts)
        found = {}
        rows = self._read(parts, few, self._columns) if self._whole is None else self._whole.items()
        for place, row in rows:
            if place in places:
                values = self._sums(row)
                values.workloads = max(values.workloads, workloads.get(place, 0))
                found[place] = self._row(place, values, lasts.get(place), described)
        return found | {place: self._row(place, Sums(), None, {}) for place in places if place not in found}

    def _sums(self, row: Any) -> Sums:
        return with_hundredths(Sums(*self._fields((*row, *_NOT_READ))))

    def _lasts(self, wanted: Collection[int], few: Collection[int]) -> dict[_Place, _Last]:
        """What is no sum, and what the last of the hours and days say."""
        columns = [sums.c[name] for name in ("period_id", "histogram", "attributes_id", "status")]
        statement, _ = self._about(few, columns)
        found: dict[_Place, _Last] = defaultdict(_Last)
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

    def _workloads(self, parts: Iterable[int]) -> dict[_Place, int]:
        """How many there are in each group over several hours and days."""
        steps = {part: self._parts[part].periods for part in parts if len(self._parts[part].periods) > 1}
        if self._question.level not in _TELL_WORKLOADS or self._question.sums_only or not steps:
            return {}
        values = {value: number for _, value, number in self._groups.values()}
        counts = workload_counts(self._connection, self._question, steps, values)
        return {(part, group): count for part, of_part in counts.items() for group, count in of_part.items()}

    def _row(self, place: _Place, values: Sums, last: _Last | None, described: Mapping[int, Described]) -> UsageRow:
        number, start, end, seconds, created_at, updated_at, provisional = self._head(place[0])
        group, said, status = self._group(place[1]), _NOTHING, None
        if last is not None:
            values.histogram = last.histogram
            said = said if last.attributes is None else described[last.attributes]
            status = None if last.status is None else WorkloadStatus(last.status)
        of_step = number | place[1], start, end, seconds, created_at, updated_at, provisional
        return UsageRow(*of_step, group, values, said.labels, said.annotations, status)

    def _head(self, part: int) -> tuple[int, int, int, float, float, float, bool]:
        """What all rows of a step tell: of their number the step's part, and the rest as it is."""
        if part not in self._heads:
            of_part = self._parts[part]
            number = self._number(of_part) << GROUP_BITS
            times = of_part.start, of_part.end, of_part.seconds, of_part.created_at, of_part.updated_at
            self._heads[part] = number, *times, of_part.provisional
        return self._heads[part]

    def _group(self, number: int) -> Group:
        if number not in self._made:
            self._made[number] = Group(self._question.level, *self._groups[number][:2])
        return self._made[number]

    def _number(self, part: Part) -> int:
        """Of an hour its own, as if nothing was added up; the longer ones say when they begin, and what they are."""
        return part.periods[0] if self._step == 0 else part.start // HOUR << STEP_BITS | self._step


def _added(name: str) -> ColumnElement[Any]:
    """A field of several rows together."""
    column = sums.c[name]
    if name == "pods_min":
        # While there was any.
        return func.coalesce(func.min(case((sums.c.pods_max > 0, column))), 0)
    if name == "util_min":
        return func.min(column)
    return func.max(column) if name in _MOST else func.sum(column)


def _told(question: Question) -> tuple[str, ...]:
    """Fields of sums that answers tell: most of the time goes into adding up."""
    told = _HELD | _OWN.get(question.level, frozenset())
    if not question.sums_only:
        told = frozenset(_ADDED) if question.level in WITH_HISTOGRAM else told | _OF_GROUPS
    return tuple(name for name in _ADDED if name in told)


_FIELDS = tuple(field.name for field in fields(Sums))
_ADDED = tuple(name for name in _FIELDS if name != "histogram")
_NOT_READ = tuple(field.default for field in fields(Sums))
