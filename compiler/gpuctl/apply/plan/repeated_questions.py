"""Comparison of a repeated plan's questions with the confirmed ones: a plan is made again before it is carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuctl.apply.plan.lost_work import finished_ago, running_for

_MARK = "\0"
_AGE = r"(?:\d+[dhms])+"


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
    """Return a question without the ages in it, which follow the beginning of their sentence in the user's language."""
    for sentence in (running_for(_MARK), finished_ago(_MARK, "")):
        beginning = sentence.partition(_MARK)[0]
        question = re.sub(re.escape(beginning) + _AGE, beginning, question)
    return question
