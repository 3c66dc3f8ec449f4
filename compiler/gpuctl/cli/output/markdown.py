"""Markdown for comments on pull requests."""

from __future__ import annotations

import re


def fold(summary: str, diff: str) -> str:
    """Return a diff folded under its summary; the fence is longer than any run of backquotes in the diff."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", diff)), default=0))
    return f"\n<details><summary>{summary}</summary>\n\n{fence}diff\n{diff}{fence}\n</details>\n"
