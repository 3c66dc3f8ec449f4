"""Spelling of keys: ``gpu-type``, ``gpu_type`` and ``gpuType`` are one key.

Keys are compared without ``-``, ``_`` and case. Each key has one canonical spelling: the model's alias. Keys that users
choose (labels, variables, nodes, users) are never folded.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from gpuctl.language.sentences import Sentence, say

_MOST_CANDIDATES = 500
"""Maximum number of candidates a word is compared with: a document can have thousands of both."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FOLDING = str.maketrans(_LETTERS.upper(), _LETTERS, "-_")


@lru_cache(maxsize=4096)
def fold(key: str) -> str:
    """Return a form that is equal for all spellings of one key. Only ASCII letters are case-folded."""
    return key.translate(_FOLDING)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that a misspelt ``word`` most likely means; None if none is similar.

    Folded texts are compared, so ``gpuTyp`` finds ``gpu-type``. Of equally similar candidates the first one is
    returned, which keeps messages deterministic.
    """
    by_fold: dict[str, str] = {}
    for candidate in islice(candidates, _MOST_CANDIDATES):
        by_fold.setdefault(fold(candidate), candidate)
    found = difflib.get_close_matches(fold(word), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str]) -> Sentence | None:
    """Return the hint that names the :func:`nearest` candidate; None if none is similar."""
    close = nearest(word, candidates)
    return say("did you mean `{name}`?", name=close) if close else None


def spelling_pattern(key: str) -> str:
    """Return a regular expression (ECMA 262, for JSON Schema) that matches every spelling of ``key``."""
    parts = []
    for letter in fold(key):
        parts.append(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter)
    return "^[-_]*" + "[-_]*".join(parts) + "[-_]*$"
