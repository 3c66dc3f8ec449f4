"""Comparison of a repeated plan's questions with the confirmed ones: a plan is made again before it is carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable

_AGE = r"(\b(?:running for|finished)|已运行|已结束) (?:\d+[dhms])+"
"""Ages in English and Chinese questions."""


def all_confirmed(asked: Iterable[str], confirmed: Iterable[str]) -> bool:
    """Return True if every question was confirmed. Ages (``running for 3h``, ``finished 2d ago``) are ignored, because
    they grow while the user reads the question.
    """
    return not unconfirmed(asked, confirmed)


def unconfirmed(asked: Iterable[str], confirmed: Iterable[str]) -> list[str]:
    """Return the questions that were not confirmed, apart from ages."""
    known = set(map(_ageless, confirmed))
    return [question for question in asked if _ageless(question) not in known]


def _ageless(question: str) -> str:
    return re.sub(_AGE, r"\1", question)
