"""Cron expressions as the CronJob controller reads them, and their check.

Source: ``github.com/robfig/cron/v3`` (``parser.go``, ``spec.go``), with which Kubernetes validates and runs CronJobs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from gpuctl.language.sentences import Sentence, Template, say

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class CronField(NamedTuple):
    """One of the five fields: its name, alone and with an article, its range, and the names of its values from the
    lowest on.
    """

    name: Template
    noun: Template
    low: int
    high: int
    names: tuple[str, ...] = ()


FIELDS = (
    CronField(Template("minute"), Template("a minute"), 0, 59),
    CronField(Template("hour"), Template("an hour"), 0, 23),
    CronField(Template("day of month"), Template("a day of month"), 1, 31),
    CronField(Template("month"), Template("a month"), 1, 12, _MONTHS),
    CronField(Template("day of week"), Template("a day of week"), 0, 6, _DAYS),
)


class CronProblem(ValueError):
    """The text is not a cron expression. ``hint``: what to write instead; None if that is unclear."""

    def __init__(self, message: Sentence, hint: Sentence | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NeverMatches(CronProblem):
    """No day matches the expression. Kubernetes accepts it all the same."""


class CronTimes(NamedTuple):
    """The values of each field that match. ``any_day``: the day of month or of week is not restricted by its field."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool


@lru_cache(maxsize=256)
def parse_cron(text: str) -> CronTimes:
    """Return the times of an expression.

    :raises CronProblem: the API server or the controller would not accept it, or it never matches.
    """
    if re.match(r"(?i)(CRON_)?TZ=", text):
        zone, _, rest = text.partition("=")[2].partition(" ")
        hint = say('write `cron: "{rest}"` and `timezone: {zone}`', rest=rest.strip(), zone=zone)
        raise CronProblem(say("a cron expression contains no time zone"), hint)
    if text.startswith("@"):
        return _parse_macro(text)
    words = text.split()
    if len(words) != len(FIELDS):
        names = [say(field.name) for field in FIELDS]
        five = words[:-1] if re.fullmatch(r"\d{4}", words[-1] if words else "") else words[1:]
        is_near = len(five) == len(FIELDS)
        advice = say("fields of seconds and years are not possible: write `{text}`", text=" ".join(five))
        message = say(
            "a cron expression has five fields ({names}), and this one has {number}", names=names, number=len(words)
        )
        raise CronProblem(message, advice if is_near else None)
    minutes, hours, days, months, weekdays = (_values(*pair) for pair in zip(words, FIELDS, strict=True))
    is_free = [any(_is_star(part) for part in words[place].split(",")) for place in (2, 4)]
    times = CronTimes(minutes, hours, days, months, weekdays, any(is_free))
    if times.any_day and not any(min(times.days) <= _LONGEST_MONTHS[month - 1] for month in times.months):
        raise NeverMatches(say("no such day exists: it would never run"), say("correct the day of month, or the month"))
    return times


def _parse_macro(text: str) -> CronTimes:
    if text in MACROS:
        return parse_cron(MACROS[text])
    if text.startswith("@every"):
        raise CronProblem(
            say("`@every` counts from the creation of the job"), say("write for example `{text}`", text="0 */6 * * *")
        )
    lower = text.strip().lower()
    hint = say("the macros are {names}", names=[f"`{name}`" for name in MACROS])
    raise CronProblem(say("there is no such macro"), say("write `{text}`", text=lower) if lower in MACROS else hint)


def _is_star(part: str) -> bool:
    base, slash, step = part.partition("/")
    return base in ("*", "?") and (not slash or step == "1")


def _values(word: str, field: CronField) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        found.update(_range(part, field))
    return frozenset(found)


def _range(part: str, field: CronField) -> range:
    """Return the values of ``*``, ``3``, ``1-5``, ``*/15``, ``1-5/2`` or ``3/10``."""
    base, slash, step = part.partition("/")
    first, hyphen, last = base.partition("-")
    if not part:
        raise CronProblem(
            say("the {field} has an empty item in its list", field=say(field.name)), say("remove the comma")
        )
    if slash and not _is_number(step):
        raise CronProblem(
            say("`{part}`: a step is a number of at least 1", part=part), say("write for example `{text}`", text="*/2")
        )
    if base in ("*", "?"):
        low, high = field.low, field.high
    else:
        low = _value(first, field)
        high = _value(last, field) if hyphen else field.high if slash else low
    if low > high:
        turned = f"{first}-{_name(field, field.high)},{_name(field, field.low)}-{last}".upper()
        message = say("`{part}`: the range of the {field} ends before it begins", part=part, field=say(field.name))
        raise CronProblem(message, say("write `{text}`", text=turned))
    return range(low, high + 1, int(step) if slash else 1)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"(?a)0*[1-9]\d{0,5}", text) is not None


def _name(field: CronField, value: int) -> str:
    return field.names[value - field.low].upper() if field.names else str(value)


def _value(text: str, field: CronField) -> int:
    lower = text.lower()
    if lower in field.names:
        return field.names.index(lower) + field.low
    if lower[:3] in field.names and lower.isalpha():
        message = say("`{text}` is not {field}", text=text, field=say(field.noun))
        raise CronProblem(message, say("write `{text}`", text=lower[:3].upper()))
    bounds: dict[str, object] = {"text": text, "field": say(field.noun), "low": field.low, "high": field.high}
    message = say("`{text}` is not {field}: {low}-{high}", **bounds)
    if field.names:
        named = {"first": field.names[0].upper(), "last": field.names[-1].upper()}
        message = say("`{text}` is not {field}: {low}-{high} or {first}-{last}", **bounds, **named)
    if re.fullmatch(r"(?a)\d{1,6}", text) is None:
        raise CronProblem(message)
    if not field.low <= int(text) <= field.high:
        raise CronProblem(message, say("Sunday is 0") if field.names is _DAYS and int(text) == 7 else None)
    return int(text)
