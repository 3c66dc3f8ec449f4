"""Periods that were rolled up before a label key was configured for grouping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, Select, select

from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.database_tables import groups, sums
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.store.usage_queries import RowQuery
from gpuctl_usage.sums import KEYED, Level


class UnkeyedPeriods:
    """Periods without rows of the query's key. All GPU time held in them counts as unset, so that the values add up to
    the cluster (as in rolled-up days).

    :param known: keys, values and ids of the query's groups. :ivar given: additional statement parameters; empty if
    there are no such periods, the query has no label key, or the unset value is not wanted. :ivar whole: group id of
    the cluster, whose rows have the held time; ``unset``: group id of the unset value.
    """

    def __init__(
        self,
        connection: Connection,
        query: RowQuery,
        parts: Sequence[KnownStep],
        known: Iterable[tuple[str, str, int]],
    ) -> None:
        self.given: dict[str, str] = {}
        self.whole = self.unset = 0
        unset = [number for _, value, number in known if value == UNSET]
        if query.level not in KEYED or not unset:
            return
        of_cluster = groups.c.cluster_id == query.cluster, groups.c.level == Level.CLUSTER.value
        whole = connection.execute(select(groups.c.id).where(*of_cluster)).scalar_one_or_none()
        if whole is None:
            return
        self.whole, self.unset = whole, unset[0]
        of_key = (
            groups.c.cluster_id == query.cluster,
            groups.c.level == query.level.value,
            groups.c.key == query.key,
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
        """Return a select of the period ids in the statement's parameters."""
        return select(inline_table(connection, "unkeyed", {"period_id": Integer}).c.period_id)


def _given(numbers: Iterable[int]) -> dict[str, str]:
    return {"unkeyed": packed_rows(numbers)}
