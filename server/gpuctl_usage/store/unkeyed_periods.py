"""Hours and days of before a label was one by which usage is grouped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, Select, select

from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.database_tables import groups, sums
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.store.usage_queries import RowQuery
from gpuctl_usage.sums import Level

_KEYED = frozenset({Level.LABEL, Level.ANNOTATION})


class UnkeyedPeriods:
    """What was held in them had no such label, as days have it that are added up: so that values add up to the cluster.

    :param known: the groups that are asked about: their keys, values and numbers.
    :ivar given: what a statement about them is given besides; nothing where there are none, nobody asks about a label,
        or about what has none.
    :ivar whole: the number of the cluster's rows, which tell what was held; ``unset``: of the value that it counts for.
    """

    def __init__(
        self,
        connection: Connection,
        question: RowQuery,
        parts: Sequence[KnownStep],
        known: Iterable[tuple[str, str, int]],
    ) -> None:
        self.given: dict[str, str] = {}
        self.whole = self.unset = 0
        unset = [number for _, value, number in known if value == UNSET]
        if question.level not in _KEYED or not unset:
            return
        of_cluster = groups.c.cluster_id == question.cluster, groups.c.level == Level.CLUSTER.value
        whole = connection.execute(select(groups.c.id).where(*of_cluster)).scalar_one_or_none()
        if whole is None:
            return
        self.whole, self.unset = whole, unset[0]
        of_key = (
            groups.c.cluster_id == question.cluster,
            groups.c.level == question.level.value,
            groups.c.key == question.key,
        )
        other = sums.alias("other")
        keyed = select(other.c.group_id).where(
            other.c.period_id == sums.c.period_id, other.c.group_id.in_(select(groups.c.id).where(*of_key))
        )
        held = select(sums.c.period_id).where(
            sums.c.group_id == whole,
            sums.c.period_id.in_(self.periods(connection)),
            sums.c.pods_max > 0,
            ~keyed.exists(),
        )
        among = _given(number for part in parts for number in part.periods)
        found = connection.execute(held, among).scalars().all()
        if found:
            self.given = _given(found)

    @staticmethod
    def periods(connection: Connection) -> Select[Any]:
        """The numbers that a statement is given."""
        return select(inline_table(connection, "unkeyed", {"period_id": Integer}).c.period_id)


def _given(numbers: Iterable[int]) -> dict[str, str]:
    return {"unkeyed": packed_rows((number,) for number in numbers)}
