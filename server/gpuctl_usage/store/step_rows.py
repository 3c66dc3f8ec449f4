"""Rows of several hours together, one for each step and group."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, case, func, null, select

from gpuctl_usage.facts import HOUR, UNSET
from gpuctl_usage.store.hours import WorkloadStatus, sums_of
from gpuctl_usage.store.kept_parts import Part
from gpuctl_usage.store.numbering import Described, described_by, group_of
from gpuctl_usage.store.packing import AS_THEY_ARE, ROUNDED, unpack_histogram, unpack_pairs
from gpuctl_usage.store.tables import groups, periods, sums
from gpuctl_usage.store.usage_queries import GROUP_BITS, Question, RowOrder, UsageRow, wanted_groups
from gpuctl_usage.sums import Level

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

    :param step: the number of the kind of step, less than eight: rows of different kinds have different ids.
    """

    def __init__(self, connection: Connection, question: Question, parts: Sequence[Part], step: int) -> None:
        self._connection = connection
        self._question = question
        self._parts = parts
        self._step = step
        columns = (groups.c[name] for name in ("id", "level", "key", "value", "namespace"))
        about = connection.execute(select(*columns).where(wanted_groups(question)))
        self._groups = {row.id: row for row in about}

    def count(self) -> int:
        """How many there are."""
        return sum(self._counts())

    def find(self, limit: int, offset: int = 0) -> list[UsageRow]:
        """Some of them, in the order of the question."""
        if self._question.order is RowOrder.TIME:
            places = self._by_time(limit, offset)
        else:
            places = self._by_value()[offset : offset + limit]
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
        single = {part.periods[0]: number for number, part in enumerate(self._parts) if len(part.periods) == 1}
        counts = [0] * len(self._parts)
        about = self._about(None, [])
        for number, part in enumerate(self._parts):
            if len(part.periods) > 1:
                distinct = about.with_only_columns(func.count(sums.c.group_id.distinct()), maintain_column_froms=True)
                counts[number] = self._connection.execute(distinct, {"periods": part.periods}).scalar_one()
        if single:
            each = about.with_only_columns(sums.c.period_id, func.count(), maintain_column_froms=True)
            for period, count in self._connection.execute(each.group_by(sums.c.period_id), {"periods": list(single)}):
                counts[single[period]] = count
        return counts

    def _by_time(self, limit: int, offset: int) -> list[_Place]:
        order = range(len(self._parts)) if self._question.ascending else range(len(self._parts) - 1, -1, -1)
        begin = 0
        if offset:
            # Those before are only counted.
            counts = self._counts()
            ends = list(accumulate(counts[number] for number in order))
            begin = bisect_right(ends, offset)
            offset -= ends[begin - 1] if begin else 0
        found: list[_Place] = []
        while begin < len(order) and len(found) < offset + limit:
            few = order[begin : begin + _AT_ONCE]
            of_part: dict[int, list[int]] = defaultdict(list)
            for place, _ in self._read(few, None, {}):
                of_part[place.part].append(place.group)
            found += [_Place(part, group) for part in few for group in sorted(of_part[part], key=self._name)]
            begin += _AT_ONCE
        return found[offset : offset + limit]

    def _by_value(self) -> list[_Place]:
        names = ("util_gpu_s", "obs_gpu_s") if self._question.order is RowOrder.UTILIZATION else ("alloc_gpu_s",)
        found = []
        for place, row in self._read(range(len(self._parts)), None, {name: _added(name) for name in names}):
            over = row.obs_gpu_s if len(names) == 2 else self._parts[place.part].seconds
            value = getattr(row, names[0]) / over if over > 0 else 0.0
            key = (over <= 0, value if self._question.ascending else -value, place.part, self._name(place.group))
            found.append((key, place))
        return [place for _, place in sorted(found)]

    def _name(self, group: int) -> tuple[str, str, int]:
        row = self._groups[group]
        return row.key, row.value, group

    def _read(
        self, parts: Iterable[int], few: Collection[int] | None, columns: Mapping[str, ColumnElement[Any]]
    ) -> Iterator[tuple[_Place, Any]]:
        """What the rows of each step and group come to.

        :param few: the groups; None for all that the question is about.
        """
        statement = self._about(few, [column.label(name) for name, column in columns.items()])
        single = {}
        for number in parts:
            if len(self._parts[number].periods) == 1:
                single[self._parts[number].periods[0]] = number
                continue
            one_step = statement.group_by(sums.c.group_id)
            for row in self._connection.execute(one_step, {"periods": self._parts[number].periods}):
                yield _Place(number, row.group_id), row
        if single:
            # They are as they come out of one statement for all.
            each = statement.add_columns(sums.c.period_id).group_by(sums.c.period_id, sums.c.group_id)
            for row in self._connection.execute(each, {"periods": list(single)}):
                yield _Place(single[row.period_id], row.group_id), row

    def _about(self, few: Collection[int] | None, columns: Sequence[ColumnElement[Any]]) -> Select[Any]:
        statement = select(sums.c.group_id, *columns).where(sums.c.period_id.in_(bindparam("periods", expanding=True)))
        known = self._groups if few is None else few
        if len(known) <= _FEW:
            return statement.where(sums.c.group_id.in_(sorted(known)))
        return statement.join(groups, groups.c.id == sums.c.group_id).where(wanted_groups(self._question))

    def _rows(self, wanted: Mapping[int, Sequence[int]]) -> dict[_Place, UsageRow]:
        places = {_Place(part, group) for part, of_part in wanted.items() for group in of_part}
        few = {place.group for place in places}
        lasts = self._lasts(wanted, few) if self._question.level in _TELL_MORE else {}
        attributes = {last.attributes for last in lasts.values() if last.attributes is not None}
        described = described_by(self._connection, sorted(attributes))
        workloads = self._workloads(wanted)
        return {
            place: self._row(place, row, lasts.get(place, _Last()), described, workloads.get(place, 0))
            for place, row in self._read(sorted(wanted), few, _COLUMNS)
            if place in places
        }

    def _lasts(self, wanted: Iterable[int], few: Collection[int]) -> dict[_Place, _Last]:
        """What is no sum, and what the last of the hours and days say."""
        columns = [sums.c[name] for name in ("period_id", "histogram", "attributes_id", "status")]
        statement = self._about(few, columns)
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
        self, place: _Place, row: Any, last: _Last, described: Mapping[int, Described], workloads: int
    ) -> UsageRow:
        part = self._parts[place.part]
        values = sums_of(row)
        values.histogram = None if last.histogram is None else dict(last.histogram)
        values.workloads = max(values.workloads, workloads)
        said = _NOTHING if last.attributes is None else described[last.attributes]
        return UsageRow(
            id=(part.start // HOUR << STEP_BITS | self._step) << GROUP_BITS | place.group,
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
