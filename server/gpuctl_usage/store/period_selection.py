"""Of which hours and days a longer time is added up: of days that are final, otherwise of hours."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from gpuctl_usage.facts import DAY
from gpuctl_usage.store.database_tables import periods
from gpuctl_usage.store.hours import KnownFrom, PeriodLength


class KnownStep(NamedTuple):
    """A step, as far as something of it is kept.

    :param start: where it begins, however much of it is kept; likewise ``end``.
    :param seconds: how much there has been of what is kept.
    :param periods: numbers of hours and days, the earliest first, each part of the time once; ``times``: from when to
        when each of them is known, and whether it is a day.
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
        """The first moment of which something is kept."""
        return min(start for start, _, _ in self.times)

    @property
    def known_until(self) -> float:
        """The last moment of which something is kept."""
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
    """From when to when anything is kept of a cluster, at most; None where nothing is."""
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
    """Steps of which anything is kept.

    :param bounds: where they begin, and where the last one ends: whole hours, ascending.
    """
    if len(bounds) < 2:
        return []
    days = {day.start: day for day in _read(connection, cluster, PeriodLength.DAY, *_whole_days(bounds))}
    within = [day for day in days.values() if _place(bounds, day.start) == _place(bounds, day.start + DAY - 1)]
    final = {day.start for day in within if not day.provisional}
    hours = [hour for gap in _gaps(bounds, final) for hour in _read(connection, cluster, PeriodLength.HOUR, *gap)]
    # A day that is open again is read as it was where its hours are not kept any more.
    known = {hour.start // DAY * DAY for hour in hours}
    chosen = [*hours, *(day for day in within if day.start in final or day.start not in known)]
    by_place: dict[int, list[_Period]] = defaultdict(list)
    for period in sorted(chosen, key=attrgetter("start")):
        by_place[_place(bounds, period.start)].append(period)
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


def _place(bounds: Sequence[int], time: int) -> int:
    return bisect_right(bounds, time) - 1


def _whole_days(bounds: Sequence[int]) -> tuple[int, int]:
    """The days of which all is asked about: from the first one on, before the end of the last one."""
    return -(-bounds[0] // DAY) * DAY, bounds[-1] // DAY * DAY


def _gaps(bounds: Sequence[int], days: Iterable[int]) -> Iterator[tuple[int, int]]:
    """What is between days."""
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
    between = _of(cluster, span), periods.c.start >= start, periods.c.start < end
    rows = connection.execute(select(*columns).where(*between).order_by(periods.c.start)).all()
    return [_Period._make((*row, span is PeriodLength.DAY, known.of(span, row.start, row.seconds))) for row in rows]
