"""Times in query parameters and answers."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from gpuctl.language.sentences import say
from gpuctl.objects.timestamps import parse_timestamp

_TIME = re.compile(
    r"(?a)(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s?(?:([Zz])|([+ -]?)(\d\d:\d\d))?\Z",
)
EXAMPLE = "2024-06-01T10:00:00Z"


class InvalidTime(ValueError):
    """A text is not a valid time; ``str()`` is a message for the user."""


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time. Without a time zone it is UTC.

    In a query string ``+`` stands for a space, so a space before the offset counts as ``+``.

    :raises InvalidTime: the text is not a time.
    """
    match = _TIME.match(text)
    if match is None:
        raise InvalidTime(say("`{text}` is not a time such as {example}", text=text[:80], example=EXAMPLE))
    day, time, fraction, _, sign, zone = match.groups()
    offset = "+00:00" if zone is None else f"{'-' if sign == '-' else '+'}{zone}"
    try:
        return parse_timestamp(f"{day}T{time}.{fraction or '0'}{offset}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise InvalidTime(say("`{text}` is not a time such as {example}", text=text[:80], example=EXAMPLE)) from None
