"""Durations: ``30s``, ``45m``, ``12h``, ``7d``, and sums of them such as ``1h30m``."""

from __future__ import annotations

import re
from functools import lru_cache

HOUR, DAY = 3600, 86400
"""Seconds."""
_DURATION = r"(?a)(?:\d+[dhms])+\Z"
_PART = r"(?a)(\d+)([dhms])"
_SECONDS = {"d": DAY, "h": HOUR, "m": 60, "s": 1}
_UNITS: dict[str, float] = {
    **dict.fromkeys(("ms", "msec", "millisecond"), 0.001),
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hr", "hour"), HOUR),
    **dict.fromkeys(("d", "day"), DAY),
    **dict.fromkeys(("w", "wk", "week"), 7 * DAY),
    **dict.fromkeys(("mo", "month"), 30 * DAY),
    "秒": 1,
    "分": 60,
    "分钟": 60,
    "时": HOUR,
    "小时": HOUR,
    "天": DAY,
    "日": DAY,
    "周": 7 * DAY,
    **dict.fromkeys(("y", "yr", "year"), 365 * DAY),
}
MAX_CHECKPOINT_SECONDS = HOUR
"""Longest checkpoint, seconds: the deletion of a job may have to wait for it."""
MAX_SECONDS = 2**31 - 1


@lru_cache(maxsize=1024)
def parse_duration(text: str, most: float = MAX_SECONDS) -> int | None:
    """Return whole seconds; None if ``text`` is not a duration or exceeds ``most``: Kubernetes' fields have 32 bits."""
    if len(text) > 32 or re.match(_DURATION, text) is None:
        return None
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text))
    return seconds if seconds <= most else None


def suggest_duration(text: str) -> str | None:
    """Return the duration that ``1w``, ``2 days``, ``1.5h``, ``90 min`` or ``24:00:00`` most likely means; None for
    other text.

    The shortest duration is a second.
    """
    clock = re.fullmatch(r"(?a)(?:(\d{1,4})-)?(\d{1,4}):(\d\d):(\d\d)", text)
    if clock is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        total = days * DAY + hours * HOUR + minutes * 60 + seconds
        return format_duration(total) if 0 < total <= MAX_SECONDS else None
    match = re.fullmatch(r"(?a)\s*(\d{1,9}(?:\.\d{1,3})?)\s*([a-zA-Z\u4e00-\u9fff]+)\s*", text)
    written = match[2].lower() if match else ""
    unit = _UNITS.get(written, _UNITS.get(written.removesuffix("s")))
    if match is None or unit is None or float(match[1]) == 0:
        return None
    seconds = max(1, round(float(match[1]) * unit))
    return format_duration(seconds) if seconds <= MAX_SECONDS else None


def is_too_long(text: str) -> bool:
    """Return True for a duration that no Kubernetes field can hold."""
    return re.match(_DURATION, text) is not None and parse_duration(text) is None


def rough_duration(seconds: float) -> str:
    """Return a duration in its largest unit with a value of at least 2 (1 for hours): ``90s``, ``12m``, ``3h``."""
    whole = max(0, int(seconds))
    for unit, size in (("d", DAY), ("h", HOUR), ("m", 60)):
        if whole >= (size if unit == "h" else 2 * size):
            return f"{whole // size}{unit}"
    return f"{whole}s"


def format_duration(seconds: int) -> str:
    """Return the shortest text that ``parse_duration`` reads as ``seconds``: 5400 -> ``1h30m``."""
    if seconds == 0:
        return "0s"
    parts = []
    for unit, size in _SECONDS.items():
        if seconds >= size:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return "".join(parts)
