"""Parsing of the tables that commands print."""

from __future__ import annotations

import re
from typing import Any

from support.cluster_tools import Place


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table by heading; cells have no blanks, but for the last."""
    head, *lines = text.splitlines()
    names = re.split(r" {2,}", head)
    return [dict(zip(names, line.split(maxsplit=len(names) - 1), strict=True)) for line in lines]


def column(text: str, *headings: str) -> list[Any]:
    """The cells of one column of a table, or of several as tuples."""
    rows = [tuple(row[heading] for heading in headings) for row in table(text)]
    return [row[0] for row in rows] if len(headings) == 1 else rows


def section(text: str, title: str) -> list[dict[str, str]]:
    """The rows of a table inside what ``describe`` prints."""
    body = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
    return table("\n".join(line.removeprefix("  ") for line in body.splitlines()))


def facts(text: str) -> dict[str, str]:
    """The ``Name:   value`` lines of what ``describe`` prints."""
    return dict(re.findall(r"^(\w[\w ]*):[ ]{2,}(.*)$", text, re.MULTILINE))


def job_rows(place: Place, *arguments: str, code: int | None = 0) -> list[dict[str, str]]:
    """Return the rows of `get jobs` in the place."""
    return table(place.gpuctl("get", "jobs", *arguments, code=code).out)
