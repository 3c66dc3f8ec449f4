"""Parsing of the values of Slurm's options: times, memory, generic resources, arrays."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.importing.field_values import Gpus, gpus_of, short_duration
from gpuctl.language.array_block import MOST_RUNS
from gpuctl.objects.durations import MAX_SECONDS

_UNITS = {"K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}
_TIME = r"(?a)(?:(?P<days>\d{1,9})-)?(?P<rest>\d{1,9}(?::\d{1,9}){0,2})\Z"


class ArrayRange(NamedTuple):
    """The indices of an array. ``parallelism``: how many run at a time, None without a limit, as for `%0`."""

    indices: list[int]
    parallelism: int | None

    @property
    def step(self) -> int | None:
        """The distance of the indices; None if it is not the same everywhere."""
        steps = {after - before for before, after in zip(self.indices, self.indices[1:], strict=False)} or {1}
        return steps.pop() if len(steps) == 1 else None


def duration_of(text: str) -> str | None:
    """Return a time limit as a duration; "" if there is no limit, or a very long one, None if the text is not a time.

    Formats: minutes, minutes:seconds, hours:minutes:seconds, and after the days: hours, hours:minutes,
    hours:minutes:seconds.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1", "0"):
        return ""
    match = re.match(_TIME, text)
    if match is None:
        return None
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, parts[0], parts[1] if len(parts) == 2 else 0
    total = ((int(match["days"] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return short_duration(total) if total <= MAX_SECONDS else ""


def memory_of(text: str, times: int = 1) -> str | None:
    """Return an amount of memory as a quantity, multiplied; "" for all of the node, None if it is not an amount."""
    match = re.match(r"(?a)(\d{1,15})([KMGT]?)B?\Z", text.strip(), re.IGNORECASE)
    if match is None:
        return None
    number = int(match[1]) * times
    if number == 0:
        return ""
    return f"{number}{_UNITS[match[2].upper() or 'M']}"


def gpus_of_gres(text: str) -> tuple[Gpus | None, list[str]]:
    """Return the GPUs of ``--gres``, and its other resources as written."""
    found: Gpus | None = None
    others = []
    for item in filter(None, text.split(",")):
        kind, _, rest = item.removeprefix("gres/").replace("=", ":").partition(":")
        gpus = Gpus(1, None) if not rest else gpus_of(rest)
        if kind == "gpu" and gpus is not None and found is None:
            found = gpus
        else:
            others.append(item)
    return found, others


def array_of(text: str) -> ArrayRange | None:
    """Return the indices of ``--array``, such as ``0-99%8``, ``1-10:2`` or ``1,3,7``; None if it is not valid."""
    match = re.match(r"(?a)([\d,:-]+)(?:%(\d{1,9}))?\Z", text.strip("[]"))
    if match is None:
        return None
    indices: set[int] = set()
    for item in match[1].split(","):
        part = re.match(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\Z", item)
        if part is None:
            return None
        first, last, step = int(part[1]), int(part[2] or part[1]), int(part[3] or 1)
        if step == 0 or last < first or (last - first) // step >= MOST_RUNS:
            return None
        indices.update(range(first, last + 1, step))
        if len(indices) > MOST_RUNS:
            return None
    return ArrayRange(sorted(indices), int(match[2] or 0) or None)
