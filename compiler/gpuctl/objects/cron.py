"""Cron expressions as the CronJob controller reads them, and their check.

Source: ``github.com/robfig/cron/v3`` (``parser.go``, ``spec.go``), with which Kubernetes validates and runs CronJobs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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
    """One of the five fields: its name, its range, and the names of its values from the lowest on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of month", 1, 31),
    CronField("month", 1, 12, _MONTHS),
    CronField("day of week", 0, 6, _DAYS),
)


class CronProblem(ValueError):
    """The text is not a cron expression. ``hint``: what to write instead; None if that is unclear."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


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
        hint = f'write `cron: "{rest.strip()}"` and `timezone: {zone}`'
        raise CronProblem("a cron expression contains no time zone", hint)
    if text.startswith("@"):
        return _parse_macro(text)
    words = text.split()
    if len(words) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        five = words[:-1] if re.fullmatch(r"\d{4}", words[-1] if words else "") else words[1:]
        is_near = len(five) == len(FIELDS)
        advice = f"fields of seconds and years are not possible: write `{' '.join(five)}`" if is_near else None
        raise CronProblem(f"a cron expression has five fields ({names}), and this one has {len(words)}", advice)
    minutes, hours, days, months, weekdays = (_values(*pair) for pair in zip(words, FIELDS, strict=True))
    is_free = [any(_is_star(part) for part in words[place].split(",")) for place in (2, 4)]
    times = CronTimes(minutes, hours, days, months, weekdays, any(is_free))
    if times.any_day and not any(min(times.days) <= _LONGEST_MONTHS[month - 1] for month in times.months):
        raise CronProblem("no such day exists: it would never run", "correct the day of month, or the month")
    return times


def _parse_macro(text: str) -> CronTimes:
    if text in MACROS:
        return parse_cron(MACROS[text])
    known = ", ".join(f"`{name}`" for name in MACROS)
    if text.startswith("@every"):
        raise CronProblem("`@every` counts from the creation of the job", "write for example `0 */6 * * *`")
    lower = text.strip().lower()
    raise CronProblem("there is no such macro", f"write `{lower}`" if lower in MACROS else f"the macros are {known}")


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
        raise CronProblem(f"the {field.name} has an empty item in its list", "remove the comma")
    if slash and not _is_number(step):
        raise CronProblem(f"`{part}`: a step is a number of at least 1", "write for example `*/2`")
    if base in ("*", "?"):
        low, high = field.low, field.high
    else:
        low = _value(first, field)
        high = _value(last, field) if hyphen else field.high if slash else low
    if low > high:
        turned = f"{first}-{_name(field, field.high)},{_name(field, field.low)}-{last}".upper()
        raise CronProblem(f"`{part}`: the range of the {field.name} ends before it begins", f"write `{turned}`")
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
        raise CronProblem(f"`{text}` is not a {field.name}", f"write `{lower[:3].upper()}`")
    noun = f"{'an' if field.name == 'hour' else 'a'} {field.name}"
    names = f" or {field.names[0].upper()}-{field.names[-1].upper()}" if field.names else ""
    message = f"`{text}` is not {noun}: {field.low}-{field.high}{names}"
    if re.fullmatch(r"(?a)\d{1,6}", text) is None:
        raise CronProblem(message)
    if not field.low <= int(text) <= field.high:
        raise CronProblem(message, "Sunday is 0" if field.names is _DAYS and int(text) == 7 else None)
    return int(text)
