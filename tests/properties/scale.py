"""How much the properties try: ``GPUCTL_PROPERTIES=50`` tries fifty times as much as a normal run, ``0.2`` a fifth.

Examples that hypothesis makes are others in each run: what one does not try the next does. So CI, where a change is
accepted, tries twice as many of them as a run on somebody's own machine. What is the same in every run is tried in full,
but for random clusters, which take minutes of a real scheduler: of these each day has a half, and ``GPUCTL_PROPERTIES=1.1``
all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
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


def todays(seeds: Iterable[int], *always: int) -> list[int]:
    """Half of the seeds, the other half tomorrow, and those without which a test would not hold; all in a larger run."""
    every = sorted(seeds)
    if SCALE <= 1:
        # Of the worlds that there are both halves of this shuffle have some of every kind.
        random.Random(4).shuffle(every)
        every = every[datetime.now(timezone.utc).toordinal() % 2 :: 2]
    return sorted({*every, *always})
