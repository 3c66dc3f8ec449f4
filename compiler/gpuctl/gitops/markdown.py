"""Markdown for comments on pull requests."""

from __future__ import annotations

import re

from gpuctl.language.display_text import visible


def fold(summary: str, diff: str) -> str:
    """Return a diff folded under its summary; the fence is longer than any run of backquotes in the diff."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", diff)), default=0))
    return f"\n<details><summary>{summary}</summary>\n\n{fence}diff\n{diff}{fence}\n</details>\n"


def code(text: str) -> str:
    """Return a code span with any content. Source: CommonMark 0.31, 6.1."""
    text = visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}"


def code_cell(text: str) -> str:
    """Return a code span for a table, where GitHub splits cells also inside of code; "" for an empty text."""
    return code(text).replace("|", "\\|") if text else ""


def escaped(text: str) -> str:
    """Escape a text so that Markdown finds no markup, link or mention in it.

    GitHub and GitLab look for addresses and for an ``@name``, which sends notifications, after they have decoded
    escapes and entities: a zero-width space divides them.
    """
    shown = re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", visible(text))
    return re.sub(r"@|:(?=//)|www(?=\.)", r"\g<0>&#8203;", shown, flags=re.IGNORECASE)
