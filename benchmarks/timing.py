"""Wall time and CPU time of commands; other load on the machine affects CPU time less."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class Taken(NamedTuple):
    """Seconds: ``wall`` time, and ``cpu`` time of the process and its children."""

    wall: float
    cpu: float

    def __add__(self, other: tuple[float, ...]) -> Taken:  # type: ignore[override]
        return Taken(*(one + two for one, two in zip(self, other, strict=True)))


def timed(command: Sequence[str], codes: Collection[int] = (0,)) -> Taken:
    """Run a command, which must exit with one of ``codes``; its output is discarded."""
    before, start = os.times(), time.perf_counter()
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall, after = time.perf_counter() - start, os.times()
    if result.returncode not in codes:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr[-2000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(wall, cpu)


def piped(first: Sequence[str], second: Sequence[str]) -> Taken:
    """Run two commands as a pipe; both must succeed."""
    before, start = os.times(), time.perf_counter()
    with subprocess.Popen(first, stdout=subprocess.PIPE) as source:
        subprocess.run(second, stdin=source.stdout, stdout=subprocess.DEVNULL, check=True)
    if source.returncode:
        raise RuntimeError(f"{' '.join(first)}: exit code {source.returncode}")
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(wall, cpu)


def alternate(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> tuple[list[Taken], list[Taken]]:
    """Run both commands ``rounds`` times, alternating which one is first."""
    mine, others = [], []
    for number in range(rounds):
        if number % 2:
            others.append(timed(theirs))
        mine.append(timed(ours))
        if not number % 2:
            others.append(timed(theirs))
    return mine, others


def medians(taken: Iterable[Taken]) -> Taken:
    """Return the medians of wall and CPU time."""
    return Taken(*map(statistics.median, zip(*taken, strict=True)))


def seconds(ours: Taken, theirs: Taken, digits: int = 1) -> str:
    """Return both times for a row: ``(0.10 s / 0.05 s, CPU 0.09 s / 0.05 s)``."""
    walls, cpus = (f"{one:.{digits}f} s / {two:.{digits}f} s" for one, two in zip(ours, theirs, strict=True))
    return f"({walls}, CPU {cpus})"
