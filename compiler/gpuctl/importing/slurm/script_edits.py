"""Changes of a script's text that do not touch its other lines."""

from __future__ import annotations

import re

_TEMPLATE = r"\{\{(?=\{\{|[ \t]*[A-Za-z][A-Za-z_-]*[ \t]*\.)"


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

    def result(self) -> str:
        """Return the text with all changes."""
        out: list[str] = []
        at = 0
        for start, end, new in sorted(self._edits, key=lambda edit: (edit[0], -edit[1])):
            if start < at:
                continue
            out += [self.text[at:start], new]
            at = end
        return "".join([*out, self.text[at:]])


def as_argument(script: str, variables: frozenset[str]) -> str:
    """Return a script as the argument of a shell in a container, where Kubernetes and templates replace parts.

    :param variables: those of the container.
    """
    script = "\n".join(line.rstrip() for line in script.split("\n"))
    script = re.sub(r"\n{3,}", "\n\n", script.strip("\n")) + "\n"
    script = script.replace("$$", "$$$$")
    script = re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda m: f"${m[0]}" if m[1] in variables else m[0], script)
    return re.sub(_TEMPLATE, "{{{{", script)
