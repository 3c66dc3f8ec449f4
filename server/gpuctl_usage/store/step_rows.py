"""Rows of several hours together, one for each step and group."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, func, null, or_, select

from gpuctl_usage.facts import HOUR, UNSET
from gpuctl_usage.store.hours import WorkloadStatus, sums_of
from gpuctl_usage.store.kept_parts import Part
from gpuctl_usage.store.numbering import Described, described_by, group_of
from gpuctl_usage.store.packing import AS_THEY_ARE, ROUNDED, unpack_histogram, unpack_pairs
from gpuctl_usage.store.tables import groups, periods, sums
from gpuctl_usage.store.unkeyed_periods import UnkeyedPeriods
from gpuctl_usage.store.usage_queries import (
    GROUP_BITS,
    Place,
    Question,
    RowOrder,
    UsageRow,
    order_key,
    wanted_groups,
)
from gpuctl_usage.sums import Level, Sums

_AT_ONCE = 50
"""Steps that are read together."""
_FEW = 500
"""Groups that are looked up one by one; of more, all that a question is about are read."""
STEP_BITS = 3
_MOST = frozenset({"util_max", "memory_max", "pods_max", "workloads"})
_TELL_MORE = frozenset({Level.CLUSTER, Level.WORKLOAD})
"""Their answers have percentiles, and those of workloads their labels."""
_TELL_WORKLOADS = frozenset({Level.CLUSTER, Level.NAMESPACE, Level.LABEL, Level.ANNOTATION})
_NOTHING = Described({}, {})


class _Place(NamedTuple):
    part: int
    group: int


@dataclass
class _Last:
    """What only the rows of single hours and days tell."""

    histogram: Counter[int] | None = None
    attributes: int | None = None
    status: int | None = None


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
        columns = (groups.c[name] for name in ("id", "level", "key", "value", "namespace"))
        about = connection.execute(select(*columns).where(wanted_groups(question)))
        self._groups = {row.id: row for row in about}
        self._unkeyed = UnkeyedPeriods(connection, question, parts, self._groups)

    def count(self) -> int:
        """How many there are."""
        return sum(self._counts())

    def find(self, limit: int, offset: int = 0, after: Place | None = None) -> list[UsageRow]:
        """Some of them, in the order of the question, those after a place."""
        key = None if after is None else order_key(self._question, after)
        by_time = self._question.order is RowOrder.TIME
        places = self._by_time(limit, offset, key) if by_time else self._by_value(limit, offset, key)
        wanted: dict[int, list[int]] = defaultdict(list)
        for place in places:
            wanted[place.part].append(place.group)
        found = self._rows(wanted)
        return [found[place] for place in places]

    def capacities(self) -> dict[int, float]:
        """The GPUs of the whole cluster times seconds, by the start of a step."""
        whole = groups.c.cluster_id == self._question.cluster, groups.c.level == Level.CLUSTER.value
        numbers = list(self._connection.execute(select(groups.c.id).where(*whole)).scalars())
        found = self._read(range(len(self._parts)), numbers, {"cap_gpu_s": _added("cap_gpu_s")})
        return {self._parts[place.part].start: row.cap_gpu_s for place, row in found}

    def _counts(self) -> list[int]:
        if self._with_idle:
            return [len(self._groups)] * len(self._parts)
        counts = [0] * len(self._parts)
        single = {}
        for number, part in enumerate(self._parts):
            if len(part.periods) == 1:
                single[part.periods[0]] = number
                continue
            about, group = self._about(None, [])
            distinct = about.with_only_columns(func.count(group.distinct()), maintain_column_froms=True)
            counts[number] = self._connection.execute(distinct, {"periods": part.periods}).scalar_one()
        if single:
            about, _ = self._about(None, [])
            each = about.with_only_columns(sums.c.period_id, func.count(), maintain_column_froms=True)
            for period, count in self._connection.execute(each.group_by(sums.c.period_id), {"periods": list(single)}):
                counts[single[period]] = count
        return counts

    def _by_time(self, limit: int, offset: int, after: tuple[Any, ...] | None) -> list[_Place]:
        order = list(range(len(self._parts)))
        if not self._question.ascending:
            order.reverse()
        if after is not None:
            order = [part for part in order if self._time_key(part) >= after[:1]]
        if offset:
            # Those before are only counted.
            counts = self._counts()
            ends = list(accumulate(counts[number] for number in order))
            begin = bisect_right(ends, offset)
            offset -= ends[begin - 1] if begin else 0
            order = order[begin:]
        found: list[_Place] = []
        for begin in range(0, len(order), _AT_ONCE):
            if len(found) >= offset + limit:
                break
            few = order[begin : begin + _AT_ONCE]
            of_part = self._groups_of(few)
            names = [(part, group) for part in few for group in sorted(of_part[part], key=self._name)]
            found += [
                _Place(part, group)
                for part, group in names
                if after is None or (*self._time_key(part), *self._name(group)) > after
            ]
        return found[offset : offset + limit]

    def _groups_of(self, parts: Sequence[int]) -> Mapping[int, Collection[int]]:
        if self._with_idle:
            return dict.fromkeys(parts, self._groups)
        of_part: dict[int, list[int]] = defaultdict(list)
        for place, _ in self._read(parts, None, {}):
            of_part[place.part].append(place.group)
        return of_part

    def _by_value(self, limit: int, offset: int, after: tuple[Any, ...] | None) -> list[_Place]:
        by_use = self._question.order is RowOrder.UTILIZATION
        names = ("util_gpu_s", "obs_gpu_s") if by_use else ("alloc_gpu_s",)
        found = []
        for place, row in self._read(range(len(self._parts)), None, {name: _added(name) for name in names}):
            over = row.obs_gpu_s if by_use else self._parts[place.part].seconds
            value = getattr(row, names[0]) / over if over > 0 else None
            where = (int(value is None), value, self._parts[place.part].start, *self._name(place.group))
            key = order_key(self._question, where)
            if after is None or key > after:
                found.append((key, place))
        return [place for _, place in sorted(found)][offset : offset + limit]

    def _time_key(self, part: int) -> tuple[Any, ...]:
        return order_key(self._question, (self._parts[part].start,))

    def _name(self, group: int) -> tuple[str, str, int]:
        row = self._groups[group]
        return row.key, row.value, group

    def _read(
        self, parts: Iterable[int], few: Collection[int] | None, columns: Mapping[str, ColumnElement[Any]]
    ) -> Iterator[tuple[_Place, Any]]:
        """What the rows of each step and group come to.

        :param few: the groups; None for all that the question is about.
        """
        statement, group = self._about(few, [column.label(name) for name, column in columns.items()])
        single = {}
        for number in parts:
            if len(self._parts[number].periods) == 1:
                single[self._parts[number].periods[0]] = number
                continue
            one_step = statement.group_by(group)
            for row in self._connection.execute(one_step, {"periods": self._parts[number].periods}):
                yield _Place(number, row.group_id), row
        if single:
            # Of steps of one hour or day one statement has all.
            each = statement.add_columns(sums.c.period_id).group_by(sums.c.period_id, group)
            for row in self._connection.execute(each, {"periods": list(single)}):
                yield _Place(single[row.period_id], row.group_id), row

    def _about(
        self, few: Collection[int] | None, columns: Sequence[ColumnElement[Any]]
    ) -> tuple[Select[Any], ColumnElement[Any]]:
        """Rows of hours and days, and the group that each of them counts for."""
        known = self._groups if few is None else few
        group: ColumnElement[Any] = sums.c.group_id
        # Few are looked up in each period; of many all are read.
        theirs = sums.c.group_id.in_(sorted(known)) if len(known) <= _FEW else wanted_groups(self._question)
        if self._unkeyed.periods:
            group = case((sums.c.group_id == self._unkeyed.whole, self._unkeyed.unset), else_=sums.c.group_id)
            in_whole = sums.c.group_id == self._unkeyed.whole, sums.c.period_id.in_(self._unkeyed.periods)
            theirs = or_(theirs, and_(*in_whole))
        statement = select(group.label("group_id"), *columns).select_from(sums)
        if len(known) > _FEW:
            statement = statement.join(groups, groups.c.id == sums.c.group_id)
        return statement.where(sums.c.period_id.in_(bindparam("periods", expanding=True)), theirs), group

    def _rows(self, wanted: Mapping[int, Sequence[int]]) -> dict[_Place, UsageRow]:
        places = {_Place(part, group) for part, of_part in wanted.items() for group in of_part}
        few = {place.group for place in places}
        lasts = self._lasts(wanted, few) if self._question.level in _TELL_MORE else {}
        attributes = {last.attributes for last in lasts.values() if last.attributes is not None}
        described = described_by(self._connection, sorted(attributes))
        workloads = self._workloads(wanted)
        found = {
            place: self._row(place, sums_of(row), lasts.get(place, _Last()), described, workloads.get(place, 0))
            for place, row in self._read(sorted(wanted), few, _COLUMNS)
            if place in places
        }
        idle = {place: self._row(place, Sums(), _Last(), {}, 0) for place in places - found.keys()}
        return found | idle

    def _lasts(self, wanted: Iterable[int], few: Collection[int]) -> dict[_Place, _Last]:
        """What is no sum, and what the last of the hours and days say."""
        columns = [sums.c[name] for name in ("period_id", "histogram", "attributes_id", "status")]
        statement, _ = self._about(few, columns)
        found: dict[_Place, _Last] = defaultdict(_Last)
        of_period = {period: part for part in wanted for period in self._parts[part].periods}
        turns = {period: turn for turn, period in enumerate(of_period)}
        rows = self._connection.execute(statement, {"periods": list(of_period)}).all()
        for row in sorted(rows, key=lambda row: turns[row.period_id]):
            part = of_period[row.period_id]
            last = found[_Place(part, row.group_id)]
            if row.histogram is not None:
                last.histogram = (last.histogram or Counter()) + Counter(unpack_histogram(row.histogram))
            last.attributes = row.attributes_id if row.attributes_id is not None else last.attributes
            gone = row.period_id != self._parts[part].periods[-1] and row.status is not None
            last.status = WorkloadStatus.FINISHED if gone else row.status
        return found

    def _workloads(self, wanted: Mapping[int, Sequence[int]]) -> dict[_Place, int]:
        """How many there are in each group over several hours and days: one that is in two of them counts once."""
        several = [part for part in wanted if len(self._parts[part].periods) > 1]
        if self._question.level not in _TELL_WORKLOADS or not several:
            return {}
        pairs = {part: self._holders(self._parts[part]) for part in several}
        belongs = self._belongings({pair for of_part in pairs.values() for pair in of_part})
        found: Counter[_Place] = Counter()
        for part, of_part in pairs.items():
            alike = {(belongs[pair], pair[0]) for pair in of_part}
            found.update(_Place(part, group) for group, _ in alike if group is not None)
        return dict(found)

    def _holders(self, part: Part) -> set[tuple[int, int]]:
        packed = select(periods.c.holders).where(periods.c.id.in_(bindparam("periods", expanding=True)))
        found: set[tuple[int, int]] = set()
        for one in self._connection.execute(packed, {"periods": part.periods}).scalars():
            found.update(unpack_pairs(one))
        return found

    def _belongings(self, pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], int | None]:
        """The group of each workload with its labels."""
        level, key = self._question.level, self._question.key
        by_value = {row.value: number for number, row in self._groups.items()}
        if level is Level.CLUSTER:
            return dict.fromkeys(pairs, by_value.get(""))
        if level is Level.NAMESPACE:
            workloads = select(groups.c.id, groups.c.namespace).where(
                groups.c.cluster_id == self._question.cluster, groups.c.level == Level.WORKLOAD.value
            )
            of_workload = {row.id: by_value.get(row.namespace) for row in self._connection.execute(workloads)}
            return {pair: of_workload.get(pair[0]) for pair in pairs}
        as_what = described_by(self._connection, sorted({described for _, described in pairs}))
        values = {
            number: by_value.get((said.labels if level is Level.LABEL else said.annotations).get(key or "", UNSET))
            for number, said in as_what.items()
        }
        return {pair: values[pair[1]] for pair in pairs}

    def _row(
        self, place: _Place, values: Sums, last: _Last, described: Mapping[int, Described], workloads: int
    ) -> UsageRow:
        part = self._parts[place.part]
        values.histogram = None if last.histogram is None else dict(last.histogram)
        values.workloads = max(values.workloads, workloads)
        said = _NOTHING if last.attributes is None else described[last.attributes]
        return UsageRow(
            id=self._number(part) << GROUP_BITS | place.group,
            start=part.start,
            end=part.end,
            seconds=part.seconds,
            created_at=part.created_at,
            updated_at=part.updated_at,
            provisional=part.provisional,
            group=group_of(self._groups[place.group]),
            sums=values,
            labels=said.labels,
            annotations=said.annotations,
            status=None if last.status is None else WorkloadStatus(last.status),
        )

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


_COLUMNS = {**{name: _added(name) for name in (*AS_THEY_ARE, *ROUNDED)}, "histogram": null()}
