"""Days, weeks and months of a time zone, as whole hours: nothing shorter is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from enum import Enum
from zoneinfo import ZoneInfo

from gpuctl_usage.answers.query_scope import InvalidQuery
from gpuctl_usage.facts import HOUR

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")


class UnknownZone(InvalidQuery):
    """There is no such time zone."""


class StepUnit(str, Enum):
    """What a row is of. A week begins on Monday, a day at midnight, or with the first whole hour (UTC) after it."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"
    """All that is asked about, in one row."""


def zone_of(name: str) -> tzinfo:
    """A time zone; of "" that is UTC.

    :param name: of the IANA database: ``Asia/Shanghai``.
    :raises UnknownZone: there is none of that name.
    """
    if name in ("", "UTC"):
        return timezone.utc
    try:
        if _NAME.fullmatch(name):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # No such zone; and names of directories.
        pass
    raise UnknownZone(f"tz: there is no time zone `{name[:64]}`; use a name such as Asia/Shanghai")


def next_hour(time: float) -> int:
    """The first whole hour at a time or after it."""
    return -int(-time // HOUR) * HOUR


def bounds(start: float, end: float, step: StepUnit, zone: tzinfo) -> list[int]:
    """Where steps begin of the hours that begin in [start, end), and where the last one ends; ascending.

    The first and the last are cut. A day has 23 or 25 hours where the clocks are changed.
    """
    first, last = next_hour(start), next_hour(end)
    if first >= last:
        return []
    if step is StepUnit.HOUR:
        return list(range(first, last + 1, HOUR))
    return [first, *(time for time in _inner(first, last, step, zone) if first < time < last), last]


def _inner(first: int, last: int, step: StepUnit, zone: tzinfo) -> Iterator[int]:
    day = datetime.fromtimestamp(first, zone).date()
    while step is not StepUnit.TOTAL:
        day = _following(day, step)
        # Of a midnight that is left out, or comes twice, it is the first moment of the day.
        begin = next_hour(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())
        if begin >= last:
            return
        yield begin


def _following(day: date, step: StepUnit) -> date:
    if step is StepUnit.DAY:
        return day + timedelta(days=1)
    if step is StepUnit.WEEK:
        return day + timedelta(days=7 - day.weekday())
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)
