"""Loops that start one step on each of several nodes, as scripts for Ray do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.importing.slurm.body_syntax import BodyWord, Statement
from gpuctl.importing.slurm.shell_values import Values
from gpuctl.importing.slurm.step_places import JobShape, NoPlace
from gpuctl.objects.quantities import whole_number

_NAME = r"(?P<name>[A-Za-z_]\w*)"
_DO = r"[ \t]*;?\s*do\b"
_FIRST = r"(?P<first>\d{1,4})"
_STEP = r"(?:(?P=name)\+\+|\+\+(?P=name)|(?P=name)[ \t]*\+=[ \t]*1)"
_FROM = rf"for[ \t]*\(\([ \t]*{_NAME}[ \t]*=[ \t]*{_FIRST}[ \t]*;"
_TO = rf"[ \t]*(?P=name)[ \t]*(?P<sign><=?)(?P<last>[^;]+);[ \t]*{_STEP}[ \t]*\)\)"
_LAST = r"(?P<last>\$\(\([^()]*\)\)|\"[^\"]+\"|[^\s;()]+)"
_IN = rf"for[ \t]+{_NAME}[ \t]+in[ \t]+"
_COUNTED = (
    f"{_FROM}{_TO}{_DO}",
    rf"{_IN}\$\([ \t]*seq[ \t]+(?:{_FIRST}[ \t]+)?{_LAST}[ \t]*\){_DO}",
    rf"{_IN}\{{{_FIRST}\.\.(?P<last>\d{{1,4}})\}}{_DO}",
)
_NUMBERED = rf"{_IN}\"?\$\{{!(?P<hosts>\w+)\[[@*]\]\}}\"?{_DO}"
_EACH = rf"{_IN}\"?\$\{{(?P<hosts>\w+)\[@\](?::(?P<first>\d{{1,4}}))?\}}\"?{_DO}"
_LISTED = rf"{_IN}(?P<words>[^\n;]*?){_DO}"
_ALL_OF_ARRAY = r"\"?\$\{(\w+)\[[@*]\]\}\"?\Z"
_ADDS_ONE = (
    r"(?P<name>[A-Za-z_]\w*)=\"?\$(?:\(\(|\[)[ \t]*\$?\{?(?P=name)\}?[ \t]*\+[ \t]*1[ \t]*(?:\)\)|\])\"?\Z"
    r"|(?:\(\(|let)[ \t]*[\"']?(?P<plain>[A-Za-z_]\w*)[ \t]*(?:\+\+|\+=[ \t]*1)[ \t]*[\"']?(?:\)\))?\Z"
)


class StepLoop(NamedTuple):
    """A loop. ``first``: the index of its first node, or the first number; ``runs``: how often it runs.

    ``is_number``: its variable is a number, not the name of a node. ``start`` and ``end``: the offsets of its body.
    ``counters``: variables that count its runs -> their first value.
    """

    name: str
    first: int
    runs: int
    is_number: bool
    start: int
    end: int
    counters: Mapping[str, int] = MappingProxyType({})

    @property
    def numbers(self) -> dict[str, int]:
        """The variables that count its runs -> their first value."""
        return {**self.counters, **({self.name: self.first} if self.is_number else {})}


def number_of_runs(written: str, shape: JobShape, values: Values, arrays: Mapping[str, BodyWord]) -> int | None:
    """Return how often a loop runs; None if its words are not known.

    :param written: the loop.
    :raises NoPlace: the bound of its counter is not known.
    """
    if (counted := _counted(written, shape, values)) is not None:
        return counted[1]
    listed = re.match(_LISTED, written)
    if listed is None:
        return None
    words = listed["words"].split()
    array = re.match(_ALL_OF_ARRAY, listed["words"].strip())
    if array is not None and array[1] in arrays:
        return len(arrays[array[1]].items or ())
    if len(words) == 1 and (name := re.match(r"\$\{?(\w+)\}?\Z", words[0])) is not None and name[1] in values:
        words = values[name[1]].text.split()
    return None if any(re.search(r"[$`*?\[{'\"]", word) for word in words) else len(words)


def loop_of(text: str, statement: Statement, shape: JobShape, values: Values) -> StepLoop | None:
    """Return the loop that a statement is; None if it is another construct.

    :raises NoPlace: it is not known how often it runs.
    """
    written = text[statement.start : statement.end]
    end = statement.start + len(written.rstrip()) - len("done")
    if not written.rstrip().endswith("done"):
        return None
    if (counted := _counted(written, shape, values)) is not None:
        match, count = counted
        return _loop(match, int(match["first"] or 1), count, True, statement.start, end)
    each = re.match(_EACH, written) or re.match(_NUMBERED, written)
    if each is None or each["hosts"] not in shape.hosts:
        return None
    first = int(each.groupdict().get("first") or 0)
    return _loop(each, first, shape.nodes - first, "first" not in each.groupdict(), statement.start, end)


def _counted(written: str, shape: JobShape, values: Values) -> tuple[re.Match[str], int] | None:
    """Return the head of a loop over numbers, and how often it runs; None if it is another loop."""
    for pattern in _COUNTED:
        match = re.match(pattern, written)
        if match is not None:
            last = _number(match["last"], shape, values)
            if last is None:
                raise NoPlace(f"it is not known how often `{match[0].split(chr(10))[0]}` runs")
            is_below = "sign" in match.groupdict() and match["sign"] == "<"
            return match, last - int(match["first"] or 1) + (not is_below)
    return None


def counter_of(written: str) -> str | None:
    """Return the variable to which a statement adds one; None if it does another thing."""
    match = re.match(_ADDS_ONE, written.strip())
    return match["name"] or match["plain"] if match is not None else None


def _loop(match: re.Match[str], first: int, count: int, is_number: bool, at: int, end: int) -> StepLoop:
    if count < 1:
        raise NoPlace("the loop runs on no node")
    return StepLoop(match["name"], first, count, is_number, at + match.end(), end)


def _number(written: str, shape: JobShape, values: Values) -> int | None:
    """Return the value of a bound such as ``$N``, ``N - 1`` or ``$((N - 1))``."""
    inner = re.match(r"\$\(\((.*)\)\)\Z", written.strip())
    text = (inner[1] if inner is not None else written).strip().strip('"')
    match = re.match(r"(\S+?)[ \t]*(?:-[ \t]*(\d{1,4}))?\Z", text)
    if match is None:
        return None
    raw = match[1]
    if re.match(r"[A-Za-z_]\w*\Z", raw):
        raw = f"${raw}"
    number = whole_number(shape.value(raw, values) or "")
    return None if number is None else number - int(match[2] or 0)
