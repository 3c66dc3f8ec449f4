"""Sentences about when a job will fit."""

from __future__ import annotations

from datetime import timedelta

from gpuctl.capacity.fit.verdicts import Opening
from gpuctl.language.sentences import say
from gpuctl.objects.timestamps import parse_timestamp

_SHOWN = 3


def describe_opening(opening: Opening) -> str:
    """Return which work has to end, how long that takes at most, and the latest time."""
    works: list[str] = [_told(item.namespace, item.job, item.at, opening.now) for item in opening.after]
    first, rest = works[:_SHOWN], works[_SHOWN:]
    if rest:
        first.append(say("{number:other}", number=len(rest)))
    return say(
        "fits when {works:list} {number:has/have} ended, at {time} at the latest",
        works=first,
        number=len(works),
        time=_clock(opening.at, opening.now),
    )


def _told(namespace: str, job: str, at: str | None, now: str) -> str:
    title = (
        say("{job} in {namespace}", job=job, namespace=namespace)
        if namespace != job
        else say("work in other namespaces")
    )
    return title if at is None else say("{job} (at most {time} more)", job=title, time=_span(at, now))


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
    time = f"{moment:%H:%M} UTC"
    if moment.date() == parse_timestamp(now).date():
        return time
    return say("{time} on {date}", time=time, date=f"{moment:%Y-%m-%d}")
