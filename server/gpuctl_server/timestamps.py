"""Times as clients write them in a query."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_TIME = re.compile(
    r"(?a)(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s?(?:([Zz])|([+ -]?)(\d\d:\d\d))?\Z",
)
EXAMPLE = "2024-06-01T10:00:00Z"


class InvalidTime(ValueError):
    """A text that is no time; ``str()`` is for people."""


def parse_time(text: str) -> datetime:
    """A time of RFC 3339, in UTC; without a time zone it is UTC's.

    In a query ``+`` stands for a space, so that a space before the zone's hours counts as ``+``.

    :raises InvalidTime: it is none.
    """
    match = _TIME.match(text)
    if match is None:
        raise InvalidTime(f"`{text[:80]}` is no time such as {EXAMPLE}")
    day, time, fraction, _, sign, zone = match.groups()
    offset = "+00:00" if zone is None else f"{'-' if sign == '-' else '+'}{zone}"
    try:
        found = datetime.fromisoformat(f"{day}T{time}.{(fraction or '0')[:6]:0<6}{offset}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise InvalidTime(f"`{text[:80]}` is no time such as {EXAMPLE}") from None
    return found


def format_time(when: datetime) -> str:
    """A time in UTC as answers have it, to the second."""
    return when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
