"""The times at which a cron expression matches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from gpuctl.language.cron import CronTimes, parse_cron

# Eight years without a 29 February occur around 2100.
_HORIZON_DAYS = 9 * 366


def next_time(text: str, zone: tzinfo, after: datetime) -> datetime | None:
    """Return the first time after ``after`` at which an expression matches, in UTC; None without one in nine years.

    :raises CronProblem: gpuctl does not read the expression.
    :raises NeverMatches: no day matches it.
    """
    # Runs begin at full minutes. A list asks for the next run of each scheduled job, again and again.
    return _next_time(text, zone, after.replace(second=0, microsecond=0))


@lru_cache(maxsize=1024)
def _next_time(text: str, zone: tzinfo, after: datetime) -> datetime | None:
    return next(_times_after(parse_cron(text), after, zone), None)


def _times_after(times: CronTimes, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Yield the matching times after one, in order, for at most nine years."""
    start = after.astimezone(zone).date()
    for offset in range(_HORIZON_DAYS):
        day = start + timedelta(days=offset)
        if not _is_on(times, day):
            continue
        for hour in sorted(times.hours):
            for minute in sorted(times.minutes):
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                exact = local.astimezone(timezone.utc)
                # A time that daylight saving skips does not exist.
                if exact > after and exact.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                    yield exact


def _is_on(times: CronTimes, day: date) -> bool:
    """Return True if a day matches. If both fields restrict the day, one of them is enough."""
    found = (day.day in times.days, day.isoweekday() % 7 in times.weekdays)
    return day.month in times.months and (all(found) if times.any_day else any(found))
