"""Spelling of keys: ``gpu-type``, ``gpu_type`` and ``gpuType`` are one key.

Keys are compared without ``-``, ``_`` and case. Each key has one canonical spelling: the model's alias. Keys that users
choose (labels, variables, nodes, users) are never folded.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import overload

from gpuctl.language.sentences import Sentence, say

SIMILAR = 0.6
"""Similarity of two words, as of ``difflib``, from which one may be a misspelt form of the other."""
_MOST_CANDIDATES = 500
"""Maximum number of candidates a word is compared with: a document can have thousands of both."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FOLDING = str.maketrans(_LETTERS.upper(), _LETTERS, "-_")


@lru_cache(maxsize=16384)
def fold(key: str) -> str:
    """Return a form that is equal for all spellings of one key. Only ASCII letters are case-folded."""
    return key.translate(_FOLDING)


def similar(word: str, candidates: Iterable[str], cutoff: float = SIMILAR) -> dict[str, float]:
    """Return the candidates that a misspelt ``word`` may mean, with their similarity (0 to 1), the nearest first.

    Folded texts are compared, so ``gpuTyp`` finds ``gpu-type``. The result does not depend on the candidates' order: of
    equally similar ones the last in the alphabet is first.
    """
    matcher = difflib.SequenceMatcher(b=fold(word))
    ratios = {}
    for candidate in candidates:
        matcher.set_seq1(fold(candidate))
        # The first two are upper bounds of the third, which is expensive.
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff and matcher.ratio() >= cutoff:
            ratios[candidate] = matcher.ratio()
    return dict(sorted(ratios.items(), key=itemgetter(1, 0), reverse=True))


def nearest(word: str, candidates: Iterable[str], cutoff: float = SIMILAR) -> str | None:
    """Return the candidate that a misspelt ``word`` most likely means; None if none is similar."""
    return next(iter(similar(word, islice(candidates, _MOST_CANDIDATES), cutoff)), None)


def all_nearest(word: str, candidates: Iterable[str]) -> list[str]:
    """Return, sorted, the candidates that are more similar to ``word`` than all others; empty if none is similar."""
    ratios = similar(word, candidates)
    return sorted(name for name, ratio in ratios.items() if ratio == max(ratios.values()))


def did_you_mean(word: str, candidates: Iterable[str]) -> Sentence | None:
    """Return the hint that names the :func:`nearest` candidate; None if none is similar."""
    return suggest_name(nearest(word, candidates))


@overload
def suggest_name(name: str) -> Sentence: ...
@overload
def suggest_name(name: str | None) -> Sentence | None: ...
def suggest_name(name: str | None) -> Sentence | None:
    """Return the hint that asks whether ``name`` was meant; None without a name."""
    return say("did you mean `{name}`?", name=name) if name is not None else None


def suggest_before(name: str | None, more: str) -> str:
    """Return the hint that asks whether ``name`` was meant, before another hint; only that one without a name."""
    return say("{near} {more}", near=suggest_name(name), more=more) if name is not None else more


def spelling_pattern(key: str) -> str:
    """Return a regular expression (ECMA 262, for JSON Schema) that matches every spelling of ``key``."""
    parts = []
    for letter in fold(key):
        parts.append(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter)
    return "^[-_]*" + "[-_]*".join(parts) + "[-_]*$"
