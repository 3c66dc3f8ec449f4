"""Rows of several hours together, one for each step and group."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, select

from gpuctl_usage.facts import HOUR, PeriodCapacity
from gpuctl_usage.store.cluster_capacity import capacity_of_periods
from gpuctl_usage.store.database_tables import groups
from gpuctl_usage.store.hours import WorkloadStatus
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.store.step_sums import GroupName, StepEnd, StepPlace, StepSums
from gpuctl_usage.store.surrogate_keys import Described, described_by
from gpuctl_usage.store.usage_queries import (
    DENSE,
    GROUP_BITS,
    WITH_HISTOGRAM,
    RowKey,
    RowOrder,
    RowQuery,
    UsageRow,
    order_key,
    present_workloads,
    wanted_groups,
)
from gpuctl_usage.store.workload_counts import workload_counts
from gpuctl_usage.sums import Group, Level, Sums

_AT_ONCE = 50
"""Steps that are read together."""
STEP_BITS = 3
_TELL_WORKLOADS = frozenset({Level.NAMESPACE, Level.LABEL, Level.ANNOTATION})
_NOTHING = Described({}, {})
_NAMED_AT_ONCE = 10_000
_NAMES = 3
"""Of a place that is in some order, how many of its last values say which group it is."""

_Head = tuple[int, int, int, float, float, float, float, float, bool]
_Valued = tuple[int, float, int, StepPlace]
"""What decides where a row stands, before its name: whether its value is unknown, the value, and when it begins."""


class StepRows:
    """The rows that answer a question.

    :param step: the number of the kind of step, less than eight: rows of different kinds have different ids. 0 is of
        hours.
    :param with_idle: also rows of groups that hold nothing, every one in every step; only in the order of time.
    """

    def __init__(
        self,
        connection: Connection,
        question: RowQuery,
        parts: Sequence[KnownStep],
        step: int,
        with_idle: bool = False,
    ) -> None:
        self._connection = connection
        self._question = question
        self._parts = parts
        self._step = step
        self._with_idle = with_idle
        self._groups: dict[int, GroupName] = {}
        self._present = present_workloads(connection, question) if question.level is Level.WORKLOAD else None
        if self._present is None or with_idle:
            self._groups = self._names_of(wanted_groups(question))
        self._sums = StepSums(connection, question, parts, self._present, self._groups)
        self._whole: dict[StepPlace, Any] | None = None
        self._sizes: list[int] | None = None
        self._made: dict[int, Group] = {}
        self._heads: dict[int, _Head] = {}
        self._with_ends = question.level in WITH_HISTOGRAM and not question.sums_only

    def count(self) -> int:
        """How many there are."""
        return sum(self._counted())

    def find(self, limit: int, offset: int = 0, after: RowKey | None = None) -> list[UsageRow]:
        """Some of them, in the order of the question, those after a place."""
        key = None if after is None else order_key(self._question, after)
        by_time = self._question.order is RowOrder.TIME
        may_be_all = by_time and not self._with_idle and self._present is None
        if may_be_all and limit >= len(self._groups) * len(self._parts):
            # Which there are and what they say is read at once.
            self._whole = dict(self._sums.read(range(len(self._parts)), None, self._sums.columns))
        places = self._by_time(limit, offset, key) if by_time else self._by_value(limit, offset, key)
        found = self._rows(frozenset(places))
        return [found[place] for place in places]

    def kept_times(self, starts: Collection[int]) -> dict[int, list[PeriodCapacity]]:
        """Of the steps that begin then, by their start: of what they are made, and what the cluster had."""
        wanted = [part for part in self._parts if part.start in starts]
        numbers = (number for part in wanted for number in part.periods)
        had = capacity_of_periods(self._connection, self._question.cluster, numbers)
        return {
            part.start: [
                PeriodCapacity(start, end, had.get(number, 0.0), is_day)
                for number, (start, end, is_day) in zip(part.periods, part.times, strict=True)
            ]
            for part in wanted
        }

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
        return self._sums.counts()

    def _by_time(self, limit: int, offset: int, after: tuple[Any, ...] | None) -> list[StepPlace]:
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
        found: list[StepPlace] = []
        # Which workloads there are in a step is known, but it takes long to say of many.
        at_once = _AT_ONCE if self._present is None else 1
        for begin in range(0, len(order), at_once):
            few = order[begin : begin + at_once]
            of_part = self._groups_of(few)
            for part in few:
                if len(found) >= offset + limit:
                    return found[offset : offset + limit]
                self._know(of_part[part])
                # A list, of which it is known that all of it is wanted, is sorted at once.
                names = list(map(self._groups.__getitem__, of_part[part]))
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
        for part, group in self._whole or (place for place, _ in self._sums.read(parts, None, ())):
            of_part[part].append(group)
        return of_part

    def _by_value(self, limit: int, offset: int, after: tuple[Any, ...] | None) -> list[StepPlace]:
        by_use = self._question.order is RowOrder.UTILIZATION
        names = ("util_gpu_s", "obs_gpu_s") if by_use else ("alloc_gpu_s",)
        found: list[_Valued] = []
        turn = 1 if self._question.ascending else -1
        for place, row in self._sums.read(range(len(self._parts)), None, names):
            part = self._parts[place[0]]
            over = row[2] if by_use else part.seconds
            found.append((0, turn * row[1] / over, part.start, place) if over > 0 else (1, 0.0, part.start, place))
        return self._named(found, offset + limit, after)[offset:]

    def _named(self, found: list[_Valued], limit: int, after: tuple[Any, ...] | None) -> list[StepPlace]:
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

    def _names_of(self, wanted: ColumnElement[bool]) -> dict[int, GroupName]:
        names = self._connection.execute(select(groups.c.key, groups.c.value, groups.c.id).where(wanted)).all()
        return {number: (key, value, number) for key, value, number in names}

    def _time_key(self, part: int) -> tuple[Any, ...]:
        return order_key(self._question, (self._parts[part].start,))

    def _name(self, group: int) -> GroupName:
        return self._groups[group]

    def _rows(self, places: Collection[StepPlace]) -> dict[StepPlace, UsageRow]:
        few, parts = {group for _, group in places}, sorted({part for part, _ in places})
        ends = self._sums.ends(parts, few) if self._with_ends else {}
        attributes = {last.attributes for last in ends.values() if last.attributes is not None}
        described = described_by(self._connection, sorted(attributes))
        workloads = self._workloads(parts)
        found = {}
        rows = self._sums.read(parts, few, self._sums.columns) if self._whole is None else self._whole.items()
        for place, row in rows:
            if place in places:
                values = self._sums.sums(row)
                values.workloads = max(values.workloads, workloads.get(place, 0))
                found[place] = self._row(place, values, ends.get(place), described)
        return found | {place: self._row(place, Sums(), None, {}) for place in places if place not in found}

    def _workloads(self, parts: Iterable[int]) -> dict[StepPlace, int]:
        """How many there are in each group over several hours and days."""
        steps = {part: self._parts[part].periods for part in parts if len(self._parts[part].periods) > 1}
        if self._question.level not in _TELL_WORKLOADS or self._question.sums_only or not steps:
            return {}
        values = {value: number for _, value, number in self._groups.values()}
        counts = workload_counts(self._connection, self._question, steps, values)
        return {(part, group): count for part, of_part in counts.items() for group, count in of_part.items()}

    def _row(
        self, place: StepPlace, values: Sums, last: StepEnd | None, described: Mapping[int, Described]
    ) -> UsageRow:
        head = self._head(place[0])
        group, said, status = self._group(place[1]), _NOTHING, None
        if last is not None:
            values.histogram = last.histogram
            said = said if last.attributes is None else described[last.attributes]
            status = None if last.status is None else WorkloadStatus(last.status)
        return UsageRow(head[0] | place[1], *head[1:], group, values, said.labels, said.annotations, status)

    def _head(self, part: int) -> _Head:
        """Return what all rows of a step have in common: the step's part of their number, then the fields of
        :class:`UsageRow` up to ``provisional``."""
        if part not in self._heads:
            of_part = self._parts[part]
            number = self._number(of_part) << GROUP_BITS
            known = of_part.seconds, of_part.known_from, of_part.known_until
            written = of_part.created_at, of_part.updated_at, of_part.provisional
            self._heads[part] = number, of_part.start, of_part.end, *known, *written
        return self._heads[part]

    def _group(self, number: int) -> Group:
        if number not in self._made:
            self._made[number] = Group(self._question.level, *self._groups[number][:2])
        return self._made[number]

    def _number(self, part: KnownStep) -> int:
        """Of an hour its own, as if nothing was added up; the longer ones say when they begin, and what they are."""
        return part.periods[0] if self._step == 0 else part.start // HOUR << STEP_BITS | self._step
