"""Values of words that are known before a script runs: constants of the script, and variables of gpuctl."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.importing.slurm.body_syntax import BodyWord

_REFERENCE = r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<plain>[A-Za-z_]\w*))"
_ALL_ITEMS = r"\"\$\{([A-Za-z_]\w*)\[@\]\}\"\Z"
_GLOB = frozenset("*?[~{")
_MOST_WORDS = 1000
_LONGEST = 16384
LONGEST_COMMAND = 65536
"""Maximum length of the known words of a command; variables that contain each other could make gigabytes of it."""


class Value(NamedTuple):
    """The value of a variable.

    ``text`` has ``$(NAME)`` for a variable of the pod, as Kubernetes replaces it; ``items`` are the words of an array.
    """

    text: str
    items: tuple[str, ...] | None = None


Values = Mapping[str, Value]


def word_value(raw: str, values: Values) -> str | None:
    """Return the value of a word as written, with its quotation marks; None if it is not known, or very long.

    A dollar sign that Kubernetes must not replace is escaped.
    """
    out: list[str] = []
    at = length = 0
    is_quoted = False
    while at < len(raw):
        char, following = raw[at], raw[at + 1 : at + 2]
        part, end = char, at + 1
        if char == '"':
            part, is_quoted = "", not is_quoted
        elif char == "'" and not is_quoted:
            end = raw.find("'", at + 1) + 1
            if end == 0:
                return None
            part = raw[at + 1 : end - 1].replace("$(", "$$(")
        elif char == "\\":
            stays = is_quoted and following not in ('"', "\\", "$", "`", "\n")
            part, end = "" if following == "\n" else char * stays + following, at + 2
        elif char == "$":
            # `$'\t'` is a tab, `$"text"` a translation.
            found = _reference(raw, at, values) if is_quoted or following not in ("'", '"') else None
            if found is None or (not is_quoted and re.search(r"[\s*?]", found[0])):
                return None
            part, end = found
        elif char == "`" or (not is_quoted and char in _GLOB):
            return None
        out.append(part)
        length += len(part)
        at = end
        if length > LONGEST_COMMAND:
            return None
    return None if is_quoted else "".join(out)


def _reference(raw: str, at: int, values: Values) -> tuple[str, int] | None:
    match = re.compile(_REFERENCE).match(raw, at)
    if match is None:
        # A dollar sign alone is text.
        return None if raw[at + 1 : at + 2].strip("\"' ") else ("$", at + 1)
    name = match["braced"] or match["plain"]
    if name in values and values[name].items is None:
        return values[name].text, match.end()
    return (f"$({name})", match.end()) if name in RESERVED_ENV else None


def words_of(text: str, words: Sequence[BodyWord], values: Values) -> list[str] | None:
    """Return the values of a command's words; None if one is not known, or if they are very long."""
    found: list[str] = []
    counted = length = 0
    for word in words:
        length += sum(map(len, found[counted:]))
        counted = len(found)
        if counted > _MOST_WORDS or length > LONGEST_COMMAND:
            return None
        raw = text[word.start : word.end]
        array = re.match(_ALL_ITEMS, raw)
        name = array[1] if array is not None else ""
        if name in values:
            found += values[name].items or (values[name].text,)
            continue
        if "IFS" in values and "$" in raw:
            # The shell splits values at other characters than blanks.
            return None
        split = _split_value(raw, values)
        value = word_value(raw, values) if split is None else None
        if split is None and value is None:
            return None
        found += split if split is not None else [str(value)]
    return found if len(found) <= _MOST_WORDS and sum(map(len, found)) <= LONGEST_COMMAND else None


def _split_value(raw: str, values: Values) -> list[str] | None:
    """Return the words of an unquoted ``$NAME``, which a shell splits; None if the word is not one."""
    match = re.match(_REFERENCE + r"\Z", raw)
    name = (match["braced"] or match["plain"]) if match is not None else ""
    if name not in values or values[name].items is not None:
        return None
    text = values[name].text
    return None if set(text) & set("*?[~\"'\\") else text.split()


def constant_of(text: str, word: BodyWord, values: Values) -> Value | None:
    """Return the value that an assignment gives; None if it is not known."""
    raw = text[word.start : word.end]
    name, _, value = raw.partition("=")
    if not name.isidentifier():
        return None
    if word.items is not None:
        items = words_of(text, [BodyWord(text[start:end], start, end) for start, end in word.items], values)
        return None if items is None else Value("", tuple(items))
    known = word_value(value, values)
    return None if known is None or len(known) > _LONGEST else Value(known)
