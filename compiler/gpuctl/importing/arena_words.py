"""The words of a command of Arena: flags, and the program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.importing.arena_options import SWITCHES, flag_name


class ArenaFlag(NamedTuple):
    """A flag as written, and its value; "true" for one without."""

    name: str
    value: str
    text: str
    lines: range


class ArenaWord(NamedTuple):
    """A word of the command line, with its lines."""

    text: str
    lines: range


def verb_place(words: Sequence[str]) -> int | None:
    """Return the place of ``submit`` or ``serve``, after options of the client; None if a command is another one."""
    if not words or words[0].rsplit("/", 1)[-1] != "arena":
        return None
    place = 1
    while place < len(words) and words[place].startswith("-"):
        name = words[place].lstrip("-")
        place += 1 if "=" in name or name in SWITCHES else 2
    return place if place < len(words) and words[place] in ("submit", "serve") else None


def split_flags(words: Sequence[ArenaWord]) -> tuple[list[ArenaFlag], list[ArenaWord]]:
    """Return the flags, and the words of the program."""
    flags: list[ArenaFlag] = []
    at = 0
    while at < len(words):
        word, lines = words[at]
        match = re.match(r"--?([A-Za-z][\w-]*)(?:=(.*))?\Z", word, re.DOTALL)
        if match is None:
            break
        name = flag_name(match[1])
        at += 1
        if match[2] is not None:
            flags.append(ArenaFlag(name, match[2], word, lines))
        elif name in SWITCHES:
            flags.append(ArenaFlag(name, "true", word, lines))
        elif at < len(words):
            both = range(lines.start, words[at].lines.stop)
            flags.append(ArenaFlag(name, words[at].text, f"{word} {words[at].text}", both))
            at += 1
        else:
            flags.append(ArenaFlag(name, "", word, lines))
    return flags, list(words[at + (at < len(words) and words[at].text == "--") :])
