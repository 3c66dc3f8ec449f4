"""Days, weeks and months of a time zone, rounded to full hours, the shortest stored period."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from enum import Enum
from zoneinfo import ZoneInfo

from gpuctl.language.sentences import say
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import next_hour
from gpuctl_usage.answers.query_scope import InvalidQuery

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")


class UnknownZone(InvalidQuery):
    """The time zone does not exist."""


class StepUnit(str, Enum):
    """Unit of the rows of an answer. Weeks begin on Monday; days begin at midnight, or at the first full hour (UTC)
    after it.
    """

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"
    """The whole range in one row."""


def zone_of(name: str) -> tzinfo:
    """Return a time zone.

    :param name: IANA name such as ``Asia/Shanghai``; "" for UTC.
    :raises UnknownZone: the time zone does not exist.
    """
    if name in ("", "UTC"):
        return timezone.utc
    try:
        if _NAME.fullmatch(name):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # ZoneInfo raises different errors for unknown names and for names of directories.
        pass
    raise UnknownZone(say("tz: time zone `{name}` does not exist; use a name such as Asia/Shanghai", name=name[:64]))


def bounds(start: float, end: float, step: StepUnit, zone: tzinfo) -> list[int]:
    """Return the ascending starts of the steps in [start, end), and the end of the last one.

    The first and last step are cut to the range. Days with a clock change have 23 or 25 hours.
    """
    first, last = next_hour(start), next_hour(end)
    if first >= last:
        return []
    if step is StepUnit.HOUR:
        return list(range(first, last + 1, HOUR))
    if step is StepUnit.TOTAL:
        # The first and the last representable hour have no date in some time zones.
        return [first, last]
    # A day that a zone skipped, such as 2011-12-30 in Samoa, has the same first moment as the next one.
    return sorted({first, *(time for time in _inner(first, last, step, zone) if first < time), last})


def _inner(first: int, last: int, step: StepUnit, zone: tzinfo) -> Iterator[int]:
    day = datetime.fromtimestamp(first, zone).date()
    while True:
        day = _following(day, step)
        # If midnight does not exist or occurs twice, this is the first moment of the day.
        begin = next_hour(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())
        while datetime.fromtimestamp(begin, zone).date() < day:
            # Clocks were set back just after midnight, as in Newfoundland until 2011.
            begin += HOUR
        if begin >= last:
            return
        yield begin


def _following(day: date, step: StepUnit) -> date:
    if step is StepUnit.DAY:
        return day + timedelta(days=1)
    if step is StepUnit.WEEK:
        return day + timedelta(days=7 - day.weekday())
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)
