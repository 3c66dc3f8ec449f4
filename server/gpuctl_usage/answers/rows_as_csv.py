"""Rows as CSV (RFC 4180), which spreadsheets open: what somebody has called a thing is no formula there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that a spreadsheet computes, also behind a break."""
_NUMBERS = frozenset({int, float})
_AS_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def as_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]], end: str = "\r\n") -> str:
    """Rows below the names of their columns; what is not known is empty; labels and lists are JSON.

    A text that a spreadsheet would take for a formula has an apostrophe before it. Numbers are as they are.

    :param end: of a line; programs of Unix want it without the carriage return.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    writer.writerow(names)
    every = ((row.get(name) for name in names) for row in rows)
    # Most are numbers, which are as they are.
    writer.writerows([value if type(value) in _NUMBERS else _cell(value) for value in values] for values in every)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULAS) else value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return value
    # JSON of an object or a list is no formula.
    return _AS_JSON(value) if isinstance(value, (dict, list)) else value
