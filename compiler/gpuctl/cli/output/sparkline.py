"""Sparklines: a series of values as one character each."""

from __future__ import annotations

import sys
from collections.abc import Iterable

BLOCKS, GAP = "▁▂▃▄▅▆▇█", "·"
PLAIN, PLAIN_GAP = "_.:-=+*#", "?"


def sparkline(values: Iterable[float | None], most: float, *, blocks: bool = True) -> str:
    """Return one character per value, higher for larger values; a dot for None.

    It contains no blanks, so that it is one word in a row of a table.

    :param most: the value of the highest character; the same for all lines of a table.
    """
    levels, gap = (BLOCKS, GAP) if blocks else (PLAIN, PLAIN_GAP)
    return "".join(gap if value is None else levels[_level(value, most, len(levels))] for value in values)


def _level(value: float, most: float, levels: int) -> int:
    share = value / most if most > 0 else 0.0
    return min(levels - 1, max(0, int(share * levels)))


def shows_blocks() -> bool:
    """Return True if standard output can encode the block characters; pipes and files are UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        (BLOCKS + GAP).encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True
