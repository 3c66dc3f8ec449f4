"""How much the property tests try: ``GPUCTL_PROPERTIES=50`` tries fifty times as much as a normal run, ``0.2`` a fifth.

hypothesis makes new examples in each run, and CI tries twice as many as a run on a developer's machine. Fixed cases are
always tried in full, except random clusters, which take minutes of a real scheduler: a commit tries half of them
(``GPUCTL_PROPERTIES=1.1``: all). The half depends on the commit, never on the date: the same commit has the same tests
on every day.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings

SCALE = float(os.environ.get("GPUCTL_PROPERTIES") or 1)
_SHARE = 1.0 if os.environ.get("CI") or SCALE > 1 else 0.5

Item = TypeVar("Item")


def scaled(number: int) -> int:
    """What is a number in a normal run; at least one."""
    return max(1, round(number * SCALE))


def at_least(number: int) -> int:
    """What is a number in a normal run and in a smaller one: with less of it a test would not hold."""
    return round(number * max(1, SCALE))


def examples(number: int) -> settings:
    """Settings for a number of examples in a normal run of CI."""
    most = max(1, round(number * SCALE * _SHARE))
    return settings(max_examples=most, deadline=None, suppress_health_check=list(HealthCheck))


def share(items: Sequence[Item]) -> list[Item]:
    """All items, or in a smaller run as many of them as it has a share of, in their order."""
    if SCALE >= 1:
        return list(items)
    chosen = random.Random(len(items)).sample(range(len(items)), scaled(len(items)))
    return [items[index] for index in sorted(chosen)]


@cache
def tested_commit() -> str:
    """Return the hash of the checked-out commit; an empty string outside of a git repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--verify", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip()


def half(seeds: Iterable[int], *always: int) -> list[int]:
    """Return the half of the seeds that the tested commit chooses, and those in ``always``; all seeds in a larger run."""
    every = sorted(seeds)
    if SCALE <= 1:
        # Either half of this shuffle has worlds of every kind.
        random.Random(4).shuffle(every)
        first = int(tested_commit()[-1:] or "0", 16) % 2
        every = every[first::2]
    return sorted({*every, *always})
