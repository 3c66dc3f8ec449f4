"""Places in the text of a script, found in one pass over it."""

from __future__ import annotations

import re
from bisect import bisect_left

_PART = r"\\.|'[^']*'|\"[^\"$]*\"|[^()'\"\\]"
_COMMAND = rf"\$\((?:{_PART}|\((?:{_PART})*\))*\)"
"""A command substitution, in which quotation marks count anew."""
_QUOTED = rf"\\.|\"(?:\\.|{_COMMAND}|\$(?!\()|[^\"\\$])*\"|\"(?:\\.|[^\"\\])*\"|'[^']*'|(?<!\S)#[^\n]*"
QUOTED = r"'[^']*'"
"""Text between single quotation marks."""
_USE = r"\$\{?[#!]?([A-Za-z_]\w*)"
_WORD = r"[A-Za-z_]\w*"
FIRST_LINE = (
    r"(?:head[ \t]+-(?:n[ \t]*|-lines[= ])?1|sed[ \t]+-n[ \t]+['\"]?1p['\"]?"
    r"|awk[ \t]+'NR[ \t]*==[ \t]*1(?:[ \t]*\{[ \t]*print(?:[ \t]+\$[01])?[ \t]*\})?')"
)
"""A command that prints the first line of its input."""
_DOCUMENT = r"[ \t]*<<-?[ \t]*(?:[\"'](?P<quoted>[^\"'\n]+)[\"']|\\?(?P<bare>[\w.-]+))[ \t]*\n"
_QUOTED_DOCUMENT = (
    r"(?m)<<-?[ \t]*(?:(?P<mark>[\"'])(?P<quoted>[^\"'\n]+)(?P=mark)|\\(?P<bare>[\w.-]+))[^\n]*\n"
    r"(?:.*\n)*?\t*(?:(?P=quoted)|(?P=bare))$"
)
"""A here-document that the script's shell leaves as it is."""


def reference(name: str) -> str:
    """Return the pattern of ``$NAME`` and ``${NAME}``, without a brace that closes another expansion.

    :param name: a pattern.
    """
    return rf"\$(?:\{{(?:{name})\}}|(?:{name})\b)"


def outside_quotes(pattern: str, new: str, text: str) -> str:
    """Replace a pattern outside of single quotation marks, whose text another shell reads."""

    def replaced(match: re.Match[str]) -> str:
        if match["found"] is None:
            return match[0]
        # The rest of an expansion such as `${MASTER_ADDR%%.*}` stays.
        return new if match[0].startswith("$") else new.removeprefix("$")

    return re.sub(rf"{QUOTED}|(?P<found>{pattern})", replaced, text)


def end_of_document(text: str, offset: int) -> int | None:
    """Return the offset behind the here-document of a command, which ends its line; None if it has none.

    :param offset: the end of the command's words.
    """
    opening = re.compile(_DOCUMENT).match(text, offset)
    if opening is None:
        return None
    end = re.escape(opening["quoted"] or opening["bare"])
    closing = re.compile(rf"^\t*{end}$\n?", re.MULTILINE).search(text, opening.end())
    return closing.end() if closing is not None else None


class LineBreaks:
    """The line breaks of a text."""

    def __init__(self, text: str) -> None:
        self._places = [match.start() for match in re.finditer("\n", text)]

    def before(self, offset: int) -> int:
        """Return the number of line breaks before an offset."""
        return bisect_left(self._places, offset)

    def lines(self, start: int, end: int) -> range:
        """Return the lines that a part of the text is on, from 1."""
        return range(self.before(start) + 1, self.before(end - 1) + 2)


def single_quoted_parts(text: str) -> list[range]:
    """Return the places of text between single quotation marks, in order."""
    found = []
    for match in re.finditer(_QUOTED, text, re.DOTALL):
        if match[0].startswith("'"):
            found.append(range(match.start(), match.end()))
        for inner in re.finditer(_COMMAND, match[0]) if match[0].startswith('"') else ():
            at = match.start() + inner.start() + 1
            found += [range(at + part.start, at + part.stop) for part in single_quoted_parts(inner[0][1:])]
    return found


def parts_read_later(text: str) -> list[range]:
    """Return the places of text that the script's shell passes on: in single quotation marks or here-documents."""
    found = [range(*match.span()) for match in re.finditer(_QUOTED_DOCUMENT, text)]
    quoted = single_quoted_parts(text)
    quoted = [part for part in quoted if not any(part.start in document for document in found)]
    return sorted([*found, *quoted], key=lambda part: part.start)


class VariableUses:
    """The first and the last place where a script uses each variable."""

    def __init__(self, text: str) -> None:
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        for match in re.finditer(_USE, text):
            self._add(match[1], match.start())
        # Arithmetic such as `$((N - 1))` uses names without a dollar sign.
        at = 0
        for line in text.split("\n"):
            for part in line.split("="):
                for word in re.finditer(_WORD, part[: max(part.rfind("))"), 0)]):
                    self._add(word[0], at + word.start())
                at += len(part) + 1

    def _add(self, name: str, place: int) -> None:
        self._first[name] = min(self._first.get(name, place), place)
        self._last[name] = max(self._last.get(name, place), place)

    def is_before(self, name: str, offset: int) -> bool:
        """Return True if the script uses a variable before an offset."""
        return name in self._first and self._first[name] < offset

    def is_behind(self, name: str, offset: int) -> bool:
        """Return True if the script uses a variable at or behind an offset."""
        return name in self._last and self._last[name] >= offset
