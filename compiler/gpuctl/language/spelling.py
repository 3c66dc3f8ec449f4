"""Spelling of keys: ``gpu-type``, ``gpu_type`` and ``gpuType`` are one key.

Keys are matched after removing ``-`` and ``_`` and the case. Each key has one canonical spelling: the model's
alias. Keys that users invent (labels, env names, nodes, users) are never folded.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

_MOST_CANDIDATES = 500
"""Candidates that a word is compared with: a document can have thousands of words and of candidates."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FOLDING = str.maketrans(_LETTERS.upper(), _LETTERS, "-_")


@lru_cache(maxsize=4096)
def fold(key: str) -> str:
    """The form under which two spellings of one key are equal. Only ASCII letters have two cases here."""
    return key.translate(_FOLDING)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate a misspelt ``word`` most likely means, or None when nothing is close.

    The comparison is on folded text, so ``gpuTyp`` finds ``gpu-type``. The first of equally near candidates wins,
    which keeps messages deterministic.
    """
    by_fold: dict[str, str] = {}
    for candidate in islice(candidates, _MOST_CANDIDATES):
        by_fold.setdefault(fold(candidate), candidate)
    found = difflib.get_close_matches(fold(word), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def spelling_pattern(key: str) -> str:
    """A regular expression (ECMA 262, as JSON Schema wants it) that matches every spelling of ``key``."""
    parts = []
    for letter in fold(key):
        parts.append(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter)
    return "^[-_]*" + "[-_]*".join(parts) + "[-_]*$"
