"""Rows of nodes: their sums stand packed beside each hour and day, and are added up here."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any

from sqlalchemy import Connection, bindparam, select

from gpuctl_usage.facts import HOUR
from gpuctl_usage.store.kept_parts import Part
from gpuctl_usage.store.numbering import group_of
from gpuctl_usage.store.packing import unpack_columns
from gpuctl_usage.store.step_rows import STEP_BITS
from gpuctl_usage.store.tables import groups, periods
from gpuctl_usage.store.usage_queries import GROUP_BITS, Question, RowOrder, UsageRow, wanted_groups
from gpuctl_usage.sums import Sums

_TOLD = (
    *("alloc_gpu_s", "running_gpu_s", "cap_gpu_s", "free_gpu_s", "unusable_gpu_s", "obs_gpu_s", "util_gpu_s"),
    *("memory_obs_gpu_s", "memory_used_gpu_s", "memory_total_gpu_s", "pod_s"),
)
"""What is known of nodes over several hours: what is added up."""


class NodeRows:
    """The rows of nodes that answer a question.

    :param step: the number of the kind of step, less than eight: rows of different kinds have different ids.
    """

    def __init__(self, connection: Connection, question: Question, parts: Sequence[Part], step: int) -> None:
        self._connection = connection
        self._question = question
        self._parts = parts
        self._step = step
        columns = (groups.c[name] for name in ("id", "level", "key", "value"))
        self._groups = {
            row.id: group_of(row) for row in connection.execute(select(*columns).where(wanted_groups(question)))
        }
        self._sums: dict[int, dict[int, Sums]] = {}

    def count(self) -> int:
        """How many there are."""
        return sum(len(self._of_part(number)) for number in range(len(self._parts)))

    def find(self, limit: int, offset: int = 0) -> list[UsageRow]:
        """Some of them, in the order of the question."""
        order = range(len(self._parts))
        if self._question.order is not RowOrder.TIME:
            rows = [row for number in order for row in self._rows(number)]
            return sorted(rows, key=self._by_value)[offset : offset + limit]
        found: list[UsageRow] = []
        for number in order if self._question.ascending else reversed(order):
            if len(found) >= offset + limit:
                break
            found += self._rows(number)
        return found[offset : offset + limit]

    def capacities(self) -> dict[int, float]:
        """Those of nodes are their own."""
        return {}

    def _by_value(self, row: UsageRow) -> tuple[bool, float]:
        by_use = self._question.order is RowOrder.UTILIZATION
        amount, over = (row.sums.util_gpu_s, row.sums.obs_gpu_s) if by_use else (row.sums.alloc_gpu_s, row.seconds)
        value = amount / over if over > 0 else 0.0
        return over <= 0, value if self._question.ascending else -value

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
            totals: dict[int, tuple[float, ...]] = {}
            for one in self._connection.execute(packed, {"periods": self._parts[number].periods}).scalars():
                ids, columns = unpack_columns(one, _TOLD)
                for node, values in zip(ids, zip(*columns, strict=True), strict=True):
                    known = totals.get(node)
                    totals[node] = values if known is None else tuple(map(add, known, values))
            ours = {node: dict[str, Any](zip(_TOLD, values, strict=True)) for node, values in totals.items()}
            self._sums[number] = {node: Sums(**values) for node, values in ours.items() if node in self._groups}
        return self._sums[number]
