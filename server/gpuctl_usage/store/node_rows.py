"""Rows of nodes: their sums stand packed beside each hour and day, and are added up here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import add
from typing import Any

from sqlalchemy import Connection, bindparam, select

from gpuctl_usage.facts import HOUR, KeptTime
from gpuctl_usage.store.kept_parts import Part
from gpuctl_usage.store.packing import unpack_columns, unpack_numbers
from gpuctl_usage.store.step_rows import STEP_BITS
from gpuctl_usage.store.tables import groups, periods
from gpuctl_usage.store.usage_queries import (
    GROUP_BITS,
    Place,
    Question,
    RowOrder,
    UsageRow,
    order_key,
    place_of,
    wanted_groups,
)
from gpuctl_usage.sums import OF_HELD, OF_THERE, Group, Sums

_OF_LEDGER = (*OF_HELD, *OF_THERE)
_TOLD = (
    *(*_OF_LEDGER, "running_gpu_s"),
    *("memory_obs_gpu_s", "memory_used_gpu_s", "memory_total_gpu_s", "pod_s"),
)
"""What is known of nodes over several hours: what is added up."""
_AT_ONCE = 32
"""Hours or days that are added up together: fewer take longer, more take more memory."""

_Columns = list[list[float]]


class NodeRows:
    """The rows of nodes that answer a question.

    :param step: the number of the kind of step, less than eight: rows of different kinds have different ids.
    """

    def __init__(self, connection: Connection, question: Question, parts: Sequence[Part], step: int) -> None:
        self._connection = connection
        self._question = question
        self._parts = parts
        self._step = step
        columns = groups.c.id, groups.c.key, groups.c.value
        named = connection.execute(select(*columns).where(wanted_groups(question))).all()
        self._groups = {number: Group(question.level, key, value) for number, key, value in named}
        self._sums: dict[int, dict[int, Sums]] = {}
        self._told = _OF_LEDGER if question.sums_only else _TOLD

    def count(self) -> int:
        """How many there are."""
        packed = select(periods.c.id, periods.c.nodes).where(periods.c.id.in_(bindparam("periods", expanding=True)))
        every = [period for part in self._parts for period in part.periods]
        rows = self._connection.execute(packed, {"periods": every})
        there = {period: self._groups.keys() & unpack_numbers(nodes) for period, nodes in rows}
        return sum(len(set().union(*(there[period] for period in part.periods))) for part in self._parts)

    def find(self, limit: int, offset: int = 0, after: Place | None = None) -> list[UsageRow]:
        """Some of them, in the order of the question, those after a place."""
        key = None if after is None else order_key(self._question, after)
        by_time = self._question.order is RowOrder.TIME
        order: Iterable[int] = range(len(self._parts))
        found: list[UsageRow] = []
        for number in order if self._question.ascending or not by_time else reversed(range(len(self._parts))):
            if by_time and len(found) >= offset + limit:
                break
            found += [row for row in self._rows(number) if key is None or self._key(row) > key]
        return sorted(found, key=self._key)[offset : offset + limit]

    def _key(self, row: UsageRow) -> tuple[Any, ...]:
        return order_key(self._question, place_of(self._question, row))

    def kept_times(self, _: Collection[int]) -> dict[int, list[KeptTime]]:
        """None is needed: capacities of nodes are their own."""
        return {}

    def _rows(self, number: int) -> list[UsageRow]:
        of_part = self._of_part(number)
        return [self._row(self._parts[number], node, of_part[node]) for node in sorted(of_part, key=self._name)]

    def _name(self, node: int) -> str:
        return self._groups[node].value

    def _row(self, part: Part, node: int, sums: Sums) -> UsageRow:
        return UsageRow(
            id=(part.start // HOUR << STEP_BITS | self._step) << GROUP_BITS | node,
            start=part.start,
            end=part.end,
            seconds=part.seconds,
            known_from=part.known_from,
            known_until=part.known_until,
            created_at=part.created_at,
            updated_at=part.updated_at,
            provisional=part.provisional,
            group=self._groups[node],
            sums=sums,
            labels={},
            annotations={},
            status=None,
        )

    def _of_part(self, number: int) -> dict[int, Sums]:
        if number not in self._sums:
            packed = select(periods.c.nodes).where(periods.c.id.in_(bindparam("periods", expanding=True)))
            # Most often the nodes are the same: whole columns are added.
            alike: dict[tuple[int, ...], list[_Columns]] = defaultdict(list)
            for one in self._connection.execute(packed, {"periods": self._parts[number].periods}).scalars().all():
                ids, columns = unpack_columns(one, self._told)
                same = alike[tuple(ids)]
                same.append(columns)
                if len(same) == _AT_ONCE:
                    same[:] = [_added(same)]
            totals: dict[int, tuple[float, ...]] = {}
            for nodes, same in alike.items():
                of_nodes = dict(zip(nodes, zip(*_added(same), strict=True), strict=True))
                both = totals.keys() & of_nodes.keys()
                totals |= of_nodes | {node: tuple(map(add, totals[node], of_nodes[node])) for node in both}
            ours = {node: dict[str, Any](zip(self._told, values, strict=True)) for node, values in totals.items()}
            self._sums[number] = {node: Sums(**values) for node, values in ours.items() if node in self._groups}
        return self._sums[number]


def _added(several: Iterable[_Columns]) -> _Columns:
    return [list(map(sum, zip(*same, strict=True))) for same in zip(*several, strict=True)]
