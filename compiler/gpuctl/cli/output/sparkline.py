"""Sparklines: how something went, in as many characters as there were steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

BLOCKS, GAP = "▁▂▃▄▅▆▇█", "·"
PLAIN, PLAIN_GAP = "_.:-=+*#", "?"


def sparkline(values: Iterable[float | None], most: float, *, blocks: bool = True) -> str:
    """A character for each value, the higher the more; what is not known is a dot in the middle.

    It has no blanks, so that it is one word of a table's row.

    :param most: what the highest character stands for: lines below each other are of one scale.
    """
    levels, gap = (BLOCKS, GAP) if blocks else (PLAIN, PLAIN_GAP)
    return "".join(gap if value is None else levels[_level(value, most, len(levels))] for value in values)


def _level(value: float, most: float, levels: int) -> int:
    share = value / most if most > 0 else 0.0
    return min(levels - 1, max(0, int(share * levels)))


def shows_blocks(stream: Any = None) -> bool:
    """Whether a stream (standard output unless another is given) has the characters; pipes and files are UTF-8."""
    encoding = getattr(stream if stream is not None else sys.stdout, "encoding", None) or "utf-8"
    try:
        (BLOCKS + GAP).encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True
