"""Selection of the hours and days that make up a longer step: final days where possible, otherwise hours."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from gpuctl.objects.durations import DAY
from gpuctl_usage.store.database_tables import periods
from gpuctl_usage.store.hours import KnownFrom, PeriodLength, between


class KnownStep(NamedTuple):
    """A step with its stored hours and days.

    :param start: start of the step, whether or not all of it is stored; likewise ``end``.
    :param seconds: known length of the stored part.
    :param periods: ids of hours and days in order of time, without overlap; ``times``: for each of them the known start
        and end, and whether it is a day.
    """

    start: int
    end: int
    seconds: float
    created_at: float
    updated_at: float
    provisional: bool
    periods: tuple[int, ...]
    times: tuple[tuple[float, float, bool], ...]

    @property
    def known_from(self) -> float:
        """Return the start of the known part."""
        return min(start for start, _, _ in self.times)

    @property
    def known_until(self) -> float:
        """Return the end of the known part."""
        return max(end for _, end, _ in self.times)


class _Period(NamedTuple):
    id: int
    start: int
    seconds: float
    created_at: float
    updated_at: float
    provisional: bool
    is_day: bool
    known_from: float

    @property
    def time(self) -> tuple[float, float, bool]:
        return self.known_from, self.known_from + self.seconds, self.is_day


def known_range(connection: Connection, cluster: int) -> tuple[int, int] | None:
    """Return the earliest start and latest end of a cluster's stored periods; None if it has none."""
    ends = [
        select(choose(periods.c.start)).where(_of(cluster, span)).scalar_subquery()
        for choose in (func.min, func.max)
        for span in PeriodLength
    ]
    firsts_and_lasts = list(connection.execute(select(*ends)).one())
    size = len(PeriodLength)
    firsts = [time for time in firsts_and_lasts[:size] if time is not None]
    lasts = [
        time + span.seconds
        for time, span in zip(firsts_and_lasts[size:], PeriodLength, strict=True)
        if time is not None
    ]
    return (min(firsts), max(lasts)) if firsts else None


def known_steps(connection: Connection, cluster: int, bounds: Sequence[int]) -> list[KnownStep]:
    """Return the steps with stored periods.

    :param bounds: starts of the steps and the end of the last one: full hours, ascending.
    """
    if len(bounds) < 2:
        return []
    days = {day.start: day for day in _read(connection, cluster, PeriodLength.DAY, *_whole_days(bounds))}
    within = [day for day in days.values() if _index(bounds, day.start) == _index(bounds, day.start + DAY - 1)]
    final = {day.start for day in within if not day.provisional}
    hours = [
        hour for gap in _gaps_between(bounds, final) for hour in _read(connection, cluster, PeriodLength.HOUR, *gap)
    ]
    # Days with stored hours. A provisional day is used only if its hours have expired.
    known = {hour.start // DAY * DAY for hour in hours}
    chosen = [*hours, *(day for day in within if day.start in final or day.start not in known)]
    by_place: dict[int, list[_Period]] = defaultdict(list)
    for period in sorted(chosen, key=attrgetter("start")):
        by_place[_index(bounds, period.start)].append(period)
    return [_part(bounds[place], bounds[place + 1], by_place[place]) for place in sorted(by_place)]


def _part(start: int, end: int, of_step: Sequence[_Period]) -> KnownStep:
    return KnownStep(
        start,
        end,
        seconds=sum(period.seconds for period in of_step),
        created_at=min(period.created_at for period in of_step),
        updated_at=max(period.updated_at for period in of_step),
        provisional=any(period.provisional for period in of_step),
        periods=tuple(period.id for period in of_step),
        times=tuple(period.time for period in of_step),
    )


def _index(bounds: Sequence[int], time: int) -> int:
    return bisect_right(bounds, time) - 1


def _whole_days(bounds: Sequence[int]) -> tuple[int, int]:
    """Return the range of days that lie completely within the bounds."""
    return -(-bounds[0] // DAY) * DAY, bounds[-1] // DAY * DAY


def _gaps_between(bounds: Sequence[int], days: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges between the days."""
    begin = bounds[0]
    for day in sorted(days):
        if begin < day:
            yield begin, day
        begin = day + DAY
    if begin < bounds[-1]:
        yield begin, bounds[-1]


def _of(cluster: int, span: PeriodLength) -> ColumnElement[bool]:
    return (periods.c.cluster_id == cluster) & (periods.c.span == span.value)


def _read(connection: Connection, cluster: int, span: PeriodLength, start: int, end: int) -> list[_Period]:
    if start >= end:
        return []
    columns, known = [periods.c[name] for name in _Period._fields[:-2]], KnownFrom(connection, cluster)
    rows = connection.execute(
        select(*columns).where(between(cluster, span, start, end)).order_by(periods.c.start)
    ).all()
    return [_Period._make((*row, span is PeriodLength.DAY, known.of(span, row.start, row.seconds))) for row in rows]
