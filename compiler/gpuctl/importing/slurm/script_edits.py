"""Changes of a script's text that do not touch its other lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import NamedTuple

from gpuctl.frontend.shell_lexer import NotUnderstood, ShellLexer
from gpuctl.importing.slurm.text_places import LineBreaks


class VariableChange(NamedTuple):
    """A change of a line of the body, from 0.

    ``new``: what stands in the line now; "" if the variable ``name`` has no equal, so that it is empty.
    """

    line: int
    note: str
    new: str
    name: str = ""


def substitute(
    pattern: str,
    new: str | Callable[[re.Match[str]], str],
    text: str,
    note: str,
    changes: list[VariableChange],
    outside: Sequence[range] = (),
) -> str:
    """Return a text with a pattern replaced; add each change to the list.

    :param new: what replaces a match; the match itself is no change.
    :param outside: parts of the text that stay, in order.
    """
    breaks = LineBreaks(text)
    starts = [part.start for part in outside]

    def replaced(match: re.Match[str]) -> str:
        before = bisect_right(starts, match.start()) - 1
        if before >= 0 and match.start() in outside[before]:
            return match[0]
        written = new if isinstance(new, str) else new(match)
        if written == match[0]:
            return written
        changes.append(VariableChange(breaks.before(match.start()), note, written))
        return written

    return re.sub(pattern, replaced, text)


class ScriptEdits:
    """Replaces parts of a text. The parts do not overlap; an outer part replaces those inside."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str) -> None:
        """Replace a part."""
        self._edits.append((start, end, new))

    def blank(self, start: int, end: int) -> None:
        """Remove a part, but for its line breaks."""
        self.replace(start, end, "\n" * self.text.count("\n", start, end))

    def remove(self, start: int, end: int) -> None:
        """Remove a statement: its whole lines if nothing else is there, else write ``:``, which does nothing."""
        text = self.text
        while end < len(text) and text[end] in " \t":
            end += 1
        if text[end : end + 1] in ("&", ";") and text[end : end + 2] not in ("&&", ";;"):
            end += 1
        first = text.rfind("\n", 0, start) + 1
        rest = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)").match(text, end)
        if text[first:start].strip():
            self.replace(start, end, ":")
        elif rest is not None:
            self.replace(first, rest.end(), "")
        elif text[end - 1] == ";":
            blanks = re.compile(r"[ \t]*").match(text, end)
            self.replace(start, blanks.end() if blanks is not None else end, "")
        elif text[end - 1] == "\n":
            self.replace(first, end, "")
        else:
            self.replace(start, end, ":")

    def remaining(self, *, untouched: bool = False) -> str:
        """Return the text with blanks for the parts that are removed, or replaced by text without variables.

        :param untouched: blanks for all parts that are replaced.
        """
        kept = list(self.text)
        for first, last, new in self._edits:
            if untouched or "$" not in new:
                kept[first:last] = [char if char == "\n" else " " for char in kept[first:last]]
        return "".join(kept)

    def result(self) -> str:
        """Return the text with all changes."""
        return self.part(0, len(self.text))

    def part(self, start: int, end: int) -> str:
        """Return a part of the text with its changes."""
        out: list[str] = []
        at = start
        inside = (edit for edit in self._edits if start <= edit[0] and edit[1] <= end)
        for first, last, new in sorted(inside, key=lambda edit: (edit[0], -edit[1])):
            if first < at:
                continue
            out += [self.text[at:first], new]
            at = last
        return "".join([*out, self.text[at:end]])


def tidy_script(script: str) -> str:
    """Return a script of a shell without the indentation of all lines, blanks at their ends, and runs of empty lines.

    Words and here-documents keep each blank.
    """
    lexer = ShellLexer(script)
    try:
        list(lexer.tokens())
    except NotUnderstood:
        return script
    edits = ScriptEdits(script)
    kept: list[str] = []
    for part in lexer.texts:
        edits.replace(part.start, part.stop, f"\0{len(kept)}\0")
        kept.append(script[part.start : part.stop])
    script = re.sub(r"(?m)[ \t]+$", "", edits.result())
    # A literal block of YAML cannot begin a line with a tab.
    script = re.sub(r"(?m)^\t+", lambda match: "    " * len(match[0]), script)
    script = dedent(re.sub(r"\n{3,}", "\n\n", script).strip("\n")) + "\n"
    return re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], script)


def as_argument(script: str, variables: frozenset[str]) -> str:
    """Return a script as the argument of a program in a container, where Kubernetes replaces parts.

    :param variables: those of the container.
    """
    script = script.replace("$$", "$$$$")
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda m: f"${m[0]}" if m[1] in variables else m[0], script)
