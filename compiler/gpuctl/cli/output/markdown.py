"""Markdown for comments on pull requests."""

from __future__ import annotations

import re


def fold(summary: str, diff: str) -> str:
    """A diff that is folded under its summary; its fence is longer than any run of back-ticks in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", diff)), default=0))
    return f"\n<details><summary>{summary}</summary>\n\n{fence}diff\n{diff}{fence}\n</details>\n"
