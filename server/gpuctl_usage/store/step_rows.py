"""Rows of steps that consist of several hours or days, one for each step and group."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import accumulate
from typing import Any

from sqlalchemy import Connection, Integer, Select, select, tuple_

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import PeriodCapacity
from gpuctl_usage.store.cluster_capacity import capacity_of_periods
from gpuctl_usage.store.database_tables import groups
from gpuctl_usage.store.hours import WorkloadStatus
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.store.step_sums import GroupName, StepDetails, StepGroupIds, StepSums
from gpuctl_usage.store.surrogate_keys import Attributes, read_attributes
from gpuctl_usage.store.usage_queries import (
    GROUP_BITS,
    WITH_HISTOGRAM,
    RowKey,
    RowOrder,
    RowQuery,
    UsageRow,
    present_workloads,
    wanted_groups,
)
from gpuctl_usage.store.workload_counts import workload_counts
from gpuctl_usage.sums import Group, Level, Sums

_STEP_BATCH = 50
"""Number of steps read at once."""
STEP_BITS = 3
_COUNT_WORKLOADS = frozenset({Level.NAMESPACE, Level.LABEL, Level.ANNOTATION})
_NO_ATTRIBUTES = Attributes({}, {})
_NAMED = groups.c.key, groups.c.value, groups.c.id
"""Name of a group; row keys end with it."""

_StepFields = tuple[int, int, int, float, float, float, float, float, bool]


class StepRows:
    """The rows of a query.

    :param step: number of the step unit, below eight, so that rows of different units have different ids; 0 for hours.
    :param with_idle: include rows of groups that held nothing, for every step; only in order of time.
    """

    def __init__(
        self,
        connection: Connection,
        query: RowQuery,
        parts: Sequence[KnownStep],
        step: int,
        with_idle: bool = False,
    ) -> None:
        self._connection = connection
        self._question = query
        self._parts = parts
        self._step = step
        self._with_idle = with_idle
        self._groups: dict[int, GroupName] = {}
        self._present = present_workloads(connection, query) if query.level is Level.WORKLOAD else None
        if self._present is None or with_idle:
            self._groups = {
                number: (key, value, number)
                for key, value, number in connection.execute(select(*_NAMED).where(wanted_groups(query)))
            }
        self._sums = StepSums(connection, query, parts, self._present, self._groups)
        self._whole: dict[StepGroupIds, Any] | None = None
        self._sizes: list[int] | None = None
        self._made: dict[int, Group] = {}
        self._heads: dict[int, _StepFields] = {}
        self._with_ends = query.level in WITH_HISTOGRAM and not query.sums_only

    def count(self) -> int:
        """Return the number of rows."""
        return sum(self._counted())

    def find(self, limit: int, offset: int = 0, after: RowKey | None = None) -> list[UsageRow]:
        """Return rows in the query's order, optionally those after a row key."""
        by_time = self._question.order is RowOrder.TIME
        may_be_all = by_time and not self._with_idle and self._present is None
        if may_be_all and limit >= len(self._groups) * len(self._parts):
            # All rows fit into the limit: read groups and sums with one statement.
            self._whole = dict(self._sums.read(range(len(self._parts)), None, self._sums.columns))
        if by_time:
            places = self._by_time(limit, offset, after)
        else:
            places = self._sums.ranked(limit, offset, after)
            self._know(group for _, group in places)
        found = self._rows(frozenset(places))
        return [found[place] for place in places]

    def period_capacities(self, starts: Collection[int]) -> dict[int, list[PeriodCapacity]]:
        """Return the known periods and the cluster's capacity of the steps that begin at these times, by start."""
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
        """Return the number of rows of each step."""
        if self._sizes is None:
            self._sizes = self._counts()
        return self._sizes

    def _counts(self) -> list[int]:
        if self._with_idle:
            return [len(self._groups)] * len(self._parts)
        if self._present is not None:
            self._present.read([number for part in self._parts for number in part.periods])
            return [len(self._present.union(part.periods)) for part in self._parts]
        return self._sums.counts()

    def _by_time(self, limit: int, offset: int, after: RowKey | None) -> list[StepGroupIds]:
        order = list(range(len(self._parts)))
        if not self._question.ascending:
            order.reverse()
        if after is not None:
            order = [part for part in order if self._is_from(part, after)]
        if offset:
            # Steps before the offset are only counted.
            counts = self._counted()
            ends = list(accumulate(counts[number] for number in order))
            begin = bisect_right(ends, offset)
            offset -= ends[begin - 1] if begin else 0
            order = order[begin:]
        found: list[StepGroupIds] = []
        # The workloads of a step are known, but reading the names of many takes long.
        at_once = _STEP_BATCH if self._present is None else 1
        for begin in range(0, len(order), at_once):
            few = order[begin : begin + at_once]
            of_part = self._groups_of(few)
            for part in few:
                beyond = tuple(after[1:]) if after is not None and self._parts[part].start == after[0] else None
                names = self._first_names(of_part[part], limit - len(found), offset, beyond)
                found += [(part, number) for _, _, number in names]
                offset = 0
                if len(found) >= limit:
                    return found
        return found

    def _first_names(
        self, numbers: Set[int], limit: int, offset: int, after: tuple[Any, ...] | None
    ) -> Sequence[GroupName]:
        """Return the first groups in order of their names, optionally those after a name."""
        if self._present is None or self._with_idle or self._groups.keys() >= numbers:
            names = sorted(map(self._groups.__getitem__, numbers))
            return names[bisect_right(names, after) if after is not None else 0 :][offset : offset + limit]
        # A long step has far more workloads than an answer: only the names in the answer are read.
        names_of = self._named_groups()
        if after is not None:
            names_of = names_of.where(tuple_(*_NAMED) > tuple_(*after))
        return self._load_names(names_of.order_by(*_NAMED).limit(limit).offset(offset), numbers)

    def _groups_of(self, parts: Sequence[int]) -> Mapping[int, Set[int]]:
        if self._with_idle:
            return dict.fromkeys(parts, self._groups.keys())
        if self._present is not None:
            return {part: self._present.union(self._parts[part].periods) for part in parts}
        of_part: dict[int, set[int]] = defaultdict(set)
        for part, group in self._whole or (place for place, _ in self._sums.read(parts, None, ())):
            of_part[part].add(group)
        return of_part

    def _know(self, numbers: Iterable[int]) -> None:
        """Load the names of groups."""
        if missing := set(numbers) - self._groups.keys():
            self._load_names(self._named_groups(), missing)

    def _named_groups(self) -> Select[Any]:
        """Return a select of the names of groups given by their ids."""
        given = inline_table(self._connection, "few", {"id": Integer})
        return select(*_NAMED).join_from(given, groups, groups.c.id == given.c.id)

    def _load_names(self, names_of: Select[Any], numbers: Iterable[int]) -> list[GroupName]:
        rows = self._connection.execute(names_of, {"few": packed_rows(numbers)})
        names = [(key, value, number) for key, value, number in rows]
        self._groups.update((name[-1], name) for name in names)
        return names

    def _is_from(self, part: int, after: RowKey) -> bool:
        """Return True if rows of a step may follow a row key in order of time."""
        start, first = self._parts[part].start, after[0]
        assert isinstance(first, int | float)
        return start >= first if self._question.ascending else start <= first

    def _rows(self, places: Collection[StepGroupIds]) -> dict[StepGroupIds, UsageRow]:
        few, parts = {group for _, group in places}, sorted({part for part, _ in places})
        ends = self._sums.details(parts, few) if self._with_ends else {}
        attributes = {last.attributes for last in ends.values() if last.attributes is not None}
        described = read_attributes(self._connection, attributes)
        workloads = self._workloads(parts)
        found = {}
        rows = self._sums.read(parts, few, self._sums.columns) if self._whole is None else self._whole.items()
        for place, row in rows:
            if place in places:
                values = self._sums.sums(row)
                values.workloads = max(values.workloads, workloads.get(place, 0))
                found[place] = self._row(place, values, ends.get(place), described)
        return found | {place: self._row(place, Sums(), None, {}) for place in places if place not in found}

    def _workloads(self, parts: Iterable[int]) -> dict[StepGroupIds, int]:
        """Return the number of distinct workloads of each group in steps of several periods."""
        steps = {part: self._parts[part].periods for part in parts if len(self._parts[part].periods) > 1}
        if self._question.level not in _COUNT_WORKLOADS or self._question.sums_only or not steps:
            return {}
        values = {value: number for _, value, number in self._groups.values()}
        counts = workload_counts(self._connection, self._question, steps, values)
        return {(part, group): count for part, of_part in counts.items() for group, count in of_part.items()}

    def _row(
        self, place: StepGroupIds, values: Sums, last: StepDetails | None, described: Mapping[int, Attributes]
    ) -> UsageRow:
        head = self._head(place[0])
        group, said, status = self._group(place[1]), _NO_ATTRIBUTES, None
        if last is not None:
            values.histogram = last.histogram
            said = said if last.attributes is None else described[last.attributes]
            status = None if last.status is None else WorkloadStatus(last.status)
        return UsageRow(head[0] | place[1], *head[1:], group, values, said.labels, said.annotations, status)

    def _head(self, part: int) -> _StepFields:
        """Return the values that all rows of a step share: the step's part of the row id, then the fields of
        :class:`UsageRow` up to ``provisional``.
        """
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
        """Return the step's part of row ids: an hour's own id, or the start and unit of a longer step."""
        return part.periods[0] if self._step == 0 else part.start // HOUR << STEP_BITS | self._step
