"""The project's documents for tests: their text, fenced blocks and tables.

In a document a fenced block can carry a note, an HTML comment on the line above it:

``file: NAME``
    the block is that file; commands after it find it.
``output: COMMAND``
    the block is what the command prints. A line ``# ...`` stands for any lines; ``output: python`` means the
    Python block before it.
``from: PATH``
    the block stands in that source file, word for word.
``install``
    the block installs a published release.
``collected``, ``deployed``
    in the document on operations: ``tests/usage/test_usage_pages.py`` types it, or looks for what it deploys.
``cluster``, ``changes``
    in the library's document: the block needs a cluster, and ``tests/cluster/test_library_why_fit.py`` runs it, or
    ``test_library.py`` where it changes one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Block:
    """A fenced block: its note (empty without one), its language and its text."""

    note: str
    language: str
    text: str

    def note_after(self, prefix: str) -> str | None:
        """Return the text of the note after ``prefix``; None for another note."""
        return self.note.removeprefix(prefix).strip() if self.note.startswith(prefix) else None


def read(document: str) -> str:
    """The text of a document of the repository."""
    return (ROOT / document).read_text(encoding="utf-8")


FENCED = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(document: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    found = FENCED.finditer(read(document))
    return [Block(match["note"] or "", match["language"], match["text"]) for match in found]


def prose(document: str) -> str:
    """A document without its fenced blocks."""
    return FENCED.sub("", read(document))


def rows(document: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, without their heads."""
    section = prose(document).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?m)^\|.*\n\|[-|: ]+\n((?:\|.*\n?)*)", section)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def assert_output(shown: str, real: str) -> None:
    """``shown`` is ``real``, or its parts between ``# ...`` occur in it in order, as whole lines."""
    if "# ...\n" not in shown:
        assert shown == real
        return
    rest = f"\n{real}"
    for part in shown.split("# ...\n"):
        _, found, rest = rest.partition(f"\n{part}")
        assert found, f"not in the output, or not in this place:\n{part}"
        rest = f"\n{rest}"
    assert shown.startswith("# ...\n") or real.startswith(shown.partition("# ...\n")[0])
    assert shown.endswith("# ...\n") or rest == "\n", f"the output goes on:\n{rest}"
