"""Durations: ``30s``, ``45m``, ``12h``, ``7d``, and sums of them such as ``1h30m``."""

from __future__ import annotations

import re

_DURATION = r"(?a)(?:\d+[dhms])+\Z"
_PART = r"(?a)(\d+)([dhms])"
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
LONGEST = 2**31 - 1


def parse_duration(text: str) -> int | None:
    """Whole seconds, or None when ``text`` is not a duration or does not fit Kubernetes' 32-bit fields."""
    if len(text) > 32 or re.match(_DURATION, text) is None:
        return None
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text))
    return seconds if seconds <= LONGEST else None


def rough_duration(seconds: float) -> str:
    """How long something took, in its largest unit of which there are two (of hours one): ``90s``, ``12m``, ``3h``."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= (size if unit == "h" else 2 * size):
            return f"{whole // size}{unit}"
    return f"{whole}s"


def format_duration(seconds: int) -> str:
    """The shortest text that ``parse_duration`` reads as ``seconds``: 5400 -> ``1h30m``."""
    if seconds == 0:
        return "0s"
    parts = []
    for unit, size in _SECONDS.items():
        if seconds >= size:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return "".join(parts)
