"""The tables of a month's report in Markdown, and the money in their cells."""

from __future__ import annotations

import re

Table = list[list[str]]


def tables_of_markdown(text: str) -> dict[str, Table]:
    """Title -> the rows below the headings, as text."""
    found: dict[str, Table] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        cells = [[cell.strip().strip("`").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        found[section.splitlines()[0]] = [[cell.replace("\\|", "|") for cell in row] for row in cells[2:]]
    return found


def cents(text: str) -> int:
    """Return an amount of money in hundredths."""
    assert re.fullmatch(r"\d+\.\d\d", text), text
    return int(text.replace(".", ""))
