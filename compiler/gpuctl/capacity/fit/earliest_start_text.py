"""Sentences about when a job will fit."""

from __future__ import annotations

from datetime import timedelta

from gpuctl.capacity.fit.verdicts import Opening
from gpuctl.objects.timestamps import parse_timestamp

_SHOWN = 3


def describe_opening(opening: Opening) -> str:
    """Return which work has to end, how long that takes at most, and the latest time."""
    works = [_told(item.namespace, item.job, item.at, opening.now) for item in opening.after]
    first, rest = works[:_SHOWN], works[_SHOWN:]
    if rest:
        first.append(f"{len(rest)} others")
    names = first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"
    have = "has" if len(works) == 1 else "have"
    return f"fits when {names} {have} ended, at {_clock(opening.at, opening.now)} at the latest"


def _told(namespace: str, job: str, at: str | None, now: str) -> str:
    title = f"{job} in {namespace}" if namespace != job else "work in other namespaces"
    return title if at is None else f"{title} (at most {_span(at, now)} more)"


def _span(at: str, now: str) -> str:
    """Format a duration, rounded up to minutes."""
    minutes = -int((parse_timestamp(now) - parse_timestamp(at)).total_seconds() // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def _clock(at: str, now: str) -> str:
    """Format a time, rounded up to minutes, with the date if it is another day."""
    moment = parse_timestamp(at)
    moment += timedelta(seconds=-moment.second % 60)
    return f"{moment:%H:%M} UTC" + ("" if moment.date() == parse_timestamp(now).date() else f" on {moment:%Y-%m-%d}")
