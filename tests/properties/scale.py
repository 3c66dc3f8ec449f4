"""The number of random examples: 1 is a whole run (`make test-all`, and pytest by default), ``GPUCTL_PROPERTIES=50``
fifty times as many. `make test` and `make test-fast` use less.

hypothesis makes new examples in each run. Fixed cases are always tested in full, except those that take minutes:
random clusters, calls at which a command is killed, and large documents. Of these a smaller run takes a part
(:func:`part_of`) that depends on the commit, never on the date: the same commit has the same tests every day.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from hypothesis import settings

SCALE = float(os.environ.get("GPUCTL_PROPERTIES") or 1)

Item = TypeVar("Item")


def scaled(number: int) -> int:
    """Return the share of a number that this run has; at least one."""
    return max(1, round(number * SCALE))


def at_least(number: int) -> int:
    """Return a number, or more of it in a larger run: with less of it a test would not hold."""
    return round(number * max(1, SCALE))


def examples(number: int) -> settings:
    """Return settings for a number of examples in a whole run. All others are those of the profile in conftest.py."""
    return settings(max_examples=scaled(number))


def share(items: Sequence[Item]) -> list[Item]:
    """Return all items, or in a smaller run as many of them as it has a share of, in their order."""
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


def part_of(items: Iterable[Item], parts: int) -> list[Item]:
    """Return all items, or in a smaller run one of so many parts of them, in their order: the one that the commit chooses.

    At least one item, if there are any.
    """
    every = list(items)
    if SCALE >= 1 or not every:
        return every
    order = list(range(len(every)))
    # Neighbours are alike: each part has some of all kinds.
    random.Random(4).shuffle(order)
    parts = min(parts, len(every))
    return [every[index] for index in sorted(order[int(tested_commit()[-4:] or "0", 16) % parts :: parts])]
