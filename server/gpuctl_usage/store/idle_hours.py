"""Hourly and total sums of single groups, to find idle workloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Integer, func, select

from gpuctl_usage.store.database_tables import groups, periods, sums
from gpuctl_usage.store.hours import KnownFrom, PeriodLength, between
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.period_selection import KnownStep
from gpuctl_usage.sums import Group, Level

_AT_ONCE = 500


class GroupSums(NamedTuple):
    """Sums of a group over an hour or a range: GPU-seconds held and measured, and percent times GPU-seconds."""

    start: int
    alloc_gpu_s: float
    obs_gpu_s: float
    util_gpu_s: float

    @property
    def idle(self) -> float:
        """Return the GPU-seconds measured as idle."""
        return self.obs_gpu_s - self.util_gpu_s / 100


class KnownHour(NamedTuple):
    """An hour with the start and end of its known part."""

    start: int
    known_from: float
    known_until: float


def known_hours(connection: Connection, cluster: int, start: float, end: float) -> list[KnownHour]:
    """Return the stored hours that begin in [start, end), latest first."""
    known = KnownFrom(connection, cluster)
    rows = connection.execute(
        select(periods.c.start, periods.c.seconds)
        .where(between(cluster, PeriodLength.HOUR, start, end))
        .order_by(periods.c.start.desc())
    )
    moments = ((row.start, known.of(PeriodLength.HOUR, row.start, row.seconds), row.seconds) for row in rows)
    return [KnownHour(hour, first, first + seconds) for hour, first, seconds in moments]


def sums_by_hour(
    connection: Connection, cluster: int, numbers: Sequence[int], start: float, end: float
) -> Iterator[tuple[int, GroupSums]]:
    """Yield the sums of each group id for each hour that begins in [start, end)."""
    columns = (sums.c.group_id, periods.c.start, *_SUMMED)
    for few in _portions(numbers):
        statement = select(*columns).select_from(periods).join(sums, sums.c.period_id == periods.c.id)
        found = connection.execute(
            statement.where(between(cluster, PeriodLength.HOUR, start, end), sums.c.group_id.in_(few))
        )
        for number, *values in found.all():
            yield number, GroupSums(*values)


def sums_together(connection: Connection, numbers: Sequence[int], chosen: Iterable[KnownStep]) -> dict[int, GroupSums]:
    """Sum all hours and days of steps for each group id."""
    ids = packed_rows([period for step in chosen for period in step.periods])
    given = inline_table(connection, "wanted", {"number": Integer})
    columns = [func.sum(column).label(column.name) for column in _SUMMED]
    found: dict[int, GroupSums] = {}
    for few in _portions(numbers):
        source = given.join(sums, sums.c.period_id == given.c.number)
        statement = select(sums.c.group_id, *columns).select_from(source).where(sums.c.group_id.in_(few))
        for row in connection.execute(statement.group_by(sums.c.group_id), {"wanted": ids}):
            found[row.group_id] = GroupSums(0, row.alloc_gpu_s, row.obs_gpu_s, row.util_gpu_s)
    return found


def groups_at(connection: Connection, cluster: int, level: Level) -> dict[int, Group]:
    """Return all groups of a level by id."""
    wanted = groups.c.cluster_id == cluster, groups.c.level == level.value
    rows = connection.execute(select(groups.c.id, groups.c.key, groups.c.value).where(*wanted))
    return {row.id: Group(level, row.key, row.value) for row in rows}


_SUMMED = (sums.c.alloc_gpu_s, sums.c.obs_gpu_s, sums.c.util_gpu_s)


def _portions(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    return (numbers[start : start + _AT_ONCE] for start in range(0, len(numbers), _AT_ONCE))
