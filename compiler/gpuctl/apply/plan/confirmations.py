"""What was confirmed of one plan, held against what another asks: a plan is made again before it is carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RUNTIME = r"\brunning for (?:\d+[dhms])+"


def all_confirmed(asked: Iterable[str], confirmed: Iterable[str]) -> bool:
    """Whether every question is one that was confirmed. For how long something has run grows while somebody answers,
    and makes no other question."""
    return set(map(_ageless, asked)) <= set(map(_ageless, confirmed))


def _ageless(question: str) -> str:
    return re.sub(_RUNTIME, "running", question)
