"""Timestamps as the API writes them: RFC 3339, in UTC."""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo

from gpuctl.objects.durations import HOUR, rough_duration

_FRACTION = re.compile(r"\.(\d+)")


def parse_timestamp(text: str, zone: tzinfo | None = timezone.utc) -> datetime:
    """Parse an RFC 3339 time; digits below a microsecond are cut off.

    :param zone: the zone of a time that names none. None: the local zone.
    :raises ValueError: the text is not a time.
    """
    # Before Python 3.11 `fromisoformat` takes no Z, and only three or six digits of a second.
    text = _FRACTION.sub(lambda match: f".{match[1][:6]:0<6}", text.replace("Z", "+00:00").replace("z", "+00:00"))
    found = datetime.fromisoformat(text)
    if found.tzinfo is None and zone is not None:
        found = found.replace(tzinfo=zone)
    try:
        in_utc = found.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"{text!r} is not in the years 1 to 9999 in UTC") from None
    return found if found.tzinfo is not None else in_utc


def seconds_of(text: object) -> float | None:
    """Return a timestamp as seconds since 1970; None for any other value."""
    try:
        return parse_timestamp(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def format_timestamp(time: datetime | float, timespec: str = "seconds") -> str:
    """Return a time, or the seconds since 1970, as RFC 3339 in UTC; smaller units than ``timespec`` are cut off."""
    moment = time if isinstance(time, datetime) else datetime.fromtimestamp(time, timezone.utc)
    return moment.astimezone(timezone.utc).isoformat(timespec=timespec).removesuffix("+00:00") + "Z"


def next_hour(time: float) -> int:
    """Return the first full hour of UTC at or after a time, both in seconds since 1970."""
    return -int(-time // HOUR) * HOUR


def age(timestamp: str | None, now: float) -> str:
    """Return the time since an API timestamp: ``45s``, ``12m``, ``3h``, ``2d``.

    :param now: by the clock of the API server, which set the timestamp; seconds since 1970.
    """
    if not timestamp:
        return "unknown time"
    return rough_duration(now - parse_timestamp(timestamp).timestamp())
